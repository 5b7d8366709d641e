"""A shared store that stops, stands still, slows down and comes back (S85): never unlimited, never waited for twice."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.state import fallback, wire
from gateway.state.fallback import FallbackStore, Standing
from gateway.state.gcra import Allowance
from gateway.state.redis import Address, RedisStore
from gateway.state.store import Charge, Store
from gateway.state.wire import Answer, Down, Part
from gateway.tasks import TaskSet
from tests.kit import valkey

pytestmark = valkey.needed

RECOVERY = 5.0
"""Seconds in which a store that is back is used again (S85)."""


class Counting(RedisStore):
    """Counts what is asked of the server."""

    asked = 0

    async def _ask(self, *command: Part, patience: float | None = None) -> Answer:
        self.asked += 1
        return await super()._ask(*command, patience=patience)


@dataclass
class Replica:
    """One process's store, and what was told of it."""

    shared: Counting
    store: FallbackStore
    told: list[Standing] = field(default_factory=list)

    async def until(self, *, up: bool) -> None:
        """Wait for a change."""
        async with asyncio.timeout(RECOVERY):
            while self.store.standing.up is not up:
                await asyncio.sleep(0.01)

    async def admitted(self, calls: int, key: str = "limit:a", burst: int = 5) -> int:
        """Charge so many calls, one after the other; return how many passed."""
        charge = [Charge(key, Allowance(1, 3600.0, burst))]
        answers = [await self.store.charge(charge, 1000.0) for _ in range(calls)]
        assert all(answer.retry_after_ms > 0 for answer in answers if answer.refused is not None)
        return sum(answer.refused is None for answer in answers)


@asynccontextmanager
async def replica(port: int, database: str = "", host: str = "127.0.0.1") -> AsyncIterator[Replica]:
    """Run a store for a block."""
    crashes: list[str] = []
    tasks = TaskSet(lambda name, error: crashes.append(f"{name}: {error!r}"))
    told: list[Standing] = []
    shared = Counting(Address(f"redis://{host}:{port}{database}"), tasks)
    made = Replica(shared, FallbackStore(shared, told.append), told)
    await made.store.start(tasks)
    try:
        yield made
    finally:
        await made.store.aclose()
        await tasks.aclose()
    assert crashes == []


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a machine that is busy with other tests be slow; what is tested is whether anything waits, not how long."""
    monkeypatch.setattr(fallback, "HEARTBEAT", 0.3)
    monkeypatch.setattr(fallback, "PROBE", 0.05)
    monkeypatch.setattr(wire, "PATIENCE", 0.2)
    monkeypatch.setattr(wire, "LENIENCE", 0.4)


@pytest.fixture
def server() -> Iterator[valkey.Valkey]:
    with valkey.running() as server:
        yield server


OUTAGES: list[tuple[Callable[[valkey.Valkey], None], Callable[[valkey.Valkey], None]]] = [
    (valkey.Valkey.stop, valkey.Valkey.start),
    (valkey.Valkey.pause, valkey.Valkey.resume),
]


@pytest.mark.parametrize(("begin", "end"), OUTAGES, ids=["stopped", "paused"])
async def test_while_it_is_away_each_process_counts_by_itself_and_afterwards_all_together(
    server: valkey.Valkey, begin: Callable[[valkey.Valkey], None], end: Callable[[valkey.Valkey], None]
) -> None:
    """S85. Of two replicas each admits its own limit, and no call asks again what does not answer."""
    async with replica(server.port) as one, replica(server.port) as two:
        assert (one.store.standing.up, two.store.standing.up) == (True, True)
        assert await one.admitted(3) + await two.admitted(10) == 5
        begin(server)
        assert await one.admitted(100) == 5
        await one.until(up=False)
        assert one.store.standing.reason in ("lost", "timeout")
        assert not one.store.reaches_others
        await two.until(up=False)
        before = one.shared.asked
        assert await one.admitted(100) == 0
        assert await two.admitted(100) == 5
        # Not one of these waited: nothing was sent but what a probe may have.
        assert one.shared.asked - before <= 20
        end(server)
        await asyncio.gather(one.until(up=True), two.until(up=True))
        assert [each.up for each in one.told] == [True, False, True]
        assert await one.admitted(4, "limit:b") + await two.admitted(10, "limit:b") == 5


async def test_a_store_that_got_slow_is_as_good_as_away_until_it_is_fast_again(server: valkey.Valkey) -> None:
    """S85: two seconds a way. Recovery needs more than one fast answer."""
    async with valkey.relayed(server.port) as relay, replica(relay.port) as one:
        relay.delay = 2.0
        assert await one.admitted(100) == 5
        await one.until(up=False)
        assert one.store.standing.reason == "timeout"
        assert await one.admitted(100) == 0
        relay.delay = 0.0
        relay.cut()
        await one.until(up=True)
        assert await one.admitted(10, "limit:b") == 5


async def test_a_store_that_is_too_slow_for_charges_alone_is_doubted_before_it_is_given_up(
    server: valkey.Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A moment of slowness is no outage: one charge waits for it, none after it, and nothing else changes."""
    async with valkey.relayed(server.port) as relay, replica(relay.port) as one:
        await one.store.put("fact:1", b"x", 60.0)
        relay.delay = 0.05
        monkeypatch.setattr(wire, "PATIENCE", 0.02)
        assert await one.admitted(10) == 5
        assert one.store.standing.up
        assert await one.store.get("fact:1") == b"x"
        relay.delay = 0.0
        async with asyncio.timeout(RECOVERY):
            while one.store._doubts:
                await asyncio.sleep(0.01)
        assert await one.admitted(10, "limit:b") == 5
        assert [each.up for each in one.told] == [True]
        relay.delay = 0.05
        assert await one.admitted(10, "limit:c") == 5
        await one.until(up=False)
        assert one.store.standing.reason == wire.SLOW


