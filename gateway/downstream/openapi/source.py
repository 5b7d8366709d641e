"""Gets a document: the one that was read with the config, or one from an address, again only where it has changed.

What the API is sent (header fields, tokens) goes along only where the document comes from the API's own origin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import aiohttp

from gateway.config import api_document
from gateway.config.api_document import MAX_DOCUMENT, ApiDocument, BadDocument
from gateway.config.servers import Server
from gateway.downstream.authorizer import Authorizer
from gateway.downstream.client import HttpClient, failure
from gateway.downstream.openapi.addresses import origin_of
from gateway.downstream.stream import read_body
from gateway.downstream.transport import Departure
from gateway.errors import DownstreamError, Reason

_ACCEPT: Final = "application/vnd.oai.openapi+json, application/json, application/yaml;q=0.9, */*;q=0.5"
_NOT_MODIFIED: Final = 304
_MAX_TAG: Final = 1024


class Source:
    """Where one server's document comes from. ``on_blocked`` hears of each dial that the rules forbid."""

    def __init__(self, server: Server, on_blocked: Callable[[], None] = lambda: None) -> None:
        self._server = server
        self._on_blocked = on_blocked
        self._document = server.document
        self._tag = ""

    async def get(self, authorizer: Authorizer | None) -> ApiDocument:
        """Return the document as it is now.

        Raises:
            DownstreamError: it cannot be had, or is none.
        """
        if not self._server.document_url:
            if self._document is None:
                raise DownstreamError(Reason.UNAVAILABLE, "its OpenAPI document was not read")
            return self._document
        seconds = self._server.timeouts.start
        try:
            async with asyncio.timeout(seconds):
                return await self._fetched(authorizer)
        except TimeoutError:
            raise DownstreamError(Reason.TIMEOUT, f"its OpenAPI document did not come within {seconds:g} s") from None
        except BadDocument as problem:
            raise DownstreamError(Reason.PROTOCOL_ERROR, f"its OpenAPI document {problem.told}") from None

    async def _fetched(self, authorizer: Authorizer | None) -> ApiDocument:
        url, server = self._server.document_url, self._server
        own = server.url is None or origin_of(server.url.get_secret_value()) == origin_of(url)
        client = HttpClient(server.at(url, bare=not own), self._on_blocked, authorizer if own else None)
        try:
            head = {"Accept": _ACCEPT} | ({"If-None-Match": self._tag} if self._tag else {})
            response = await client.send("GET", head, None, Departure())
            try:
                if response.status == _NOT_MODIFIED and self._document is not None:
                    return self._document
                if response.status != 200:
                    text = f"its OpenAPI document cannot be had: the answer has HTTP status {response.status}"
                    raise DownstreamError(Reason.UNAVAILABLE, text)
                data = await read_body(response, MAX_DOCUMENT)
                tag = response.headers.get("ETag", "")
            except aiohttp.ClientError as error:
                raise failure(error, False) from None
            finally:
                response.close()
        finally:
            await client.aclose()
        # A long one takes seconds to read.
        self._document = await asyncio.to_thread(api_document.read, data)
        self._tag = tag if len(tag) <= _MAX_TAG else ""
        return self._document
