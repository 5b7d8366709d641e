"""One replica at a time renews a token: when a refresh token comes twice, many authorization servers take back all.

A turn is a document that only one of several can make. Whoever ended in the middle of a turn leaves it behind: who has
watched it for longer than any turn lasts, by its own clock, takes it over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.vault import Vault
from gateway.state.documents import ABSENT, Version
from gateway.telemetry.logs import get_logger

LONGEST: Final = 60.0
"""Seconds that a renewal may take; a turn that is older was left behind."""
PAUSE: Final = 0.2
_log = get_logger("oauth")


class Turn:
    """A turn that is ours."""

    def __init__(self, vault: Vault, version: Version, context: tuple[str, ...]) -> None:
        self._vault = vault
        self._version = version
        self._context = context
        self.goes_on = False
        """It does not end with the block: what it was about is not done yet. Others wait until ``end``, or long."""

    async def end(self) -> None:
        """Let others have their turn."""
        if self._vault.shared:
            try:
                await self._vault.beside(self._vault.end_turn, self._version, *self._context)
            except OSError as error:
                _log.warning("turn_not_ended", server=self._context[0], error=type(error).__name__)


@asynccontextmanager
async def turn(vault: Vault, *context: str) -> AsyncIterator[Turn]:
    """Wait until it is ours to renew the token of a context, and let others have their turn afterwards.

    Raises:
        NoToken: nobody can tell, since what replicas share cannot be reached.
    """
    ours = Turn(vault, await _begun(vault, context) if vault.shared else ABSENT, context)
    try:
        yield ours
    finally:
        if not ours.goes_on:
            await ours.end()


async def _begun(vault: Vault, context: tuple[str, ...]) -> str:
    seen, since = ABSENT, time.monotonic()
    while True:
        over = seen if seen != ABSENT and time.monotonic() - since > LONGEST else ABSENT
        try:
            is_ours, version = await vault.beside(vault.begin_turn, over, *context)
        except OSError:
            text = "no token can be renewed while what the gateway's replicas share cannot be reached"
            raise NoToken(f'server "{context[0]}": {text}') from None
        if is_ours:
            return version
        if version != seen:
            seen, since = version, time.monotonic()
        await asyncio.sleep(PAUSE)
