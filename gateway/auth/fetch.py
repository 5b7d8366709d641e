"""One GET of a small public document of an issuer: bounded in time and size, no redirects, no secrets.

The address is judged where it is dialed (S118). Nothing of the environment takes part, and errors show no URL.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import aiohttp
from yarl import URL

from gateway import __version__
from gateway.errors import ConfigError, Problem
from gateway.network import Dialing, Refused, factory

TIMEOUT: Final = 5.0
"""Seconds for everything: name, connection, TLS, answer."""
MAX_DOCUMENT: Final = 2**20

_HEADERS: Final = {
    "User-Agent": f"aiohttp-mcp-gateway/{__version__}",
    "Accept": "application/json, application/jwk-set+json",
    "Accept-Encoding": "identity",
}
_PIECE: Final = 64 * 1024


class FetchError(Exception):
    """No document; the text is safe to log."""


@dataclass(slots=True)
class Line:
    """How documents are fetched; ``tls`` may be replaced, for the next one.

    ``on_blocked`` hears of each dial that the rules forbid.
    """

    tls: ssl.SSLContext
    on_blocked: Callable[[], None] = lambda: None

    async def get(self, url: str, dialing: Dialing) -> bytes:
        """Fetch one document.

        Raises:
            FetchError: no answer in time, a status other than 200, or more than 1 MiB.
        """
        connector = aiohttp.TCPConnector(
            ssl=self.tls, socket_factory=factory(dialing, self.on_blocked), force_close=True
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=TIMEOUT),
        )
        try:
            async with session, session.get(URL(url), headers=_HEADERS, allow_redirects=False) as response:
                if response.status != 200:
                    raise FetchError(f"status {response.status}")
                return await _read(response)
        except TimeoutError:
            raise FetchError(f"no answer within {TIMEOUT:g} s") from None
        except aiohttp.ClientConnectorError as error:
            raise FetchError(_reason(error)) from None
        except (aiohttp.ClientError, ValueError) as error:
            raise FetchError(f"no usable answer: {type(error).__name__}") from None


def context(ca: str) -> ssl.SSLContext:
    """Build the TLS settings: the system's authorities, or those of a PEM file instead.

    Raises:
        ConfigError: the file cannot be used.
    """
    try:
        made = ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError([Problem(f"authorities cannot be used: {reason}", path="auth.jwt.ca")]) from None
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    return made


async def _read(response: aiohttp.ClientResponse) -> bytes:
    found = bytearray()
    async for piece in response.content.iter_chunked(_PIECE):
        found += piece
        if len(found) > MAX_DOCUMENT:
            raise FetchError("longer than 1 MiB")
    return bytes(found)


def _reason(error: aiohttp.ClientConnectorError) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "its name cannot be resolved"
        case aiohttp.ClientConnectorCertificateError():
            return "its certificate cannot be trusted"
        case aiohttp.ClientConnectorError(os_error=Refused() as refusal):
            return refusal.strerror or "refused"
        case _:
            return "no connection"