async def test_who_wants_to_hear_of_its_return_does(server: valkey.Valkey) -> None:
    async with replica(server.port) as one:
        returns: list[bool] = []
        one.store.returned(lambda: returns.append(one.store.standing.up))
        server.stop()
        await one.until(up=False)
        assert returns == []
        server.start()
        await one.until(up=True)
        assert returns == [True]


async def test_a_lost_connection_is_made_again_and_calls_hardly_notice(server: valkey.Valkey) -> None:
    async with valkey.relayed(server.port) as relay, replica(relay.port) as one:
        relay.cut()
        await one.until(up=False)
        assert one.store.standing.reason == "lost"
        await one.until(up=True)


async def test_an_outage_is_known_before_a_call_meets_it(server: valkey.Valkey) -> None:
    async with replica(server.port) as one:
        server.pause()
        await one.until(up=False)
        before = one.shared.asked
        assert await one.admitted(10) == 5
        assert one.shared.asked - before <= 20
        server.resume()


async def test_it_starts_without_the_store_and_finds_it_later(server: valkey.Valkey) -> None:
    server.stop()
    async with replica(server.port) as one:
        assert (one.store.standing.up, one.store.standing.reason) == (False, "unreachable")
        assert await one.admitted(10) == 5
        server.start()
        await one.until(up=True)
        assert [each.up for each in one.told] == [False, True]


async def test_one_that_keeps_failing_is_trusted_less_and_less(
    server: valkey.Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallback, "PROBE", 0.01)
    async with valkey.relayed(server.port) as relay, replica(relay.port) as one:
        needed = []
        for _ in range(4):
            relay.cut()
            await one.until(up=False)
            needed.append(one.store._needed)
            await one.until(up=True)
        # The first failure comes right after the start.
        assert needed == [4, 8, 8, 8]
        monkeypatch.setattr(fallback, "CALM", 0.0)
        relay.cut()
        await one.until(up=False)
        assert one.store._needed == fallback.STEADY


