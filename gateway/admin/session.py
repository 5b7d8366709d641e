"""Who is signed in to the dashboard. A session holds no token: only whose it is, and until when.

In memory, so that a restart ends all of them. The browser has a random number, the gateway its hash.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

IDLE_SECONDS: Final = 1800.0
LIFE_SECONDS: Final = 43_200.0
MAX_SESSIONS: Final = 256
MAX_OF_USER: Final = 16


@dataclass(slots=True)
class Session:
    """One browser. ``csrf`` stands in every form that acts; times are monotonic seconds."""

    user: str
    csrf: str
    since: float
    used: float

    def owns(self, given: str) -> bool:
        """Whether a form was made for this session."""
        return hmac.compare_digest(self.csrf.encode(), given.encode())


class Sessions:
    """All sessions; the longest unused one goes when there are too many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def start(self, user: str) -> str:
        """Open a session for a user and return what the browser is to keep."""
        now = self._clock()
        own = [key for key, session in self._open.items() if session.user == user]
        for key in own[: len(own) - MAX_OF_USER + 1] if len(own) >= MAX_OF_USER else ():
            del self._open[key]
        while len(self._open) >= MAX_SESSIONS:
            self._open.popitem(last=False)
        secret = secrets.token_urlsafe(32)
        self._open[_key(secret)] = Session(user, secrets.token_urlsafe(32), now, now)
        return secret

    def find(self, secret: str) -> Session | None:
        """Return the session of a browser, None where it has none any more; finding it counts as use."""
        key = _key(secret)
        session, now = self._open.get(key), self._clock()
        if session is None:
            return None
        if now - session.used > IDLE_SECONDS or now - session.since > LIFE_SECONDS:
            del self._open[key]
            return None
        session.used = now
        self._open.move_to_end(key)
        return session

    def end(self, secret: str) -> None:
        """Close a session."""
        self._open.pop(_key(secret), None)


def _key(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
