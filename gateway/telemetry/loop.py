"""Measures how late the event loop runs: the first sign that something blocks it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_INTERVAL = 0.5


async def watch_loop(observe: Callable[[float], None]) -> None:
    """Report the loop's lag in seconds twice a second, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _INTERVAL
        await asyncio.sleep(_INTERVAL)
        observe(max(0.0, loop.time() - due))
