"""What metrics want to know of the pool. Whoever keeps metrics wires it; the default looks away."""

from __future__ import annotations

from typing import Protocol


class Meters(Protocol):
    """Takes facts as they happen; methods must not block or raise. ``server`` is the configured name."""

    def state(self, server: str, state: str) -> None:
        """The server's state changed (values of ``health.State``)."""

    def restarted(self, server: str, reason: str) -> None:
        """Something must be started again: ``exit`` or ``start_failed``."""

    def protocol_error(self, server: str, kind: str) -> None:
        """The server broke the protocol; ``kind`` is one of few constants."""

    def stderr(self, server: str, size: int) -> None:
        """Bytes that the server's process wrote to its standard error."""

    def in_flight(self, server: str, calls: int) -> None:
        """Calls in flight now."""

    def blocked(self, server: str) -> None:
        """A dial was refused because of the address that the server's name resolved to."""


class NoMeters:
    """Looks away."""

    def state(self, server: str, state: str) -> None:
        """Do nothing."""

    def restarted(self, server: str, reason: str) -> None:
        """Do nothing."""

    def protocol_error(self, server: str, kind: str) -> None:
        """Do nothing."""

    def stderr(self, server: str, size: int) -> None:
        """Do nothing."""

    def in_flight(self, server: str, calls: int) -> None:
        """Do nothing."""

    def blocked(self, server: str) -> None:
        """Do nothing."""