async def test_what_is_put_meanwhile_stays_good_here_and_what_is_deleted_meanwhile_is_deleted_afterwards(
    server: valkey.Valkey,
) -> None:
    """The passes of calls, the marks of duplicates, the facts of sessions."""
    async with replica(server.port) as one, replica(server.port) as two:
        await one.store.put("fact:old", b"old", 60.0)
        await one.store.put("fact:both", b"old", 60.0)
        server.pause()
        await one.until(up=False)
        await two.until(up=False)
        assert await one.store.get("fact:old") is None
        await one.store.put("pass:1", b"1", 60.0)
        await one.store.put("fact:both", b"new", 60.0)
        assert await one.store.claim("repeat:1", b"first", 60.0) is None
        assert await one.store.claim("repeat:1", b"second", 60.0) == b"first"
        assert await two.store.claim("repeat:1", b"other", 60.0) is None
        assert await two.store.get("pass:1") is None
        await one.store.delete("fact:old")
        server.resume()
        await asyncio.gather(one.until(up=True), two.until(up=True))
        assert await two.store.get("fact:old") is None
        assert await one.store.take("pass:1") == b"1"
        assert await one.store.take("pass:1") is None
        assert await one.store.claim("repeat:1", b"third", 60.0) == b"first"
        # What is put there again is the truth for everybody.
        await one.store.put("fact:both", b"newest", 60.0)
        assert (await one.store.get("fact:both"), await two.store.get("fact:both")) == (b"newest", b"newest")
        await two.store.delete("fact:both")
        assert await one.store.get("fact:both") is None


async def test_what_is_owed_is_bounded(server: valkey.Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "MAX_OWED", 2)
    async with replica(server.port) as one:
        for name in "abc":
            await one.store.put(f"fact:{name}", b"x", 60.0)
        server.pause()
        await one.until(up=False)
        for name in "abc":
            await one.store.delete(f"fact:{name}")
        server.resume()
        await one.until(up=True)
        assert [await one.store.get(f"fact:{name}") for name in "abc"] == [b"x", None, None]


async def test_what_was_deleted_and_put_again_meanwhile_is_not_what_it_was_before(server: valkey.Valkey) -> None:
    async with replica(server.port) as one, replica(server.port) as two:
        await one.store.put("fact:a", b"before", 60.0)
        server.pause()
        await one.until(up=False)
        await one.store.delete("fact:a")
        await one.store.put("fact:a", b"after", 60.0)
        server.resume()
        await asyncio.gather(one.until(up=True), two.until(up=True))
        assert (await one.store.get("fact:a"), await two.store.get("fact:a")) == (b"after", None)
        assert (await one.store.take("fact:a"), await one.store.take("fact:a")) == (b"after", None)


