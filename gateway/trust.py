"""Watches the pins of the running gateway and says what differs: in the log, the audit log and the metrics.

Mode ``warn``: nothing is held back.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.audit import events
from gateway.config.servers import Server
from gateway.downstream.fingerprint import identity
from gateway.model.catalog import Listing
from gateway.pinning.fingerprint import observe
from gateway.pinning.pins import Pins
from gateway.protocol.rawjson import Object
from gateway.telemetry.logs import get_logger
from gateway.telemetry.metrics import Metrics

_log = get_logger("pins")

PIN_FILE: Final = "pins.json"
OFF: Final = "off"


class Trust:
    """The pins of one gateway. ``write`` takes audit records, ``key`` keys the digests of what operators wrote."""

    def __init__(self, state: Path, key: bytes, write: Callable[[Object], None], metrics: Metrics) -> None:
        """Read the pin file.

        Raises:
            ConfigError: it is damaged.
        """
        self._pins = Pins(state / PIN_FILE)
        self._key = key
        self._write = write
        self._metrics = metrics

    def seen(self, name: str, server: Server, listing: Listing) -> None:
        """Compare a server's fresh lists with its pin; each difference is reported once."""
        if server.pin.mode == OFF:
            return
        try:
            news = self._pins.check(name, observe(listing, identity(server, self._key)))
        except OSError as error:
            _log.error("pins_not_written", server=name, error=type(error).__name__)
            return
        if news is None:
            self._write(events.server_event("pin.recorded", name, {"definitions": len(listing.definitions)}))
            return
        for item in news:
            facts: Object = {"aspect": item.aspect, "name": item.name, "before": item.before, "after": item.after}
            self._write(events.server_event("pin.mismatch" if item.after else "pin.removed", name, facts))
            self._metrics.pin_mismatches_total.inc(server=name, kind=item.aspect)
            _log.warning("pin_differs", server=name, aspect=item.aspect, definition=item.name)

    def state(self, name: str, server: Server | None) -> str:
        """Return how a server's pin stands: ``off``, ``unknown``, ``recorded`` or ``changed``."""
        return OFF if server is None or server.pin.mode == OFF else self._pins.state(name)

    def changed(self, name: str) -> list[str]:
        """Name what differs, for people."""
        return [item.name or item.aspect for item in self._pins.changed(name)]
