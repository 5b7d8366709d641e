"""What a client of one server asks before each request: what to send along that proves who we are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol, runtime_checkable

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Refusal:
    """A 401 or 403: what was sent along, and the ``WWW-Authenticate`` values that came back."""

    status: int
    sent: Mapping[str, str] = field(repr=False)
    challenges: tuple[str, ...] = ()


class Authorizer(Protocol):
    """The gateway's credential for one server, and for one caller where each has its own."""

    async def headers(self) -> Mapping[str, str]:
        """Return the headers to send along with the next request.

        Raises:
            DownstreamError: there is no credential, and without one the server is not worth asking.
        """

    async def refused(self, refusal: Refusal) -> bool:
        """Take a refusal; tell whether the request should be sent once more, with new headers.

        Raises:
            DownstreamError: nothing better can be had now.
        """


@runtime_checkable
class Authorizable(Protocol):
    """A transport that can send credentials along."""

    def authorize(self, authorizer: Authorizer) -> None:
        """Send what this gives along with every request; before ``open``."""


def authorize(transport: object, authorizer: Authorizer | None) -> None:
    """Let a transport send credentials along, if it can: those of processes are in their environment."""
    if authorizer is not None and isinstance(transport, Authorizable):
        transport.authorize(authorizer)


class Anonymous:
    """Sends nothing along."""

    async def headers(self) -> Mapping[str, str]:
        """Return nothing."""
        return NOTHING

    async def refused(self, refusal: Refusal) -> bool:
        """Accept it."""
        return False
