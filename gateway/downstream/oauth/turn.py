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
from gateway.state.documents import ABSENT

LONGEST: Final = 60.0
"""Seconds that a renewal may take; a turn that is older was left behind."""
PAUSE: Final = 0.2


@asynccontextmanager
async def turn(vault: Vault, *context: str) -> AsyncIterator[None]:
    """Wait until it is ours to renew the token of a context, and let others have their turn afterwards.

    Raises:
        NoToken: nobody can tell, since what replicas share cannot be reached.
    """
    if not vault.shared:
        yield
        return
    version = await _begun(vault, context)
    try:
        yield
    finally:
        await asyncio.to_thread(vault.end_turn, version, *context)


async def _begun(vault: Vault, context: tuple[str, ...]) -> str:
    seen, since = ABSENT, time.monotonic()
    while True:
        over = seen if seen != ABSENT and time.monotonic() - since > LONGEST else ABSENT
        try:
            is_ours, version = await asyncio.to_thread(vault.begin_turn, over, *context)
        except OSError:
            text = "no token can be renewed while what the gateway's replicas share cannot be reached"
            raise NoToken(f'server "{context[0]}": {text}') from None
        if is_ours:
            return version
        if version != seen:
            seen, since = version, time.monotonic()
        await asyncio.sleep(PAUSE)
