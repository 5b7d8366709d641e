"""Records in a real PostgreSQL."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.audit.sinks.delivery import Rejected, Unavailable
from gateway.audit.sinks.postgres import TABLE, Postgres
from gateway.errors import ConfigError
from gateway.protocol.rawjson import Object
from tests.kit.audit import read_log, write_signed_log
from tests.kit.postgres import binaries, running

asyncpg = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no PostgreSQL")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("postgres")) as (url, _):
        yield url


async def connected(sink: Postgres, records: list[Object]) -> None:
    """Send until the server has come up."""
    async with asyncio.timeout(5):
        while True:
            try:
                return await sink.send(records)
            except Unavailable:
                await asyncio.sleep(0.05)


async def test_records_are_rows_once_however_often_they_come(tmp_path: Path, server: str) -> None:
    write_signed_log(tmp_path / "log", tmp_path / "state", 30)
    records = read_log(tmp_path / "log")
    sink = Postgres(server)
    await connected(sink, records)
    await sink.send(records[:10])
    await sink.aclose()

    asked = await asyncpg.connect(server)
    rows = await asked.fetch(
        f"SELECT seq, event, hash, record FROM {TABLE} WHERE chain = $1 ORDER BY seq", records[0]["chain"]
    )
    await asked.close()
    assert [row["seq"] for row in rows] == [record["seq"] for record in records]
    assert [json.loads(row["record"]) for row in rows] == records
    assert rows[0]["event"] == "audit.segment"


async def test_a_row_it_cannot_hold_is_refused_and_the_others_are_taken(server: str) -> None:
    sink = Postgres(server)
    good: Object = {"chain": "odd", "seq": 1, "ts": "2026-08-23T10:00:00.123456Z", "event": "call.end", "hash": "h"}
    await connected(sink, [good])
    with pytest.raises(Rejected):
        await sink.send([good, {**good, "seq": 2**70}])
    await sink.send([{**good, "seq": 2}])
    await sink.aclose()


async def test_a_connection_that_ends_is_made_again(server: str) -> None:
    sink = Postgres(server)
    good: Object = {"chain": "again", "seq": 1, "ts": "2026-08-23T10:00:00.123456Z", "event": "call.end", "hash": "h"}
    await connected(sink, [good])
    asked = await asyncpg.connect(server)
    await asked.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename IS NOT NULL"
    )
    await connected(sink, [{**good, "seq": 2}])
    assert await asked.fetchval(f"SELECT count(*) FROM {TABLE} WHERE chain = 'again'") == 2
    await asked.close()
    await sink.aclose()


async def test_nobody_there_is_unavailable() -> None:
    sink = Postgres("postgres://postgres@127.0.0.1:1/postgres")
    with pytest.raises(Unavailable):
        await sink.send([{"seq": 1}])


def test_without_the_library_the_config_cannot_be_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ConfigError, match="asyncpg"):
        Postgres("postgres://db/x")