async def test_what_is_put_there_after_all_is_not_deleted_with_the_next_outage(
    server: valkey.Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replica(server.port) as one:

        async def refused(key: str) -> None:
            raise Down("error", broken=False)

        for key, put in (("fact:a", one.store.put), ("fact:b", one.store.claim)):
            with monkeypatch.context() as patch:
                patch.setattr(one.shared, "delete", refused)
                await one.store.delete(key)
            await put(key, b"1", 60.0)
        server.pause()
        await one.until(up=False)
        server.resume()
        await one.until(up=True)
        assert (await one.store.get("fact:a"), await one.store.get("fact:b")) == (b"1", b"1")


async def test_much_that_is_owed_delays_no_recovery(server: valkey.Valkey) -> None:
    """S85. Over a line on which one after the other would take four times as long as a recovery may."""
    async with valkey.relayed(server.port) as relay, replica(relay.port) as one:
        await one.store.put("fact:7", b"x", 60.0)
        server.pause()
        await one.until(up=False)
        for number in range(500):
            await one.store.delete(f"fact:{number}")
        relay.delay = 0.02
        server.resume()
        await one.until(up=True)
        assert await one.store.get("fact:7") is None


@pytest.mark.parametrize("word", [b":many\r\n", b"$long\r\n"])
async def test_something_else_at_its_address_ends_no_watch(word: bytes) -> None:
    """As after a failover to an address that another program has by now."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            writer.write(word)
        writer.close()

    other = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    async with replica(port, "/1") as one:
        assert (one.store.standing.up, one.store.standing.reason) == (False, "unreachable")
        assert await one.admitted(10) == 5
        other.close()
        await other.wait_closed()
        with tempfile.TemporaryDirectory() as folder:
            server = valkey.Valkey(port, Path(folder))
            server.start()
            try:
                await one.until(up=True)
            finally:
                server.stop()


async def test_a_name_that_can_be_none_is_an_address_where_nobody_is() -> None:
    async with replica(6379, host="a..b") as one:
        assert (one.store.standing.up, one.store.standing.reason) == (False, "unreachable")
        assert await one.admitted(10) == 5


async def test_topics_work_within_a_process_while_there_are_no_others_and_everywhere_afterwards(
    server: valkey.Valkey,
) -> None:
    async with (
        replica(server.port) as one,
        replica(server.port) as two,
        one.store.subscribe("t") as mine,
        two.store.subscribe("t") as theirs,
        asyncio.timeout(10),
    ):
        assert await one.store.publish("t", b"all") == 2
        assert (await anext(mine), await anext(theirs)) == (b"all", b"all")
        server.stop()
        await one.until(up=False)
        await two.until(up=False)
        assert await one.store.publish("t", b"own") == 1
        assert await anext(mine) == b"own"
        assert await one.store.publish("u", b"nobody") == 0
        server.start()
        await asyncio.gather(one.until(up=True), two.until(up=True))
        assert await two.store.publish("t", b"again") == 2
        assert (await anext(mine), await anext(theirs)) == (b"again", b"again")


async def test_one_key_that_cannot_be_used_is_answered_here_and_opens_no_circuit(server: valkey.Valkey) -> None:
    async with replica(server.port) as one:
        key = one.shared._key("limit:a")
        server.command("LPUSH", key, "not a bucket")
        assert await one.admitted(10) == 5
        assert one.store.standing.up
        assert [each.up for each in one.told] == [True]


async def test_a_full_store_is_as_good_as_none(server: valkey.Valkey) -> None:
    async with replica(server.port) as one:
        server.command("CONFIG", "SET", "maxmemory", "1")
        await one.until(up=False)
        assert one.store.standing.reason == "memory"
        assert await one.admitted(10) == 5
        server.command("CONFIG", "SET", "maxmemory", "0")
        await one.until(up=True)


async def test_what_it_said_no_to_is_here_alone(server: valkey.Valkey) -> None:
    async with replica(server.port) as one:
        server.command("CONFIG", "SET", "maxmemory", "1")
        await one.store.put("pass:1", b"1", 60.0)
        await one.store.put("fact:1", b"1", 60.0)
        await one.until(up=False)
        server.command("CONFIG", "SET", "maxmemory", "0")
        await one.until(up=True)
        assert (await one.store.get("fact:1"), await one.store.take("pass:1")) == (b"1", b"1")


async def test_it_is_a_store(server: valkey.Valkey) -> None:
    async with replica(server.port) as one:
        store: Store = one.store
        assert store.reaches_others


async def test_what_may_lie_in_both_places_is_taken_once(server: valkey.Valkey) -> None:
    """S99. The store takes a value and stands still before it says so: nobody may take it here and there."""
    async with replica(server.port) as one, replica(server.port) as two:
        server.pause()
        await one.store.put("pass:1", b"1", 60.0)
        await one.until(up=False)
        here = await one.store.take("pass:1")
        server.resume()
        await asyncio.gather(one.until(up=True), two.until(up=True))
        assert (here, await two.store.take("pass:1")) == (None, b"1")


async def test_what_may_lie_in_both_places_and_is_deleted_in_one_is_gone_from_both(server: valkey.Valkey) -> None:
    """Who signs out at one replica is signed out at all."""
    async with replica(server.port) as one, replica(server.port) as two:
        server.pause()
        await one.store.put("admin:1", b"1", 60.0)
        await one.until(up=False)
        assert await one.store.get("admin:1") == b"1"
        server.resume()
        await asyncio.gather(one.until(up=True), two.until(up=True))
        assert (await one.store.get("admin:1"), await two.store.get("admin:1")) == (b"1", b"1")
        await two.store.delete("admin:1")
        assert [await one.store.get("admin:1") for _ in range(2)] == [None, None]


async def test_what_is_unsure_is_bounded(server: valkey.Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "MAX_UNSURE", 2)
    async with replica(server.port) as one:
        server.pause()
        await asyncio.gather(*(one.store.put(f"pass:{name}", b"1", 60.0) for name in "abc"))
        assert len(one.store._unsure) == 2
