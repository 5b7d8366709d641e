"""A real PostgreSQL that goes and comes back: nothing waits for it, and what was missed is told."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from gateway.errors import ConfigError
from gateway.state import postgres
from gateway.state.documents import ABSENT, Change, Document, Unreachable
from gateway.state.postgres import TABLE, PostgresDocuments
from tests.kit.documents import postgres_opener
from tests.kit.gateway import descendants, eventually
from tests.kit.postgres import Database, binaries

asyncpg = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no PostgreSQL")

_CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mcp-gateway'"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    made = Database(tmp_path_factory.mktemp("postgres"))
    made.start()
    postgres_opener(made.url)().close()
    yield made
    made.stop()
    made.remove()


async def heard(documents: PostgresDocuments, *wanted: Change) -> None:
    """Wait until these changes have come, each with at least the names."""
    left = list(wanted)
    async with asyncio.timeout(10):
        async for change in documents.changes():
            if change.reachable == left[0].reachable and change.names >= left[0].names:
                left.pop(0)
            if not left:
                return


async def test_an_outage_is_told_and_nothing_waits_for_its_end(database: Database) -> None:
    with closing(PostgresDocuments(database.url)) as documents:
        version = documents.replace("outage", b"1", None)
        database.stop()
        try:
            await heard(documents, Change(frozenset(), reachable=False))
            began = time.monotonic()
            for act in (
                lambda: documents.load("outage"),
                lambda: documents.replace("outage", b"2", version),
                lambda: documents.names(""),
            ):
                with pytest.raises(Unreachable) as caught:
                    act()
                assert "127.0.0.1" not in str(caught.value)
            assert time.monotonic() - began < 1
            assert not documents.health().reachable
            with pytest.raises(ConfigError, match="cannot be used: "):
                PostgresDocuments(database.url)
        finally:
            database.start()
        await heard(documents, Change(frozenset()))
        assert documents.load("outage") == Document(b"1", version)
        documents.replace("outage", b"2", version)


async def test_a_connection_that_is_cut_is_made_again(database: Database) -> None:
    with closing(PostgresDocuments(database.url)) as documents:
        version = documents.replace("cut", b"1", None)
        admin = await asyncpg.connect(database.url)
        await admin.execute(_CUT)

        def there() -> bool:
            try:
                return documents.load("cut") == Document(b"1", version)
            except Unreachable:
                return False

        await asyncio.to_thread(eventually, there, "it is read again", 5)
        await admin.execute(f"UPDATE {TABLE} SET version = 'other', changed_at = clock_timestamp() WHERE name = 'cut'")
        await admin.close()
        # Nobody was notified: it is found by looking.
        documents._loop.call_soon_threadsafe(documents._look_now.set)
        await heard(documents, Change(frozenset({"cut"})))


async def test_an_answer_that_was_lost_is_asked_for(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written although nobody said so counts as written; what was not does not."""
    with closing(PostgresDocuments(database.url)) as documents:
        whole, lost = documents._ask, [True]

        async def ask(ask):  # type: ignore[no-untyped-def] # as the method it stands for
            answer = await whole(ask)
            if lost and lost.pop():
                raise Unreachable(5, "lost")
            return answer

        monkeypatch.setattr(documents, "_ask", ask)
        version = documents.replace("lost", b"1", ABSENT)
        assert documents.load("lost") == Document(b"1", version)
        lost.append(True)
        with pytest.raises(Unreachable):
            documents.replace("lost", b"2", "another")
        assert documents.load("lost") == Document(b"1", version)


async def test_two_that_start_at_once_make_one_table(database: Database) -> None:
    admin = await asyncpg.connect(database.url)
    await admin.execute(f"DROP TABLE {TABLE}")
    made = await asyncio.gather(*(asyncio.to_thread(PostgresDocuments, database.url) for _ in range(4)))
    for each in made:
        each.close()
        each.close()
    assert await admin.fetchval(f"SELECT count(*) FROM {TABLE}") == 0
    await admin.close()
    with pytest.raises(Unreachable, match="is closed"):
        made[0].load("a")


async def test_a_role_that_may_only_use_the_table_is_enough(database: Database) -> None:
    PostgresDocuments(database.url).close()
    admin = await asyncpg.connect(database.url)
    await admin.execute(
        "DROP ROLE IF EXISTS modest; CREATE ROLE modest LOGIN; REVOKE CREATE ON SCHEMA public FROM modest"
    )
    with pytest.raises(ConfigError, match="InsufficientPrivilege"):
        PostgresDocuments(database.url.replace("postgres@", "modest@"))
    await admin.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {TABLE} TO modest")
    with closing(PostgresDocuments(database.url.replace("postgres@", "modest@"))) as documents:
        version = documents.replace("modest", b"1", None)
        assert documents.load("modest") == Document(b"1", version)
        assert documents.place("modest") == "modest in the database"
    await admin.close()


@pytest.mark.parametrize(
    "url", ["postgres://nobody@127.0.0.1:{port}/nowhere", "postgres://127.0.0.1:1/x", "postgres://h/x?sslmode=strange"]
)
def test_an_address_that_is_of_no_use_stops_the_start_without_being_shown(database: Database, url: str) -> None:
    wrong = url.format(port=database.url.rpartition(":")[2].partition("/")[0])
    with pytest.raises(ConfigError, match="database cannot be used") as caught:
        PostgresDocuments(wrong)
    assert not any(word in str(caught.value) for word in ("nobody", "nowhere", "127.0.0.1", "strange"))


def test_without_the_library_the_config_cannot_be_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ConfigError, match="asyncpg"):
        PostgresDocuments("postgres://db/x")


async def test_a_database_that_hangs_holds_nobody_up_for_long(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "TIMEOUT", 0.3)
    with closing(PostgresDocuments(database.url)) as documents:
        version = documents.replace("hangs", b"1", None)
        paused = [database.pid, *descendants(database.pid)]
        for pid in paused:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(Unreachable):
                await asyncio.to_thread(documents.load, "hangs")
            await heard(documents, Change(frozenset(), reachable=False))
            began = time.monotonic()
            for _ in range(20):
                with pytest.raises(Unreachable):
                    documents.load("hangs")
            assert time.monotonic() - began < 0.3, "nobody waits again"
        finally:
            for pid in paused:
                os.kill(pid, signal.SIGCONT)
        await heard(documents, Change(frozenset()))
        assert documents.load("hangs") == Document(b"1", version)
        documents.replace("hangs", b"2", version)


async def test_a_server_that_the_library_does_not_understand_ends_no_watch(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As what a pooler says while it fails over: it is as good as none, until there is another one."""
    with closing(PostgresDocuments(database.url)) as documents:
        library = documents._library
        connect, odd = library.connect, [ValueError("version"), LookupError("encoding")]

        async def failing(*args: object, **more: object) -> object:
            if odd:
                raise odd.pop()
            return await connect(*args, **more)

        admin = await connect(database.url)
        monkeypatch.setattr(library, "connect", failing)
        await admin.execute(_CUT)
        await heard(documents, Change(frozenset(), reachable=False), Change(frozenset()))
        assert odd == []
        await admin.execute(f"INSERT INTO {TABLE} (name, version, data) VALUES ('odd', 'x', '')")
        documents._loop.call_soon_threadsafe(documents._look_now.set)
        await heard(documents, Change(frozenset({"odd"})))
        await admin.close()
