"""Puts tracing together from a config: the tracer that all of the gateway uses, and the way to the collector.

Spans are made only while ``telemetry.otlp`` is set; the library for it is not even imported before.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from types import ModuleType
from typing import Final

from gateway.config.root import LoadedConfig
from gateway.config.telemetry import Collector as Section
from gateway.errors import ConfigError, Problem
from gateway.tasks import TaskSet
from gateway.telemetry.collector import TRACES, Address, Collector
from gateway.telemetry.export import Export, Outbox
from gateway.telemetry.logs import get_logger, on_crash
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.resource import resource
from gateway.telemetry.spans import OFF, Carrier, Facts, Side, Span, Tracer

_HOME: Final = "gateway.telemetry.traces"
LAST_WORDS: Final = 2.0
"""Seconds for the spans that wait when the gateway ends."""
_log = get_logger("tracing")


class Tracing:
    """The gateway's tracer, which a reload switches on, off, or elsewhere."""

    def __init__(self, loaded: LoadedConfig, metrics: Metrics, pseudonym: Callable[[str], str]) -> None:
        """Prepare what the config asks for; ``pseudonym`` stands in for ids of sessions.

        Raises:
            ConfigError: the library is missing, or the collector's authorities cannot be read.
        """
        self._meters = _Meters(metrics)
        self._pseudonym = pseudonym
        self._section: Section | None = None
        self._tracer: Tracer = OFF
        self._queue: Outbox | None = None
        self._export: Export | None = None
        self._tasks = TaskSet(on_crash(_log))
        self._running = False
        self.prepare(loaded)()

    @property
    def on(self) -> bool:
        """Whether there is anybody to tell of spans."""
        return self._tracer.on

    def begin(self, side: Side, name: str, parent: Carrier, facts: Facts) -> Span:
        """Begin a span below a parent; an empty one begins a trace."""
        return self._tracer.begin(side, name, parent, facts)

    def pseudonym(self, secret: str) -> str:
        """Return what stands for a secret, such as the id of a session."""
        return self._pseudonym(secret)

    def prepare(self, loaded: LoadedConfig) -> Callable[[], None]:
        """Make what a config asks for; the result puts it in force and cannot fail.

        Raises:
            ConfigError: it cannot be made; nothing has changed.
        """
        section = loaded.config.telemetry.collector
        if section is None:
            return self._switch_off
        way = Collector(Address(*section.opened()), TRACES)
        home = _library()
        return lambda: self._switch_on(section, way, home)

    def _switch_off(self) -> None:
        if self.on:
            _log.info("tracing_off")
        # What waits is sent all the same.
        self._section, self._tracer = None, OFF

    def _switch_on(self, section: Section, way: Collector, home: ModuleType) -> None:
        if self._export is None:
            queue: Outbox = home.Queue(lambda count: self._meters.spans(count, "dropped"))
            self._queue, self._export = queue, Export(queue, way, self._meters)
            if self._running:
                self._tasks.start(self._export.run(), "spans")
        else:
            # Also where nothing in the section has changed: the file of authorities may have.
            self._export.change(way)
        if section != self._section:
            sampling = home.Sampling(section.sample, section.follow)
            self._section, self._tracer = section, home.Traces(sampling, resource(os.environ), self._queue)
            _log.info("tracing_on", sample=section.sample, follow=section.follow)

    def start(self) -> None:
        """Send spans from now on."""
        self._running = True
        if self._export is not None:
            self._tasks.start(self._export.run(), "spans")

    async def aclose(self) -> None:
        """Send what is under way and what waits, if that is quick, and end."""
        began = time.monotonic()
        if self._export is not None:
            await self._export.settle(LAST_WORDS)
        await self._tasks.aclose()
        if self._export is not None:
            await self._export.aclose(max(0.0, LAST_WORDS - (time.monotonic() - began)))


def _library() -> ModuleType:
    try:
        return importlib.import_module(_HOME)
    except ModuleNotFoundError:
        hint = "pip install 'aiohttp-mcp-gateway[otel]'"
        raise ConfigError([Problem("traces need the OpenTelemetry SDK", path="telemetry.otlp", hint=hint)]) from None


class _Meters:
    """Counts spans."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def spans(self, count: int, result: str) -> None:
        """Count what became of some."""
        self._metrics.spans_total.inc(count, result=result)

    def failed(self) -> None:
        """Count an attempt."""
        self._metrics.span_export_failures_total.inc()
