"""A token that waits until its principal says the code that the page showed (client/elicitation §Phishing).

Whoever consented may have been led there by somebody else. So the page shows a code to the person who did, and only
the principal that can tell it gets the token, at whichever replica it calls.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.downstream.oauth.shelf import Kind, Shelf
from gateway.downstream.oauth.token import Token
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object

CONFIRM_SECONDS: Final = 600.0
MAX_TRIES: Final = 3
_CODE_ALPHABET: Final = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
_CODE_LENGTH: Final = 8
_TOKEN: Final[Kind] = "token"  # noqa: S105 - a kind's name.


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The token of one server for one principal. ``clock`` gives wall-clock seconds."""

    server: str
    owner: str
    shelf: Shelf
    clock: Callable[[], float]

    async def put(self, token: Token) -> str:
        """Have a token wait, in place of an earlier one; returns the code as people read it."""
        code = "".join(secrets.choice(_CODE_ALPHABET) for _ in range(_CODE_LENGTH))
        await self._put({"token": token.as_object(), "code": code, "until": self.clock() + CONFIRM_SECONDS, "tries": 0})
        return f"{code[:4]}-{code[4:]}"

    async def is_waiting(self) -> bool:
        """Tell whether a token waits."""
        return await self._waiting() is not None

    async def confirm(self, given: str) -> Token | None:
        """Return the token that waits, once, if this is its code; after three wrong ones it is dropped."""
        # Taken before it is looked at, so that of many attempts at once each one counts.
        waiting = self._current(await self.shelf.take(_TOKEN, self._name))
        if waiting is None:
            return None
        code, kept, tries = waiting.get("code"), waiting.get("token"), waiting.get("tries")
        plain = "".join(char for char in given.upper() if char in _CODE_ALPHABET)
        if isinstance(code, str) and hmac.compare_digest(plain.encode(), code.encode()):
            return Token.of_object(kept) if isinstance(kept, dict) else None
        if isinstance(tries, int) and tries + 1 < MAX_TRIES:
            await self.shelf.put_back(_TOKEN, self._name, waiting | {"tries": tries + 1}, CONFIRM_SECONDS)
        return None

    async def _waiting(self) -> Object | None:
        return self._current(await self.shelf.get(_TOKEN, self._name))

    def _current(self, found: Object | None) -> Object | None:
        until = found.get("until") if found is not None else None
        return found if isinstance(until, (int, float)) and until > self.clock() else None

    async def _put(self, value: Object) -> None:
        await self.shelf.put(_TOKEN, self._name, value, CONFIRM_SECONDS)

    @property
    def _name(self) -> str:
        return rawjson.canonical([self.server, self.owner]).decode()
