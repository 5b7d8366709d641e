"""Delivers alerts to one address: in order, again after a failure, ever slower; a full queue loses the oldest.

The address may hold a secret and is never shown: logs name its place in ``alerts.to``. Where it resolves to is judged
when it is dialed (S118); redirects are not followed. Knows nothing of what an alert says.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import aiohttp
from yarl import URL

from gateway import __version__
from gateway.downstream.backoff import delay
from gateway.network import Dialing, factory
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash

_log = get_logger("alerts")

MAX_WAITING: Final = 256
TIMEOUT: Final = 10.0
"""Seconds one try may take."""
FIRST: Final = 1.0
LONGEST: Final = 300.0
"""Seconds between two tries."""
GRACE: Final = 2.0
"""Seconds in which what waits may still be delivered when the gateway ends."""
_AGAIN: Final = frozenset({408, 425, 429})
_HEADERS: Final = {"Content-Type": "application/json", "User-Agent": f"aiohttp-mcp-gateway/{__version__}"}

Counted = Callable[[str], None]
"""Takes what became of a try: ``delivered``, ``failed`` (it is tried again) or ``dropped``."""


class _Failed(Exception):
    """No delivery; the text is safe to log. ``final``: trying again would end the same."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between tries, at first and at most."""

    first: float = FIRST
    longest: float = LONGEST


class Webhook:
    """One address. ``number`` is its place in the config, from 0."""

    def __init__(self, number: int, url: str, counted: Counted, pace: Pace | None = None) -> None:
        self._number = number
        self._url = URL(url)
        self._counted = counted
        self._pace = pace or Pace()
        self._waiting: deque[bytes] = deque()
        self._tasks = TaskSet(on_crash(_log))
        self._busy = False
        self._idle = asyncio.Event()
        self._idle.set()
        tls = ssl.create_default_context()
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._tls = tls

    @property
    def waiting(self) -> int:
        """How many alerts are not delivered yet."""
        return len(self._waiting)

    def put(self, body: bytes) -> None:
        """Take an alert to deliver; never waits."""
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self._counted("dropped")
        self._waiting.append(body)
        if not self._busy:
            self._busy = True
            self._idle.clear()
            self._tasks.start(self._deliver(), "alerts")

    async def aclose(self, grace: float = GRACE) -> None:
        """Deliver what waits, if that is quick, and end."""
        try:
            async with asyncio.timeout(grace):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("alerts_not_delivered", target=self._number, waiting=len(self._waiting))
        await self._tasks.aclose()

    async def _deliver(self) -> None:
        failures = 0
        try:
            while self._waiting:
                body = self._waiting[0]
                try:
                    await self._post(body)
                except _Failed as failed:
                    self._counted("dropped" if failed.final else "failed")
                    if not failures or failed.final:
                        _log.warning(
                            "alert_not_delivered", target=self._number, reason=str(failed), again=not failed.final
                        )
                    if not failed.final:
                        failures += 1
                        await asyncio.sleep(delay(failures, self._pace.first, self._pace.longest))
                        continue
                else:
                    failures = 0
                    self._counted("delivered")
                self._done(body)
        finally:
            self._busy = False
            self._idle.set()

    def _done(self, body: bytes) -> None:
        # A full queue may have lost it while it was on its way.
        if self._waiting and self._waiting[0] is body:
            self._waiting.popleft()

    async def _post(self, body: bytes) -> None:
        connector = aiohttp.TCPConnector(ssl=self._tls, socket_factory=factory(Dialing(trusted=True)), force_close=True)
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=TIMEOUT),
        )
        try:
            async with (
                session,
                session.post(self._url, data=body, headers=_HEADERS, allow_redirects=False) as response,
            ):
                status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _Failed(type(error).__name__) from None
        if not 200 <= status < 300:
            raise _Failed(f"status {status}", final=status < 500 and status not in _AGAIN)
