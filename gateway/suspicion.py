"""Says once what in a server's definitions an operator should look at: in the log, the audit log and the metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from gateway.audit import events
from gateway.model.catalog import Suspicion
from gateway.protocol.rawjson import Object
from gateway.telemetry.logs import get_logger
from gateway.telemetry.metrics import Metrics

_log = get_logger("catalog")

MAX_REMEMBERED: Final = 20_000


class Suspicions:
    """Remembers what was said; ``write`` takes an audit record."""

    def __init__(self, write: Callable[[Object], None], metrics: Metrics) -> None:
        self._write = write
        self._metrics = metrics
        self._told: dict[tuple[str, str, str], None] = {}

    def tell(self, suspicions: Iterable[Suspicion]) -> None:
        """Say what has not been said of a definition as it is now."""
        for found in suspicions:
            key = (found.server, found.digest, found.rule)
            if key in self._told:
                continue
            if len(self._told) >= MAX_REMEMBERED:
                del self._told[next(iter(self._told))]
            self._told[key] = None
            name = f"{found.kind}:{found.name}"
            self._metrics.definitions_suspicious_total.inc(server=found.server, rule=found.rule)
            self._write(
                events.server_event(
                    "definition.suspicious",
                    found.server,
                    {"name": name, "rule": found.rule, "sha256": found.digest},
                )
            )
            _log.warning("definition_suspicious", server=found.server, name=name, rule=found.rule)
