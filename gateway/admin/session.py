"""Who is signed in to the dashboard. A session holds no token: only whose it is, and until when.

In the store, sealed, so that it is known to every replica; without a shared one a restart ends all of them. The browser
has a random number, the store its hash. A session ends with the token it was opened with.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.config.root import AdminUser
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError
from gateway.state.memory import MemoryStore
from gateway.state.sealing import Sealer, SealError
from gateway.state.store import Store

IDLE_SECONDS: Final = 1800.0
LIFE_SECONDS: Final = 43_200.0
MAX_OF_USER: Final = 16
"""Sessions of one user that were opened at this gateway; the oldest go first."""
NOTED: Final = 60.0
"""Seconds after which the use of a session is noted again."""
_PURPOSE: Final = "admin-session"


@dataclass(frozen=True, slots=True)
class Session:
    """One browser. ``csrf`` stands in every form that acts; times are seconds since the epoch."""

    user: str
    csrf: str
    since: float
    used: float

    def owns(self, given: str) -> bool:
        """Whether a form was made for this session."""
        return hmac.compare_digest(self.csrf.encode(), given.encode())


class Sessions:
    """All sessions of the users of now. ``clock`` gives seconds since the epoch."""

    def __init__(
        self,
        users: Mapping[str, AdminUser],
        store: Store | None = None,
        sealer: Sealer | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._users = users
        self._store = store or MemoryStore()
        self._sealer = sealer or Sealer([secrets.token_bytes(32)])
        self._clock = clock
        self._opened: dict[str, deque[str]] = {}

    async def start(self, user: str) -> str:
        """Open a session for a user and return what the browser is to keep."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        own = self._opened.setdefault(user, deque())
        own.append(_key(secret))
        while len(own) > MAX_OF_USER:
            await self._store.delete(own.popleft())
        await self._keep(_key(secret), Session(user, secrets.token_urlsafe(32), now, now))
        return secret

    async def find(self, secret: str) -> Session | None:
        """Return the session of a browser, None where it has none any more; finding it counts as use."""
        key, now = _key(secret), self._clock()
        session = self._opened_from(key, await self._store.get(key))
        if session is None or now - session.used > IDLE_SECONDS or now - session.since > LIFE_SECONDS:
            return None
        if now - session.used > NOTED:
            session = Session(session.user, session.csrf, session.since, now)
            await self._keep(key, session)
        return session

    async def end(self, secret: str) -> None:
        """Close a session, at every replica."""
        await self._store.delete(_key(secret))

    async def _keep(self, key: str, session: Session) -> None:
        left = min(IDLE_SECONDS + NOTED, session.since + LIFE_SECONDS - self._clock())
        token = self._sealer.seal(_PURPOSE, rawjson.encode(session), self._context(key, session.user))
        await self._store.put(key, rawjson.encode([session.user, token]), max(left, 1.0))

    def _opened_from(self, key: str, kept: bytes | None) -> Session | None:
        try:
            pair = rawjson.decode_value(kept or b"null")
            user, token = pair if isinstance(pair, list) and len(pair) == 2 else ("", "")
            if not isinstance(user, str) or not isinstance(token, str) or user not in self._users:
                return None
            session = rawjson.decode_as(Session, self._sealer.open(_PURPOSE, token, self._context(key, user)))
        except (JsonError, SealError):
            return None
        return session if session.user == user else None

    def _context(self, key: str, user: str) -> bytes:
        """Return what a session is bound to: with another token of its user it is over."""
        return rawjson.canonical_plain([key, user, self._users[user].token_sha256])


def _key(secret: str) -> str:
    return f"admin:{hashlib.sha256(secret.encode('utf-8', 'surrogateescape')).hexdigest()}"
