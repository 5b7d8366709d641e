"""The mutable side of a call: its way back to the client while it runs, and what happened to it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members, Object, Raw

Notify: TypeAlias = Callable[[str, Members], None]
"""Takes a notification's method and params; must not block."""


Ask: TypeAlias = Callable[[dict[str, Raw]], Awaitable[Object]]
"""Puts a server's questions, by key, to the client and returns its answers, null for each it refused to give."""


def discard(method: str, params: Members) -> None:
    """Take a notification nobody listens to."""


def nothing() -> None:
    """Give up nothing."""


def keep_asking(key: str) -> None:
    """Take back no question."""


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """What answered: shown in ``_meta`` and written to the audit log.

    ``replica`` is the gateway that called it, where there can be several.
    """

    server: str
    transport: str
    instance: str
    fingerprint: str
    server_info: str = ""
    pin: str = "off"
    replica: str = ""


@dataclass(slots=True, weakref_slot=True)
class Exchange:
    """One call's notebook.

    ``notify`` carries progress (with the client's own token) and log messages to the call's own stream.
    ``ask`` is there where the client can be asked while its call runs; without it questions are the call's outcome.
    ``abandon`` gives up a request that waits, open at its server, for answers that will not come.
    ``withdraw`` takes a question back, by its key, that the client is being asked and the server does not ask any more.
    ``refusals`` are the errors that a client answered its questions with, by key: words of its own for "no answer".
    ``repeated`` is set where the outcome is no news: another request has told of the call's end, or will.
    ``dispatched`` is set just before the first byte can reach the server: the truth behind ``mayHaveRun``.
    Times are monotonic seconds.
    """

    notify: Notify = discard
    ask: Ask | None = None
    abandon: Callable[[], None] = nothing
    withdraw: Callable[[str], None] = keep_asking
    refusals: dict[str, ErrorObject] = field(default_factory=dict)
    repeated: bool = False
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
