"""The mutable side of a call: its way back to the client while it runs, and what happened to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.protocol.rawjson import Members

Notify: TypeAlias = Callable[[str, Members], None]
"""Takes a notification's method and params; must not block."""


def discard(method: str, params: Members) -> None:
    """Take a notification nobody listens to."""


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """What answered: shown in ``_meta`` and written to the audit log."""

    server: str
    transport: str
    instance: str
    fingerprint: str
    server_info: str = ""
    pin: str = "off"


@dataclass(slots=True)
class Exchange:
    """One call's notebook.

    ``notify`` carries progress (with the client's own token) and log messages to the call's own stream.
    ``dispatched`` is set just before the first byte can reach the server: the truth behind ``mayHaveRun``.
    Times are monotonic seconds.
    """

    notify: Notify = discard
    started: float = field(default_factory=time.monotonic)
    dispatched: bool = False
    dispatched_at: float = 0.0
    answered_at: float = 0.0
    instance: InstanceFacts | None = None
    notes: dict[str, str] = field(default_factory=dict)

    def mark_dispatched(self) -> None:
        """Note that the request is about to leave; the first call counts."""
        if not self.dispatched:
            self.dispatched = True
            self.dispatched_at = time.monotonic()
