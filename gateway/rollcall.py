"""Lists every server of a config once, for a check: starts them, asks, and ends them. Starts no listener."""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

from gateway.catalog.collect import collect
from gateway.config.root import LoadedConfig
from gateway.downstream.guardian import Guardian
from gateway.downstream.hooks import Hooks
from gateway.downstream.pool import Pool, PoolOptions
from gateway.errors import DownstreamError
from gateway.model.catalog import Listing

_KEY_BYTES: Final = 32


def listed_now(loaded: LoadedConfig) -> tuple[dict[str, Listing], dict[str, str]]:
    """Return the lists, and why each of the others has none; each may take its ``timeouts.start``."""
    return asyncio.run(_listed(loaded))


async def _listed(loaded: LoadedConfig) -> tuple[dict[str, Listing], dict[str, str]]:
    guardian = Guardian()
    await guardian.start()
    met = {name: asyncio.Event() for name in loaded.config.servers}

    def down(server: str, reason: str) -> None:
        failures.setdefault(server, reason)
        met[server].set()

    hooks = Hooks(on_change=lambda server, _: met[server].set(), on_down=down)
    pool = Pool(PoolOptions(guardian, key=secrets.token_bytes(_KEY_BYTES), hooks=hooks))
    listings: dict[str, Listing] = {}
    failures: dict[str, str] = {}

    async def listed(name: str, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await met[name].wait()
                if name not in failures:
                    listings[name] = await collect(pool, name)
        except TimeoutError:
            failures[name] = f"no answer within {seconds:.0f} s"
        except DownstreamError as error:
            failures[name] = error.message

    try:
        pool.apply(loaded.config.servers)
        async with asyncio.TaskGroup() as group:
            for name, server in loaded.config.servers.items():
                group.create_task(listed(name, _patience(server.timeouts.start)))
    finally:
        await pool.aclose()
        await guardian.aclose()
    return listings, failures


def _patience(start: float) -> float:
    """Return how long to wait for one server: its own start limit, or what a person waits for a check."""
    return min(start, 30.0)
