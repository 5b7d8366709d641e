"""Whether a server is worth a try: back-off after failed starts, a circuit after failed calls, and what status shows.

Knows clocks and counts; starts and closes nothing (S115, S126, G118, G129).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from gateway.downstream import backoff
from gateway.downstream.inspection import Quarantined
from gateway.downstream.oauth.errors import ConsentNeeded, NoToken
from gateway.errors import DownstreamError, Reason

THRESHOLD: Final = 5
"""Failed calls in a row that open the circuit."""
OPEN_SECONDS: Final = 30.0
SETTLED_SECONDS: Final = 30.0
"""A connection that lived this long wipes the slate clean."""
_COUNTED: Final = frozenset({Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.PROTOCOL_ERROR})

Clock = Callable[[], float]


class State(StrEnum):
    """What status and metrics show of a server."""

    STARTING = "starting"
    UP = "up"
    DEGRADED = "degraded"
    OPEN = "open"
    QUARANTINED = "quarantined"
    FAILED = "failed"
    CONSENT = "waiting for consent"


def state_after(error: DownstreamError) -> State:
    """Return the state of a server that could not be reached."""
    if isinstance(error, ConsentNeeded):
        return State.CONSENT
    return State.QUARANTINED if isinstance(error, Quarantined) else State.FAILED


def shown(moment: datetime) -> str:
    """Return a time of UTC as ISO 8601 with milliseconds."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_now() -> datetime:
    """Return the wall clock."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Restarts:
    """When something may be started again: it is tried for ever, ever slower, by one at a time."""

    server: str
    clock: Clock = time.monotonic
    failures: int = 0
    cause: str = ""
    _next: float = 0.0
    _trying: bool = False

    def check(self) -> None:
        """Take the right to start.

        Raises:
            DownstreamError: ``unavailable``, with the cause and the time of the next try.
        """
        if not self.failures:
            return
        if self._trying or self.wait() > 0:
            raise self.refusal()
        self._trying = True

    def refusal(self) -> DownstreamError:
        """Say why nothing is started now."""
        seconds = self.wait() or (1.0 if self._trying else 0.0)
        cause = self.cause or f'server "{self.server}" is not available'
        text = f"{cause}; next try in {max(1, round(seconds))} s"
        return DownstreamError(Reason.UNAVAILABLE, text, retry_after_ms=max(1, round(seconds * 1000)))

    def wait(self) -> float:
        """Return the seconds until the next try may be made."""
        return max(0.0, self._next - self.clock()) if self.failures else 0.0

    def failed(self, cause: str) -> None:
        """Note a failed start."""
        self._note(cause, backoff.delay(self.failures + 1))

    def ended(self, cause: str, lifetime: float) -> None:
        """Note the end of what had started; the first one in a while may start again at once (G011)."""
        if lifetime >= SETTLED_SECONDS:
            self.failures = 0
        self._note(cause, backoff.delay(self.failures) if self.failures else 0.0)

    def _note(self, cause: str, seconds: float) -> None:
        self.failures += 1
        self.cause = cause
        self._next = self.clock() + seconds
        self._trying = False

    def succeeded(self) -> None:
        """Note a start that worked."""
        self.failures, self.cause, self._trying = 0, "", False

    def released(self) -> None:
        """Give the right to start back, with nothing learned."""
        self._trying = False


@dataclass(slots=True)
class Circuit:
    """Stops calls to something that only fails them; one call at a time may try whether it is over."""

    server: str
    clock: Clock = time.monotonic
    failures: int = 0
    cause: str = ""
    _until: float = 0.0
    _probing: bool = False

    @property
    def is_open(self) -> bool:
        """Tell whether calls are refused."""
        return self.failures >= THRESHOLD

    def reset(self) -> None:
        """Forget the failures: what failed has been replaced."""
        self.failures, self.cause = 0, ""

    @contextmanager
    def call(self, counts: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Run one call under the circuit; ``counts`` tells afterwards whether a failure is one of its own.

        Raises:
            DownstreamError: ``unavailable``, with the cause and the time of the next try; or the call's own.
        """
        probing = self._admit()
        try:
            yield
        except DownstreamError as error:
            # A caller without a token says nothing about the server.
            if error.reason in _COUNTED and not isinstance(error, NoToken) and counts():
                self._failed(error.message)
            raise
        else:
            self.reset()
        finally:
            if probing:
                self._probing = False

    def _admit(self) -> bool:
        if not self.is_open:
            return False
        seconds = self._until - self.clock()
        if seconds > 0 or self._probing:
            wait = max(seconds, 1.0)
            text = f"{self.cause}; next try in {round(wait)} s"
            raise DownstreamError(Reason.UNAVAILABLE, text, retry_after_ms=round(wait * 1000))
        self._probing = True
        return True

    def _failed(self, cause: str) -> None:
        self.failures += 1
        self.cause = cause
        if self.is_open:
            self._until = self.clock() + OPEN_SECONDS

    def wait(self) -> float:
        """Return the seconds until a call may try again."""
        return max(0.0, self._until - self.clock()) if self.is_open else 0.0


@dataclass(slots=True)
class Facts:
    """What is shown of one server: the last real round trip, the last error, and since when it is as it is."""

    state: State = State.STARTING
    since: datetime = field(default_factory=utc_now)
    last_round_trip: datetime | None = None
    last_error: str = ""
    restarts: int = 0

    def move(self, state: State) -> bool:
        """Take a new state; tell whether it is one."""
        if state is self.state:
            return False
        self.state, self.since = state, utc_now()
        return True

    def round_trip(self) -> None:
        """Note that the server answered something just now."""
        self.last_round_trip = utc_now()


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server, for people. Times are ISO 8601 in UTC, ``next_retry`` is in seconds, ``last_error`` safe to show."""

    server: str
    kind: str
    state: State
    since: str
    era: str = ""
    version: str = ""
    product: str = ""
    connections: int = 0
    in_flight: int = 0
    last_round_trip: str | None = None
    last_error: str = ""
    next_retry: float | None = None
    restarts: int = 0
    consent_url: str = ""
    """Where an operator can give a consent that is needed, "" for none."""
