"""What a transport counts, for whoever keeps metrics; transports know none."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Takes counts; nothing here may block or raise."""

    def stderr(self, size: int) -> None:
        """Bytes that a process wrote to its standard error."""

    def protocol_error(self, kind: str) -> None:
        """Something that is no MCP message; ``kind`` is one of about ten constants such as ``unknown_id``."""


class NobodyWatches:
    """An observer for where nobody counts."""

    def stderr(self, size: int) -> None:
        """Count nothing."""

    def protocol_error(self, kind: str) -> None:
        """Count nothing."""
