"""Records over HTTP: batches as JSON Lines to a webhook, or as OTLP logs in JSON to a collector.

The address is judged where it is dialed; nothing of the environment takes part, and errors show no URL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import aiohttp
from yarl import URL

from gateway import __version__
from gateway.audit.sinks.delivery import Rejected, Unavailable
from gateway.network import Dialing, Refused, factory
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object
from gateway.telemetry.collector import Address, tls_context

TIMEOUT: Final = 10.0
_NEVER: Final = frozenset({400, 413, 415, 422})
"""Answers that are about the records. Others, such as 401 and 404, are about the config or the moment."""


class HttpSink:
    """Posts batches. ``encode`` makes a body and its content type of them; the address may bring headers of its own."""

    def __init__(
        self, place: str | Address, encode: Callable[[list[Object]], tuple[bytes, str]], timeout: float = TIMEOUT
    ) -> None:
        address = Address(place) if isinstance(place, str) else place
        url = URL(address.url)
        auth = {"Authorization": aiohttp.encode_basic_auth(url.user, url.password or "")} if url.user else {}
        self._headers = {**auth, **address.headers}
        self._tls = tls_context(address.ca)
        self._url = url.with_user(None)
        self._encode = encode
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    async def send(self, records: list[Object]) -> None:
        """Post them; see ``Sink``."""
        body, kind = self._encode(records)
        headers = {
            **self._headers,
            "Content-Type": kind,
            "User-Agent": f"aiohttp-mcp-gateway/{__version__}",
            # The same batch has the same key when it comes again.
            "Idempotency-Key": f"{records[0].get('chain')}:{records[0].get('seq')}-{records[-1].get('seq')}",
        }
        try:
            async with self._open().post(self._url, data=body, headers=headers, allow_redirects=False) as response:
                _judge(response.status, response.headers.get("Retry-After", ""))
        except TimeoutError:
            raise Unavailable(f"no answer within {self._timeout:g} s") from None
        except aiohttp.ClientConnectorError as error:
            refusal = error.os_error
            raise Unavailable(str(refusal.strerror) if isinstance(refusal, Refused) else "no connection") from None
        except aiohttp.ClientError as error:
            raise Unavailable(type(error).__name__) from None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=self._tls, socket_factory=factory(Dialing(trusted=True), lambda: None), limit=1
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                timeout=aiohttp.ClientTimeout(total=self._timeout),
            )
        return self._session

    async def aclose(self) -> None:
        """Close the connection."""
        if self._session is not None:
            await self._session.close()


def _judge(status: int, retry_after: str) -> None:
    if 200 <= status < 300:
        return
    if status in _NEVER:
        raise Rejected(f"status {status}")
    raise Unavailable(f"status {status}", float(retry_after) if retry_after.isdigit() else 0.0)


def json_lines(records: list[Object]) -> tuple[bytes, str]:
    """Write records as JSON Lines."""
    return b"".join(rawjson.canonical_plain(record) + b"\n" for record in records), "application/x-ndjson"
