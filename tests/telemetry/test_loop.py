"""How late the event loop runs is reported."""

from __future__ import annotations

import asyncio
import time

from gateway.telemetry.loop import watch_loop


async def test_a_blocked_loop_is_seen() -> None:
    lags: asyncio.Queue[float] = asyncio.Queue()
    watch = asyncio.get_running_loop().create_task(watch_loop(lags.put_nowait))
    await asyncio.sleep(0)
    time.sleep(0.8)  # What must never happen in the gateway: block the loop past the next report.
    async with asyncio.timeout(5):
        assert await lags.get() > 0.2
    watch.cancel()
