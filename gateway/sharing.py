"""Makes the store that a config asks for, and says once where everybody looks when a shared one goes or comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gateway.audit import events
from gateway.config.root import LoadedConfig
from gateway.config.stores import is_shared
from gateway.protocol.rawjson import Object
from gateway.state.fallback import FallbackStore, Standing
from gateway.state.memory import MemoryStore
from gateway.state.redis import Address, RedisStore
from gateway.state.store import Store
from gateway.state.wire import Down
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash
from gateway.telemetry.metrics import Metrics

_log = get_logger("store")

Raise: TypeAlias = Callable[[str, Object], None]
"""Raises an alert of a kind, about something."""


async def trouble(loaded: LoadedConfig) -> str:
    """Return in one word why a shared store cannot be used now; empty where it can, or there is none.

    Raises:
        ConfigError: the store needs a library or a file that is not there.
    """
    state = loaded.config.state
    if not is_shared(state.url):
        return ""
    tasks = TaskSet(on_crash(_log))
    store = RedisStore(_address(loaded), tasks)
    try:
        await store.connect()
        await store.probe()
    except Down as error:
        return error.reason
    finally:
        await store.aclose()
        await tasks.aclose()
    return ""


def _address(loaded: LoadedConfig) -> Address:
    state = loaded.config.state
    return Address(state.url.get_secret_value(), state.ca, state.prefix)


class Sharing:
    """The store of one gateway. ``write`` takes audit records that nobody waits for, ``alert`` alerts."""

    def __init__(
        self, loaded: LoadedConfig, tasks: TaskSet, metrics: Metrics, write: Callable[[Object], None], alert: Raise
    ) -> None:
        """Prepare; connects to nothing.

        Raises:
            ConfigError: the store needs a library or a file that is not there.
        """
        self._tasks = tasks
        self._metrics = metrics
        self._write = write
        self._alert = alert
        self._degraded = False
        self._shared: FallbackStore | None = None
        if is_shared(loaded.config.state.url):
            self._shared = FallbackStore(RedisStore(_address(loaded), tasks), self._told)
        self.store: Store = self._shared or MemoryStore()

    async def start(self) -> None:
        """Connect to a shared store; the gateway serves without it, too."""
        if self._shared is not None:
            await self._shared.start(self._tasks)

    async def aclose(self) -> None:
        """End the connections."""
        if self._shared is not None:
            await self._shared.aclose()

    def status(self) -> Object:
        """Say where state is kept, and whether that place is there."""
        if self._shared is None:
            return {"kind": "memory", "state": "up"}
        standing = self._shared.standing
        return {
            "kind": "shared",
            "state": "up" if standing.up else "degraded",
            "reason": standing.reason or None,
            "since": standing.since.isoformat(timespec="seconds"),
        }

    def _told(self, standing: Standing) -> None:
        self._metrics.ratelimit_degraded.set(0 if standing.up else 1)
        was_degraded, self._degraded = self._degraded, not standing.up
        if standing.up:
            _log.info("store_up")
            if was_degraded:
                self._write(events.gateway_event("store.recovered", {}))
            return
        _log.warning("store_degraded", reason=standing.reason)
        self._write(events.gateway_event("store.degraded", {"reason": standing.reason}))
        self._alert("store_degraded", {"name": standing.reason})
