"""Puts the audit log and its sinks together from a config, and shows in metrics how they do."""

from __future__ import annotations

import asyncio
import hashlib
import os
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from yarl import URL

from gateway.audit import notes
from gateway.audit.log import AuditLog, AuditOptions
from gateway.audit.sinks import otlp
from gateway.audit.sinks.delivery import Delivery, Route, Sink, Unavailable
from gateway.audit.sinks.feed import Feed
from gateway.audit.sinks.postgres import Postgres
from gateway.audit.sinks.stdout import Stdout
from gateway.audit.sinks.webhook import HttpSink, json_lines
from gateway.config.root import Config, LoadedConfig
from gateway.config.sinks import OTLP, POSTGRES, STDOUT
from gateway.config.types import is_loopback
from gateway.errors import ConfigError, Problem
from gateway.tasks import TaskSet
from gateway.telemetry.collector import Address, endpoint
from gateway.telemetry.logs import get_logger
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.resource import resource

FOLDER: Final = "audit-sinks"
NOTES_EVERY: Final = 2.0
LAST_WORDS: Final = 2.0
"""Seconds that all sinks together have for what the end of the gateway wrote; the rest follows at the next start."""
_log = get_logger("audit")


def audit_log(loaded: LoadedConfig, state: Path, metrics: Metrics) -> AuditLog:
    """Make the log of a config; nothing is opened yet.

    Raises:
        ConfigError: its keys cannot be used.
    """
    facts = {"config_sha256": loaded.digest}
    return AuditLog(AuditOptions.from_config(loaded.config.audit, state, {**facts}, AuditMeters(metrics)))


class AuditMeters:
    """Counts what happens to the audit log. Called from its thread too."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def recorded(self, event: str) -> None:
        """Count a written record."""
        self._metrics.audit_records_total.inc(event=event)

    def failed(self, reason: str) -> None:
        """Count a failed write."""
        self._metrics.audit_write_errors_total.inc(reason=reason)

    def synced(self, seconds: float) -> None:
        """Time a group."""
        self._metrics.audit_fsync_seconds.observe(seconds)

    def lag(self, records: int) -> None:
        """Show what is not yet durable."""
        self._metrics.audit_lag_records.set(records)

    def dropped(self, records: int) -> None:
        """Count lost records."""
        self._metrics.audit_dropped_total.inc(records)

    def signed(self, at: float) -> None:
        """Show when the last checkpoint was made."""
        self._metrics.audit_last_checkpoint_timestamp_seconds.set(at)


class Shipping:
    """All sinks of one log."""

    def __init__(self, config: Config, state: Path, log: AuditLog, metrics: Metrics) -> None:
        self._state = state
        self._log = log
        texts = [each.get_secret_value() for each in config.audit.sinks]
        self._routes = [_route(text, config, state / FOLDER, log, metrics) for text in dict.fromkeys(texts)]
        self._deliveries = [Delivery(route) for route in self._routes]

    def start(self, tasks: TaskSet) -> None:
        """Deliver until the tasks are closed, each sink by itself, and write down what commands did with the log."""
        tasks.start(self._take_notes(), "audit notes")
        for delivery in self._deliveries:
            tasks.start(delivery.run(), "audit sink")

    async def _take_notes(self) -> None:
        while True:
            try:
                left = await asyncio.to_thread(notes.collect, self._state)
            except OSError as error:
                _log.warning("audit_notes_unreadable", reason=error.strerror)
                left = []
            for record in left:
                if str(record.get("event")) == "audit.verified" or str(record.get("event")).startswith(notes.PREFIX):
                    self._log.note(record)
            await asyncio.sleep(NOTES_EVERY)

    async def aclose(self) -> None:
        """Deliver what the closed log still holds, for a short time, and let go of connections."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await asyncio.gather(*(_last_words(delivery) for delivery in self._deliveries))
        for route in self._routes:
            await route.sink.aclose()


async def _last_words(delivery: Delivery) -> None:
    with suppress(Unavailable, OSError):
        while await delivery.step():
            continue


def _route(text: str, config: Config, folder: Path, log: AuditLog, metrics: Metrics) -> Route:
    kind, sink = _sink(text, config)
    # The place in the log belongs to the address; a secret in it must not show in a file's name.
    name = f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:8]}" if text != kind else kind
    feed = Feed(Path(config.audit.dir), folder / f"{name}.json")
    return Route(name, sink, feed, folder / f"{name}.dead.jsonl", _Meters(metrics, name), lambda: log.durable_seq)


def _sink(text: str, config: Config) -> tuple[str, Sink]:
    if text == STDOUT:
        return STDOUT, Stdout()
    if text.startswith(POSTGRES):
        return "postgres", Postgres(text)
    if text == OTLP or text.startswith("otlp+"):
        place = _collector(config) if text == OTLP else Address(text.removeprefix("otlp+"))
        url = str(endpoint(URL(place.url), otlp.PATH))
        return OTLP, HttpSink(replace(place, url=url), partial(otlp.logs, whose=resource(os.environ)))
    return "webhook", HttpSink(text, json_lines)


def _collector(config: Config) -> Address:
    """Return the address of ``telemetry.otlp``, as far as records may go there."""
    section = config.telemetry.collector
    if section is None:
        raise ConfigError([Problem("otlp needs the address telemetry.otlp", path="audit.sinks")])
    place = Address(*section.opened())
    url = URL(place.url)
    if url.scheme != "https" and not is_loopback(url.host or ""):
        hint = "make telemetry.otlp an https address, or give the sink its own: otlp+https://…"
        raise ConfigError([Problem("records leave the machine only over https", path="audit.sinks", hint=hint)])
    return place


class _Meters:
    """Counts what happens to one sink."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._metrics = metrics
        self._name = name

    def sent(self, records: int) -> None:
        """Count what arrived."""
        self._metrics.audit_sink_records_total.inc(records, sink=self._name, result="sent")

    def failed(self) -> None:
        """Count an attempt."""
        self._metrics.audit_sink_failures_total.inc(sink=self._name)

    def lost(self, records: int, result: str) -> None:
        """Count what did not arrive."""
        self._metrics.audit_sink_records_total.inc(records, sink=self._name, result=result)

    def lag(self, records: int) -> None:
        """Show what waits."""
        self._metrics.audit_sink_lag_records.set(records, sink=self._name)
