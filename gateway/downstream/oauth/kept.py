"""One token as it is kept: read, replaced, and replaced later where that cannot be done now.

A refresh token is good once. So what came in exchange for it must not be forgotten because the place where replicas
look for it is away for a moment: it is written again and again until it is there, unless something newer is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from gateway.downstream.oauth.token import Token
from gateway.downstream.oauth.vault import Vault, loaded, stored
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger

AGAIN: Final = 0.5
LONGEST: Final = 10.0
"""Seconds between two attempts, at first and at most: much shorter than another replica waits for a turn."""
_log = get_logger("oauth")


async def _nothing() -> None:
    """Nobody waits for it."""


def _never(kept: Token) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Owed:
    """A token that is to be kept, as long as ``is_current`` and nothing that is kept ``is_newer``; ``then`` follows."""

    token: Token
    is_current: Callable[[], bool]
    is_newer: Callable[[Token], bool] = _never
    then: Callable[[], Awaitable[None]] = _nothing


class Kept:
    """The token of one server for one owner, "" for the gateway itself."""

    def __init__(self, vault: Vault, tasks: TaskSet, name: str, owner: str) -> None:
        self._vault = vault
        self._tasks = tasks
        self._context = (name, "token", owner)
        self._unsaved = 0

    @property
    def is_behind(self) -> bool:
        """Tell whether something newer than what is kept is on its way there."""
        return self._unsaved > 0

    async def load(self) -> Token | None:
        """Return what is kept; None where there is nothing that can be read."""
        return Token.of_object(await loaded(self._vault, *self._context))

    async def save(self, token: Token | None) -> bool:
        """Keep a token in place of an earlier one, None for none; tells whether that worked."""
        self._unsaved += 1
        try:
            return await stored(self._vault, token.as_object() if token is not None else {}, *self._context)
        finally:
            self._unsaved -= 1

    def save_soon(self, owed: Owed, pause: float = 0.0) -> None:
        """Keep a token from a task of its own, which tries until that works."""
        self._unsaved += 1
        task = self._tasks.start(self._saved(owed, pause), f"keep token {self._context[0]}")
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        # Not a finally of the task: one that is cancelled before its first step never gets there.
        self._unsaved -= 1

    async def _saved(self, owed: Owed, pause: float) -> None:
        await asyncio.sleep(pause)
        while not await self._is_settled(owed):
            pause = min(max(pause * 2, AGAIN), LONGEST)
            await asyncio.sleep(pause)
        await owed.then()

    async def _is_settled(self, owed: Owed) -> bool:
        """Try once; tell whether the token is kept, or need not be any more."""
        if not owed.is_current():
            return True
        try:
            kept = Token.of_object(await self._vault.beside(self._vault.read, *self._context))
        except OSError:
            return False
        if kept is not None and owed.is_newer(kept):
            _log.info("token_not_kept", server=self._context[0], reason="another one is by now")
            return True
        return await self.save(owed.token)
