"""The way to one API: its document, the tools that are in it, and the HTTP client that calls them.

Stands where a transport stands, and knows no MCP: requests and notifications of the protocol have nowhere to go here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final
from weakref import WeakValueDictionary

import aiohttp

from gateway.config.api_document import ApiDocument
from gateway.config.servers import Server
from gateway.downstream.authorizer import Authorizer
from gateway.downstream.client import HttpClient
from gateway.downstream.lent import Lent
from gateway.downstream.meters import Meters, NoMeters
from gateway.downstream.openapi.addresses import Terms
from gateway.downstream.openapi.document import DocumentError
from gateway.downstream.openapi.source import Source
from gateway.downstream.openapi.toolset import Toolset, toolset_of
from gateway.downstream.transport import Departure, Inbox, Owed, Reply, Request
from gateway.errors import DownstreamError, Reason

_IN_USE: Final[WeakValueDictionary[tuple[ApiDocument, Terms], Toolset]] = WeakValueDictionary()
"""The tools that some connection has: made once for all of a server, and gone with the last one."""


def _made(document: ApiDocument, terms: Terms) -> Toolset:
    known = _IN_USE.get((document, terms))
    if known is None:
        known = _IN_USE[document, terms] = toolset_of(document, terms)
    return known


class ApiChannel:
    """One API. ``generation`` tells this conversation from its predecessors."""

    kind = "openapi"

    def __init__(self, name: str, server: Server, meters: Meters | None = None, generation: int = 1) -> None:
        self._name = name
        self._server = server
        self._meters = meters or NoMeters()
        self._generation = generation
        self._authorizer: Authorizer | None = None
        self._client: HttpClient | None = None
        self._source = Source(server, self._blocked)
        self._tools: Toolset | None = None
        self._closed = False
        self.owed = Owed()
        self.terms = Terms(
            server.url.get_secret_value() if server.url is not None else "",
            server.document_url,
            frozenset(name.lower() for name in server.headers),
        )

    def _blocked(self) -> None:
        self._meters.blocked(self._name)

    @property
    def lent(self) -> Lent:
        """What the API was given, the token that was last sent along included."""
        return self._client.lent if self._client is not None else Lent.of(self._server)

    @property
    def instance(self) -> str:
        """``openapi#3``."""
        return f"{self.kind}#{self._generation}"

    @property
    def key_digest(self) -> str:
        """Hex SHA-256 of the API's TLS key as last seen; empty without TLS."""
        return self._client.key_digest if self._client is not None else ""

    @property
    def last_words(self) -> str:
        """Nothing: what an API says is in its answers."""
        return ""

    @property
    def max_result(self) -> int:
        """Bytes of the longest answer that is read."""
        return self._server.max_result

    def authorize(self, authorizer: Authorizer) -> None:
        """Send what this gives along with every request; before ``open``."""
        self._authorizer = authorizer

    async def open(self, inbox: Inbox) -> None:
        """Do nothing yet: where to call is in the document."""

    async def tools(self) -> Toolset:
        """Read the document, and make tools of it.

        Raises:
            DownstreamError: it cannot be had, or has no tools.
        """
        document = await self._source.get(self._authorizer)
        try:
            made = await asyncio.to_thread(_made, document, self.terms)
        except DocumentError as error:
            raise DownstreamError(Reason.PROTOCOL_ERROR, f"its OpenAPI document {error}") from None
        if self._closed:
            raise DownstreamError(Reason.UNAVAILABLE, "the connection is closed")
        self._tools = made
        if self._client is None:
            address = self.terms.url or made.base
            self._client = HttpClient(self._server.at(address), self._blocked, self._authorizer)
        return made

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, departure: Departure
    ) -> aiohttp.ClientResponse:
        """Send one request and return the answer once its head is there; the caller closes it.

        Raises:
            DownstreamError: no answer, or no credential to be had.
        """
        if self._client is None:
            raise DownstreamError(Reason.UNAVAILABLE, "the connection is closed")
        return await self._client.send(method, headers, body, departure, target)

    async def request(self, request: Request) -> Reply:
        """Refuse: there is nobody who speaks the protocol."""
        raise DownstreamError(Reason.PROTOCOL_ERROR, "it is an API that speaks no MCP")

    async def notify(self, request: Request) -> None:
        """Refuse likewise."""
        raise DownstreamError(Reason.PROTOCOL_ERROR, "it is an API that speaks no MCP")

    async def aclose(self) -> None:
        """Close all connections; calls in flight fail. Safe to call twice."""
        self._closed = True
        self._tools = None
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
