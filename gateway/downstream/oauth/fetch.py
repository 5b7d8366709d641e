"""Asks authorization servers: small documents, bounded in size and time, no redirects, only where it is safe to dial.

Addresses at an origin an operator wrote are dialed wherever they resolve; all others were learned from a server and
must be public unless its ``allow_networks`` names them (contract, section 2; S118, S119, S121). Judged at connect.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from gateway import __version__
from gateway.config.servers import Server
from gateway.config.types import is_loopback, split_http_url
from gateway.downstream.client import CONNECT_TIMEOUT
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.metadata import origin
from gateway.downstream.stream import read_body
from gateway.errors import DownstreamError
from gateway.network import Dialing, Refused, factory, networks
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object

MAX_DOCUMENT: Final = 64 * 1024
TIMEOUT: Final = 10.0
"""Seconds for one document, connection and all."""
_HEADERS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"aiohttp-mcp-gateway/{__version__}",
}


@dataclass(frozen=True, slots=True)
class Fetched:
    """One answer; ``document`` is empty where the body is no JSON object."""

    status: int
    document: Object


class Fetcher:
    """Asks on behalf of one server. ``on_blocked`` hears of each dial that the rules forbid."""

    def __init__(self, name: str, server: Server, on_blocked: Callable[[], None] = lambda: None) -> None:
        self._name = name
        self._allow = networks(server.allow_networks)
        self._on_blocked = on_blocked
        self._server_origin = origin(server.url.get_secret_value()) if server.url is not None else ""
        way = server.auth.way
        written = [way.issuer, getattr(way, "token_url", "")] if way is not None else []
        self._written = {self._server_origin} | {origin(url) for url in written if url}
        self._ca = server.auth.ca or server.tls.ca or None

    async def get(self, url: str) -> Fetched:
        """Fetch a document.

        Raises:
            NoToken: no answer, or none that may be used.
        """
        return await self._ask("GET", url, None, {})

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Fetched:
        """Send a form, such as a token request.

        Raises:
            NoToken: no answer, or none that may be used.
        """
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return await self._ask("POST", url, urlencode(form).encode(), {**headers, **kind})

    async def post_json(self, url: str, document: Object) -> Fetched:
        """Send a document, such as a registration.

        Raises:
            NoToken: no answer, or none that may be used.
        """
        return await self._ask("POST", url, rawjson.encode(document), {"Content-Type": "application/json"})

    async def _ask(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Fetched:
        target, dialing = self._judged(url)
        connector = aiohttp.TCPConnector(ssl=self._tls(), socket_factory=factory(dialing, self._on_blocked))
        try:
            async with (
                asyncio.timeout(TIMEOUT),
                aiohttp.ClientSession(
                    connector=connector,
                    cookie_jar=aiohttp.DummyCookieJar(),
                    trust_env=False,
                    auto_decompress=False,
                    timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT),
                ) as session,
                session.request(
                    method, target, data=body, headers={**_HEADERS, **headers}, allow_redirects=False
                ) as response,
            ):
                data = await read_body(response, MAX_DOCUMENT)
                return Fetched(response.status, _document(data))
        except TimeoutError:
            raise self._failed(f"gave no answer within {TIMEOUT:g} s") from None
        except DownstreamError:
            raise self._failed("gave an answer that is too long or compressed") from None
        except aiohttp.ClientConnectorError as error:
            refusal = error.os_error
            why = refusal.strerror if isinstance(refusal, Refused) else "no connection, or no name for it"
            raise self._failed(f"cannot be reached: {why}") from None
        except aiohttp.ClientError:
            raise self._failed("cannot be reached, or speaks no HTTP") from None

    def _tls(self) -> ssl.SSLContext:
        try:
            made = ssl.create_default_context(cafile=self._ca)
        except (OSError, ssl.SSLError):
            raise self._failed("cannot be reached: auth.ca cannot be read as certificates") from None
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        return made

    def _judged(self, url: str) -> tuple[URL, Dialing]:
        """Say how an address may be dialed; plain http only at the server's own origin, or on this machine."""
        try:
            parts = split_http_url(url)
            target = URL(url)
            place = origin(url)
        except ValueError:
            raise self._failed("has an address that cannot be used") from None
        is_plain = parts.scheme.lower() == "http" and place != self._server_origin
        if "@" in parts.netloc or (is_plain and not is_loopback(parts.hostname or "")):
            raise self._failed("has an address that is not https")
        return target, Dialing(place in self._written, self._allow, loopback_only=is_plain)

    def _failed(self, what: str) -> NoToken:
        return NoToken(f'server "{self._name}": its authorization server {what}')


def _document(data: bytes) -> Object:
    try:
        value = rawjson.decode_strict(data)
    except JsonError:
        return {}
    return value if isinstance(value, dict) else {}
