"""What the dashboard can ask of the running gateway beyond operations; the runtime is behind it.

All of it is bounded, and what takes long is done beside the event loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from gateway.admin.operations import Act
from gateway.audit.pages import Found, Place
from gateway.audit.query import Wanted
from gateway.protocol.rawjson import Object


@dataclass(frozen=True, slots=True)
class LiveCall:
    """A call that runs now; ``seconds`` since it came. ``stage`` is a short constant."""

    id: str
    client: str
    server: str
    name: str
    method: str
    stage: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which calls to count: over so many seconds, by what, and of whom alone ("" for all)."""

    seconds: float
    by: str
    client: str = ""
    server: str = ""
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Tally:
    """How calls ended, and how long they took: milliseconds under which half and 95 of 100 of them were."""

    ok: int = 0
    refused: int = 0
    failed: int = 0
    half_ms: float | None = None
    most_ms: float | None = None

    @property
    def calls(self) -> int:
        return self.ok + self.refused + self.failed


@dataclass(frozen=True, slots=True)
class Traffic:
    """Calls over time: one tally for each step of ``step`` seconds up to now, and one for each name, busiest first."""

    step: float
    over_time: tuple[Tally, ...]
    by_name: tuple[tuple[str, Tally], ...]
    whole: Tally = field(default_factory=Tally)


@dataclass(frozen=True, slots=True)
class Corner:
    """Which part of the matrix is shown: tools of a server, or with a text in their name, from a row and column on."""

    server: str = ""
    text: str = ""
    row: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class Matrix:
    """Who may call what. ``cells`` has a line for each tool, with a short constant for each who."""

    whos: tuple[str, ...]
    tools: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    total_whos: int
    total_tools: int


@dataclass(frozen=True, slots=True)
class Supposed:
    """A call to explain: who would call what, as the command line says it. Lists are split at commas or spaces."""

    principal: str
    target: str
    arguments: str = "{}"
    view: str = ""
    groups: str = ""
    scopes: str = ""


@dataclass(frozen=True, slots=True)
class Explained:
    """Why a call would be allowed or not."""

    allowed: bool
    visible: bool
    lines: tuple[str, ...]


class Busy(Exception):
    """Somebody else's search runs; nothing was done."""


class Views(Protocol):
    """Reading is free of side effects, but that searches of the audit log are recorded."""

    async def signed(self, act: Act, what: str) -> None:
        """Record that a user has signed ``in`` or ``out``.

        Raises:
            AuditUnavailable: it cannot be recorded.
        """

    async def sign_in_refused(self, source: str, reason: str) -> None:
        """Record a sign-in that failed."""

    def status(self) -> Object:
        """Return the state of everything that costs little to tell, without secrets."""

    def pending(self) -> int:
        """Return how many calls wait for a person."""

    def calls(self) -> tuple[LiveCall, ...]:
        """Return the calls that run, the oldest first."""

    async def traffic(self, chosen: Chosen) -> Traffic:
        """Count the calls of the last hours."""

    async def matrix(self, corner: Corner) -> Matrix:
        """Return a part of who may call what."""

    async def weights(self) -> Object:
        """Return what the list of each configured client weighs: ``tools``, ``approx_tokens``; not of too many."""

    def policies(self) -> tuple[Object, ...]:
        """Return what is configured of each policy, to read."""

    def explain(self, supposed: Supposed) -> Explained:
        """Say why a call would be allowed or not.

        Raises:
            ValueError: something in it cannot be read; the text says what.
        """

    def approval(self, user: str, entry_id: str) -> Object:
        """Return one call that waits or was decided, with whether this user may decide it.

        Raises:
            KeyError: nothing of that id waits.
        """

    def waiting(self, user: str) -> tuple[Object, ...]:
        """Return all of them, the oldest first, with the beginning of their arguments alone."""

    async def differences(self, server: str, first: int, most: int) -> Object:
        """Return how a server's pin stands, with some of what differs, and how much that is in ``total``.

        Raises:
            KeyError: no such server.
        """

    async def difference(self, server: str, item: str) -> Object:
        """Return one difference with ``before_text`` and ``after_text``: all of it, as approved and as it is now.

        Raises:
            KeyError: no such server, or nothing of that name differs.
        """

    def tools(self, server: str, first: int, most: int) -> Object:
        """Return some tools of a server, and how many it has in ``total``."""

    async def audit(self, act: Act, wanted: Wanted, before: Place | None) -> Found:
        """Search the audit log backwards, as far as one search goes.

        Raises:
            Busy: another search runs.
            OSError: it cannot be read.
        """

    async def chain(self) -> Object:
        """Return how the audit chain stands: numbers, sizes, the last checkpoint."""
