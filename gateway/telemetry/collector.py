"""Takes export requests to an OpenTelemetry collector: one POST each, over HTTP (OTLP §OTLP/HTTP).

The address is judged where it is dialed; nothing of the environment takes part, redirects are not followed, and errors
show no URL. Knows nothing of what is in a request, of queues or of when to try again.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from yarl import URL

from gateway import __version__
from gateway.errors import ConfigError, Problem
from gateway.network import Dialing, Refused, factory

TRACES: Final = "/v1/traces"
TIMEOUT: Final = 10.0
MAX_ANSWER: Final = 64 * 1024
_AGAIN: Final = frozenset({429, 502, 503, 504})
"""Answers after which a request may be sent again (OTLP §Failures)."""


class Unsent(Exception):
    """A request did not get through; the text is safe to log.

    ``final``: sending it again would end the same. ``wait``: seconds that the collector asks for.
    """

    def __init__(self, why: str, wait: float = 0.0, *, final: bool = False) -> None:
        super().__init__(why)
        self.wait = wait
        self.final = final


@dataclass(frozen=True, slots=True)
class Address:
    """Where a collector is. ``headers`` go with every request; ``ca`` is a file of authorities, "" for the system's."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca: str = ""


class Collector:
    """One collector's endpoint for one signal, such as ``/v1/traces``."""

    def __init__(self, address: Address, path: str, timeout: float = TIMEOUT) -> None:
        """Prepare it; nothing is dialed yet.

        Raises:
            ConfigError: the authorities cannot be read.
        """
        url = URL(address.url)
        auth = {"Authorization": aiohttp.encode_basic_auth(url.user, url.password or "")} if url.user else {}
        self._url = endpoint(url.with_user(None), path)
        self._headers = {**auth, **address.headers, **_FIXED}
        self._timeout = timeout
        self._tls = tls_context(address.ca)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, body: bytes) -> bytes:
        """POST a compressed request and return the body of the answer.

        Raises:
            Unsent: it was not taken.
        """
        try:
            async with self._open().post(
                self._url, data=body, headers=self._headers, allow_redirects=False
            ) as response:
                answer = await response.content.read(MAX_ANSWER)
        except TimeoutError:
            raise Unsent(f"no answer within {self._timeout:g} s") from None
        except aiohttp.ClientConnectorError as error:
            refusal = error.os_error
            raise Unsent(str(refusal.strerror) if isinstance(refusal, Refused) else "no connection") from None
        except aiohttp.ClientError as error:
            raise Unsent(type(error).__name__) from None
        if 200 <= response.status < 300:
            return answer
        later = response.headers.get("Retry-After", "")
        wait = float(later) if later.isdecimal() and len(later) < 5 else 0.0
        raise Unsent(f"status {response.status}", wait, final=response.status not in _AGAIN)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._tls, socket_factory=factory(Dialing(trusted=True)), limit=1),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                timeout=aiohttp.ClientTimeout(total=self._timeout),
            )
        return self._session

    async def aclose(self) -> None:
        """Close the connection; a later request opens another."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


_FIXED: Final = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "gzip",
    "User-Agent": f"aiohttp-mcp-gateway/{__version__}",
}


def endpoint(url: URL, path: str) -> URL:
    """Put the signal's path behind a base address, in place of the path of traces where it was written out.

    (OTLP exporter §Endpoint URLs for OTLP/HTTP)
    """
    return url.with_path(url.path.rstrip("/").removesuffix(path).removesuffix(TRACES) + path)


def tls_context(ca: str) -> ssl.SSLContext:
    """Make the context for a collector; without a file of authorities those of the system are trusted.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError):
        raise ConfigError(
            [Problem("the authorities cannot be read: PEM is needed", path="telemetry.otlp.ca")]
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
