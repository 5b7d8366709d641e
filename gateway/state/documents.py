"""What must never expire, as named documents that are replaced as a whole and only by who has read the last version.

One replica keeps them as files of its own; several share a directory or a PostgreSQL database. Everything but
``changes`` and ``beside`` blocks: it is meant for start-up, and for the threads that ``beside`` has for it. Knows
nothing of what a document holds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, ParamSpec, Protocol, TypeAlias, TypeVar

from gateway.errors import GatewayError

MAX_DOCUMENT: Final = 256 * 2**20
"""Bytes of one document; a longer one is neither read nor written."""

P = ParamSpec("P")
T = TypeVar("T")

Version: TypeAlias = str
"""Tells two states of a document apart; nothing but equality means anything."""
ABSENT: Final[Version] = ""
"""The version of a document that is not there."""


class Conflict(GatewayError):
    """Somebody else has replaced the document since it was read."""


class Unreachable(GatewayError, OSError):
    """Where documents are kept cannot be reached now; ``strerror`` says why, without any address."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it was read."""

    data: bytes
    version: Version


@dataclass(frozen=True, slots=True)
class Change:
    """Documents that others may have replaced, and whether any can be reached at the moment.

    ``anew``: they could not be for a time, perhaps a moment that nobody was told of; any may have been replaced.
    """

    names: frozenset[str]
    reachable: bool = True
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Health:
    """Where documents are, for operators. ``since`` is ISO 8601 in UTC: when ``reachable`` became what it is.

    ``reason`` says why they cannot be reached, without any address.
    """

    kind: str
    reachable: bool
    since: str
    reason: str = ""


class Documents(Protocol):
    """Documents by name; a name is ``WORD`` or ``FOLDER/WORD`` of letters, digits, dots, dashes and underscores."""

    @property
    def shared(self) -> bool:
        """Whether other replicas read and write here too."""

    def load(self, name: str) -> Document | None:
        """Return a document, None where there is none.

        Raises:
            OSError: it cannot be read.
        """

    def replace(self, name: str, data: bytes | None, expected: Version | None) -> Version:
        """Put ``data`` in place of the version that is expected, None to remove it; durable when this returns.

        ``expected`` None takes whatever is there. Returns the new version.

        Raises:
            Conflict: another version is there; nothing was changed.
            OSError: it cannot be written; nothing was changed, as far as can be told.
        """

    def names(self, prefix: str) -> list[str]:
        """Return the names that begin so, sorted.

        Raises:
            OSError: they cannot be read.
        """

    async def beside(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work that reads or writes here beside the loop, in threads that nothing else uses.

        Raises:
            Unreachable: too much waits already; and whatever ``work`` raises.
        """

    def changes(self) -> AsyncIterator[Change]:
        """Yield what others change, within a second, until closed; for one reader. Ends where nobody shares."""

    def place(self, name: str) -> str:
        """Return where a document is, for people."""

    def health(self) -> Health:
        """Return how things stand."""

    def close(self) -> None:
        """Let go of everything; of no use afterwards."""
