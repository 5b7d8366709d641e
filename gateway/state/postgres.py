"""Documents in a table of PostgreSQL that several replicas share; made at first use.

The library works in one event loop, and who asks may block: so there is a thread with a loop of its own, in which one
connection listens for what others change, looks again now and then in case a word was lost, and finds out when the
database is away. While it is, nothing else waits for it. asyncpg comes with the ``postgres`` extra.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import importlib
import secrets
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from types import ModuleType
from typing import Final, ParamSpec, Protocol, TypeVar

from gateway.errors import ConfigError, Problem
from gateway.state.documents import ABSENT, MAX_DOCUMENT, Change, Conflict, Document, Health, Unreachable, Version
from gateway.state.mailbox import Mailbox
from gateway.state.threads import Threads
from gateway.tasks import TaskSet

TABLE: Final = "mcp_gateway_documents"
CHANNEL: Final = "mcp_gateway_documents"
TIMEOUT: Final = 4.0
"""Seconds for one statement, and for making a connection."""
LOOK: Final = 5.0
"""Seconds between two looks at what was changed, besides listening."""
LONGEST_PAUSE: Final = 1.0
"""Seconds between two attempts to reach a database that is away."""
CONNECTIONS: Final = 4
_WINDOW: Final = 60.0
"""Seconds that are looked at again, since a change is seen only some time after its own time."""
_OWN: Final = 1024
_LOCK: Final = 0x6D63705F67617465
_P = ParamSpec("_P")
_T = TypeVar("_T")

_CREATE: Final = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    name text PRIMARY KEY,
    version text NOT NULL,
    data bytea NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
_TELL: Final = f"SELECT pg_notify('{CHANNEL}', $2::text || ' ' || $1) FROM done"  # noqa: S608 - a constant
_INSERT: Final = (
    f"WITH done AS (INSERT INTO {TABLE} (name, version, data) VALUES ($1, $2, $3) "  # noqa: S608 - constants
    f"ON CONFLICT (name) DO NOTHING RETURNING 1) {_TELL}"
)
_UPDATE: Final = (
    f"WITH done AS (UPDATE {TABLE} SET version = $2, data = $3, changed_at = clock_timestamp() "  # noqa: S608 - constants
    f"WHERE name = $1 AND version = $4 RETURNING 1) {_TELL}"
)
_UPSERT: Final = (
    f"WITH done AS (INSERT INTO {TABLE} (name, version, data) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE "  # noqa: S608 - constants
    f"SET version = $2, data = $3, changed_at = clock_timestamp() RETURNING 1) {_TELL}"
)
_DELETE: Final = (
    f"WITH done AS (DELETE FROM {TABLE} WHERE name = $1 "  # noqa: S608 - constants
    f"AND ($3::text IS NULL OR version = $3) RETURNING 1) {_TELL}"
)
_LOAD: Final = f"SELECT data, version FROM {TABLE} WHERE name = $1"  # noqa: S608 - a constant
_VERSION: Final = f"SELECT version FROM {TABLE} WHERE name = $1"  # noqa: S608 - a constant
_NAMES: Final = f"SELECT name FROM {TABLE} WHERE starts_with(name, $1)"  # noqa: S608 - a constant
_RECENT: Final = f"SELECT name, version FROM {TABLE} WHERE changed_at > clock_timestamp() - make_interval(secs => $1)"  # noqa: S608 - a constant


class Connection(Protocol):
    """What is used of a connection."""

    async def fetch(self, query: str, *args: object) -> list[tuple[object, ...]]:
        """Run a statement and return its rows."""

    async def execute(self, query: str) -> str:
        """Run statements."""

    async def add_listener(self, channel: str, callback: Callable[[object, int, str, str], None]) -> None:
        """Listen."""

    def add_termination_listener(self, callback: Callable[[object], None]) -> None:
        """Have an end told."""

    def terminate(self) -> None:
        """End it without a word."""


class PostgresDocuments:
    """The documents of one table, in the schema that the search path of the URL's user leads to."""

    shared = True

    def __init__(self, url: str, where: str = "state.database") -> None:
        """Connect, and make the table where there is none. ``where`` names the setting that says so.

        Raises:
            ConfigError: the database cannot be reached, or does not let the table be made or read.
        """
        self._library = library(where)
        self._faults = gone(self._library.exceptions)
        self._url = url
        self._own: deque[str] = deque(maxlen=_OWN)
        self._seen: dict[str, str] = {}
        self._mailbox = Mailbox()
        self._threads = Threads("database work")
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._look_now = asyncio.Event()
        self._tasks = TaskSet(lambda _, error: self._mailbox.away(_reason(error)))
        self._thread = threading.Thread(target=self._loop.run_forever, name="database", daemon=True)
        self._thread.start()
        try:
            self._run(self._open())
        except (OSError, ValueError) as error:
            self.close()
            why = (error.strerror if isinstance(error, OSError) else "") or type(error).__name__
            hint = "nothing that must never expire can be read without it: start it, or correct the address"
            raise ConfigError([Problem(f"the database cannot be used: {why}", path=where, hint=hint)]) from None

    # For anybody, blocking.

    def load(self, name: str) -> Document | None:
        """Return a document; see ``Documents``."""
        rows = self._run(self._ask(lambda each: each.fetch(_LOAD, name)))
        return Document(bytes(_as(bytes, rows[0][0])), _as(str, rows[0][1])) if rows else None

    def replace(self, name: str, data: bytes | None, expected: Version | None) -> Version:
        """Put a document in place of another; see ``Documents``."""
        if data is not None and len(data) > MAX_DOCUMENT:
            raise OSError(errno.EFBIG, "is too large")
        return self._run(self._replace(name, data, expected))

    def names(self, prefix: str) -> list[str]:
        """Return the names that begin so; see ``Documents``."""
        return sorted(_as(str, row[0]) for row in self._run(self._ask(lambda each: each.fetch(_NAMES, prefix))))

    async def beside(self, work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run work that reads or writes here in threads of its own; see ``Documents``."""
        return await self._threads.run(work, *args, **kwargs)

    def place(self, name: str) -> str:
        """Return where a document is, without the address, which may hold a password."""
        return f"{name} in the database"

    def health(self) -> Health:
        """Return how things stand."""
        box = self._mailbox
        return Health("postgres", box.reachable, box.since, box.reason)

    async def changes(self) -> AsyncIterator[Change]:
        """Yield what others change."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # The loop may be over before the thread is.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(news.set)

        self._mailbox.wakes(wake)
        while True:
            await news.wait()
            news.clear()
            change = self._mailbox.take()
            if change is not None:
                yield change

    def close(self) -> None:
        """End connections and thread."""
        if self._closed:
            return
        self._threads.close()
        with suppress(OSError):
            self._run(self._end())
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT)
        if not self._thread.is_alive():
            self._loop.close()

    def _run(self, work: Coroutine[object, object, _T]) -> _T:
        """Do something in the thread; two statements are as long as anybody waits."""
        if self._closed:
            work.close()
            raise Unreachable(errno.ESHUTDOWN, "is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(3 * TIMEOUT)
        except (TimeoutError, concurrent.futures.CancelledError):
            future.cancel()
            raise Unreachable(errno.ETIMEDOUT, "does not answer") from None

    # In the thread.

    async def _open(self) -> None:
        """Make the pool and the table, and begin to watch."""
        try:
            self._pool = self._library.create_pool(
                self._url, min_size=0, max_size=CONNECTIONS, timeout=TIMEOUT, command_timeout=TIMEOUT, **_SETTINGS
            )
            await self._pool
            async with self._pool.acquire(timeout=TIMEOUT) as connection, connection.transaction():
                await self._prepare(connection)
        except self._faults as error:
            raise Unreachable(errno.EIO, _reason(error)) from None
        self._tasks.start(self._watch(), "database watch")

    async def _prepare(self, connection: Connection) -> None:
        if not (await connection.fetch(f"SELECT to_regclass('{TABLE}') IS NOT NULL"))[0][0]:
            # Two that make the same table at once would be in each other's way.
            await connection.fetch("SELECT pg_advisory_xact_lock($1)", _LOCK)
            await connection.execute(_CREATE)
        await connection.fetch(_VERSION, "")

    async def _end(self) -> None:
        await self._tasks.aclose()
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.terminate()

    async def _ask(self, ask: Callable[[Connection], Awaitable[_T]]) -> _T:
        if not self._mailbox.reachable:
            raise Unreachable(errno.EHOSTUNREACH, "cannot be reached")
        try:
            async with self._pool.acquire(timeout=TIMEOUT) as connection:
                return await ask(connection)
        except self._faults as error:
            # Whether it is this connection or all of it, the one that watches finds out.
            self._look_now.set()
            raise Unreachable(errno.EIO, _reason(error)) from None

    async def _replace(self, name: str, data: bytes | None, expected: Version | None) -> Version:
        if data is None and expected == ABSENT:
            if await self._ask(lambda each: each.fetch(_VERSION, name)):
                raise Conflict(name)
            return ABSENT
        version = secrets.token_hex(16)
        self._own.append(version)
        query, args = _statement(name, data, version, expected)
        try:
            done = await self._ask(lambda each: each.fetch(query, *args))
        except Unreachable:
            # The answer may be what was lost: then the new version is there.
            if data is not None and await self._is(name, version):
                return version
            # If it comes there all the same, that is news.
            self._own.remove(version)
            raise
        except asyncio.CancelledError:
            self._own.remove(version)
            raise
        if not done and expected is not None:
            raise Conflict(name)
        return version if data is not None else ABSENT

    async def _is(self, name: str, version: Version) -> bool:
        """Tell whether a document has this version; not where nobody can say."""
        try:
            rows = await self._ask(lambda each: each.fetch(_VERSION, name))
        except Unreachable:
            return False
        return bool(rows) and rows[0][0] == version

    async def _watch(self) -> None:
        """Listen as long as there is a connection; make another when it ends."""
        pause = 0.05
        while True:
            connection: Connection | None = None
            try:
                connection = await self._library.connect(
                    self._url, timeout=TIMEOUT, command_timeout=TIMEOUT, **_SETTINGS
                )
                connection.add_termination_listener(lambda _: self._look_now.set())
                await connection.add_listener(CHANNEL, self._heard)
                pause = 0.05
                await self._listen(connection)
            except self._faults as error:
                self._mailbox.away(_reason(error))
            finally:
                if connection is not None:
                    connection.terminate()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _listen(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            self._look_now.clear()
            rows = await connection.fetch(_RECENT, loop.time() - last + _WINDOW)
            last = loop.time()
            now = {_as(str, name): _as(str, version) for name, version in rows}
            known, self._seen = {*self._own, *self._seen.values()}, now
            self._mailbox.put(frozenset(name for name in now if now[name] not in known))
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._look_now.wait()

    def _heard(self, connection: object, process: int, channel: str, payload: str) -> None:
        version, _, name = payload.partition(" ")
        if version not in self._own:
            self._seen[name] = version
            self._mailbox.put(frozenset({name}))


_SETTINGS: Final = {
    "server_settings": {"application_name": "mcp-gateway", "statement_timeout": str(int(TIMEOUT * 1000))}
}


def _statement(
    name: str, data: bytes | None, version: Version, expected: Version | None
) -> tuple[str, tuple[object, ...]]:
    if data is None:
        return _DELETE, (name, version, expected)
    if expected is None:
        return _UPSERT, (name, version, data)
    if expected == ABSENT:
        return _INSERT, (name, version, data)
    return _UPDATE, (name, version, data, expected)


def _as(kind: type[_T], value: object) -> _T:
    """Return what a column holds by its declaration."""
    assert isinstance(value, kind)
    return value


def _reason(error: BaseException) -> str:
    """Name what went wrong without what the text may say: addresses, names of users."""
    return type(error).__name__


def gone(faults: ModuleType) -> tuple[type[Exception], ...]:
    """Return what the library raises for a connection that cannot be used, also one that ended under a statement.

    The last two are what it makes of a server whose version or encoding it does not know.
    """
    known = (faults.PostgresError, faults.InterfaceError, faults.InternalClientError)
    return (*known, OSError, TimeoutError, ValueError, LookupError)


def library(where: str) -> ModuleType:
    """Return the library.

    Raises:
        ConfigError: it is not installed, and the setting ``where`` needs it.
    """
    try:
        return importlib.import_module("asyncpg")
    except ImportError:
        hint = "pip install 'aiohttp-mcp-gateway[postgres]'"
        raise ConfigError([Problem("a postgres address needs asyncpg", path=where, hint=hint)]) from None
