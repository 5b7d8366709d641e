"""Reads the config again and puts it in force as a whole, or changes nothing; remembers and tells how that went.

Knows why a reload is wanted and what may stand in its way, not what a config is made into: that is the runtime's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from gateway.admin.operations import Act
from gateway.config.loader import load
from gateway.config.reload_rules import reload_problems, renewed
from gateway.config.restart import restart_needed, with_running_files, with_running_sections
from gateway.config.root import LoadedConfig
from gateway.config.sources import Sources
from gateway.config.start_rules import start_problems
from gateway.config.watch import Watch
from gateway.errors import ConfigError, Problem
from gateway.protocol.rawjson import Object, Value
from gateway.tasks import outcome
from gateway.telemetry.logs import get_logger
from gateway.telemetry.metrics import Metrics

SIGNALLED: Final = Act("", "", "signal")
WATCHED: Final = Act("", "", "watch")
_DOUBTS: Final = 5
"""How often a config is read again before it is said to be wrong, while its files keep changing."""
_AGAIN: Final = 5.0
"""Seconds until files are looked at again after that failed."""
_log = get_logger("reload")

Prepare: TypeAlias = Callable[[LoadedConfig], Callable[[], None]]
"""Make what is needed for a config, or raise ``ConfigError``; the result puts it in force and cannot fail."""


@dataclass(frozen=True, slots=True)
class Running:
    """The gateway that runs: the config in force, and how to put another in force with servers whose files are new.

    ``recall`` looks for what is kept of new servers, and may wait for a disk or a database. ``put`` raises
    ``ConfigError`` before it has changed anything.
    """

    config: Callable[[], LoadedConfig]
    recall: Callable[[LoadedConfig], Awaitable[None]]
    put: Callable[[LoadedConfig, Collection[str]], None]


class Reloading:
    """Reloads of one gateway, one at a time."""

    def __init__(self, running: Running, note: Callable[[str, dict[str, Value]], None], metrics: Metrics) -> None:
        """Begin with the config that runs; ``note`` takes audit events and their facts."""
        self._running = running
        self._note = note
        self._metrics = metrics
        self._lock = asyncio.Lock()
        self._prepares: list[Prepare] = []
        self._listeners: list[Callable[[], None]] = []
        self._sources = running.config().sources
        self._result: Object = {"ok": True, "at": _now(), "cause": "start", "user": None, "problems": []}
        self._in_force = _now()
        self._watching = False
        metrics.config_reload_success.set(1)

    @property
    def good(self) -> bool:
        """Whether the config was in order when it was last read."""
        return self._result["ok"] is True

    def status(self) -> Object:
        """Return how the last load went, since when the config in force is, and whether its files are watched."""
        return {"last_load": self._result, "in_force_since": self._in_force, "watched": self._watching}

    def sources(self) -> Sources:
        """Return what the last load drew on, whether or not it could be served, and files that are still in use."""
        return self._sources

    def prepares(self, prepare: Prepare) -> None:
        """Have something made for each new config, which is refused where that fails."""
        self._prepares.append(prepare)

    def afterwards(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` after every good reload, until the result is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def reload(self, act: Act) -> Object:
        """Read the config again and put it in force; returns what is to be said about that.

        Raises:
            ConfigError: it cannot be served; the one before stays in force.
        """
        try:
            return await self._attempt(act)
        except ConfigError as error:
            self._refused(error, act)
            raise

    async def follow(self, watch: Watch) -> None:
        """Reload whenever ``watch`` sees a change, until cancelled."""
        self._watching = True
        try:
            while True:
                seen = await outcome(watch.changed())
                if isinstance(seen, Exception):
                    _log.error("config_watch_failed", error=type(seen).__name__)
                    await asyncio.sleep(_AGAIN)
                    continue
                # To say that a reload was refused may fail too.
                failed = await outcome(self._react(watch))
                if isinstance(failed, Exception):
                    _log.error("config_watch_failed", error=type(failed).__name__)
        finally:
            self._watching = False

    async def _react(self, watch: Watch) -> None:
        for doubts in range(_DOUBTS):
            try:
                await self._attempt(WATCHED)
            except ConfigError as error:
                # Somebody may be in the middle of writing it.
                if doubts + 1 < _DOUBTS and await outcome(watch.moved()) is True:
                    continue
                self._refused(error, WATCHED)
            return

    async def _attempt(self, act: Act) -> Object:
        """Reload; whatever stands in the way is a reason to refuse, a disk or a database included."""
        reloaded = await outcome(self._renew(act))
        match reloaded:
            case ConfigError():
                raise reloaded
            case Exception():
                text = f"could not be reloaded: {type(reloaded).__name__}"
                raise ConfigError([Problem(text, file=str(self._running.config().path))]) from reloaded
            case _:
                return reloaded

    async def _renew(self, act: Act) -> Object:
        async with self._lock:
            running = self._running.config()
            # Reading a long file takes long enough for others to notice.
            loaded = await asyncio.to_thread(load, running.path, os.environ, self._drew)
            problems = [*start_problems(loaded), *reload_problems(running, loaded)]
            if problems:
                raise ConfigError(problems)
            restart = restart_needed(running.config, loaded.config)
            wanted = with_running_sections(running, loaded).model_copy(update={"sources": self._sources})
            await self._running.recall(loaded)
            commits = [prepare(wanted) for prepare in self._prepares]
            self._running.put(wanted, renewed(running, loaded))
            for commit in commits:
                commit()
            self._took(act, wanted, restart)
            return self._result

    def _drew(self, sources: Sources) -> None:
        self._sources = with_running_files(self._running.config().sources, sources)

    def _took(self, act: Act, loaded: LoadedConfig, restart: list[str]) -> None:
        self._result = {"ok": True, **_told(act), "problems": [], "needs_restart": [*restart]}
        self._in_force = _now()
        self._metrics.config_reloads_total.inc(result="ok")
        self._metrics.config_reload_success.set(1)
        facts: Mapping[str, Value] = {"config_sha256": loaded.digest, "needs_restart": len(restart)}
        self._note("config.loaded", {**facts, "cause": act.cause, "user": act.user or None})
        _log.info("config_reloaded", cause=act.cause, user=act.user, needs_restart=restart)
        for listener in tuple(self._listeners):
            listener()

    def _refused(self, error: ConfigError, act: Act) -> None:
        problems = [str(problem) for problem in error.problems]
        self._result = {"ok": False, **_told(act), "problems": [*problems]}
        self._metrics.config_reloads_total.inc(result="failed")
        self._metrics.config_reload_success.set(0)
        facts: Mapping[str, Value] = {"problems": len(problems), "cause": act.cause, "user": act.user or None}
        self._note("config.reload_failed", {**facts})
        _log.error("config_refused", cause=act.cause, user=act.user, problems=problems)


def restless() -> None:
    """Say that files have been changing for so long that nothing is read."""
    _log.warning("config_files_keep_changing")


def _told(act: Act) -> Object:
    return {"at": _now(), "cause": act.cause, "user": act.user or None}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
