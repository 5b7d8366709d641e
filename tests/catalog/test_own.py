"""Lists of single principals: read once for all who want them, waited for a bounded time, and nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from gateway.catalog import own
from gateway.catalog.own import AT_ONCE, HASTE, LONGEST_RETRY, MAX_LISTINGS, Known, OwnLists, Terms
from gateway.catalog.refresh import MIN_AGE, RETRY
from gateway.downstream.oauth.errors import ConsentNeeded
from gateway.errors import DownstreamError, Reason
from gateway.model.catalog import HeldBack, Kind, Listing
from gateway.model.principal import Principal
from gateway.tasks import TaskSet
from tests.kit.definitions import listing, tool

ALICE, BOBBY = (Principal(f"key:{name}", "key", name) for name in ("alice", "bobby"))
TOOLS = frozenset({Kind.TOOL})


def crash(name: str, error: BaseException) -> None:
    raise AssertionError(name) from error


@dataclass
class Desk:
    """Lists by server and principal; those in ``slow`` wait for their event."""

    lists: dict[tuple[str, str], Listing | DownstreamError] = field(default_factory=dict)
    slow: dict[str, asyncio.Event] = field(default_factory=dict)
    began: list[tuple[str, str]] = field(default_factory=list)
    lasts: list[Listing | None] = field(default_factory=list)
    admitted: list[str] = field(default_factory=list)
    told: asyncio.Queue[tuple[str, frozenset[Kind], bool]] = field(default_factory=asyncio.Queue)
    gone: list[tuple[str, str]] = field(default_factory=list)

    async def read(self, server: str, principal: Principal, last: Listing | None) -> Listing:
        self.began.append((server, principal.label))
        self.lasts.append(last)
        if principal.label in self.slow:
            await self.slow[principal.label].wait()
        found = self.lists[server, principal.label]
        if isinstance(found, DownstreamError):
            raise found
        return found

    async def admit(self, listing: Listing, whose: str) -> None:
        self.admitted.append(whose)

    def published(self, now: Known, before: Known | None, whose: str, kinds: frozenset[Kind]) -> None:
        self.told.put_nowait((whose, kinds, before is None))

    def dropped(self, server: str, whose: str) -> None:
        self.gone.append((server, whose))


@dataclass
class World:
    """The lists, what they are read from, and a clock that a test turns."""

    desk: Desk
    lists: OwnLists
    now: float = 1000.0


@asynccontextmanager
async def world(patience: float = 5.0, *servers: str) -> AsyncIterator[World]:
    tasks, desk = TaskSet(crash), Desk()
    made: World
    lists = OwnLists(desk, tasks, 60.0, lambda: made.now)
    made = World(desk, lists)
    lists.apply({name: Terms("m", patience) for name in servers or ("a",)})
    try:
        yield made
    finally:
        await tasks.aclose()


def lists(*names: str, server: str = "a", ttl: int | None = None) -> Listing:
    return listing(server, *map(tool, names), ttl_ms=ttl)


def known(made: World, principal: Principal, server: str = "a") -> list[str]:
    found = made.lists.known(server, principal.id)
    return [item.name for item in found.listing.definitions] if found is not None else []


async def test_each_is_read_once_for_all_who_wait_and_belongs_to_nobody_else() -> None:
    """S101."""
    async with world() as made:
        made.desk.lists = {("a", "alice"): lists("x"), ("a", "bobby"): lists("y")}
        await asyncio.gather(*(made.lists.ready(ALICE) for _ in range(20)), made.lists.ready(BOBBY))
        assert (known(made, ALICE), known(made, BOBBY)) == (["x"], ["y"])
        assert sorted(made.desk.began) == [("a", "alice"), ("a", "bobby")]
        assert sorted(made.desk.admitted) == [ALICE.id, BOBBY.id]
        assert (made.lists.reason("a", ALICE.id), made.lists.count("a"), len(made.lists)) == ("", (2, 0), 2)


async def test_they_are_good_for_as_long_as_their_server_says_and_never_for_a_moment_only() -> None:
    async with world() as made:
        made.desk.lists["a", "alice"] = lists("x", ttl=0)
        await made.lists.ready(ALICE)
        made.now += MIN_AGE
        await made.lists.ready(ALICE)
        assert len(made.desk.began) == 1
        made.desk.lists["a", "alice"] = lists("y", ttl=20_000)
        made.now += 60
        await made.lists.ready(ALICE)
        assert known(made, ALICE) == ["y"]
        made.now += 20
        await made.lists.ready(ALICE)
        assert len(made.desk.began) == 3


async def test_nobody_waits_longer_than_is_worth_it_and_the_last_ones_stand() -> None:
    """S188."""
    async with world(0.05) as made:
        made.desk.lists["a", "alice"] = lists("x")
        await made.lists.ready(ALICE)
        made.desk.slow["alice"] = gate = asyncio.Event()
        made.lists.changed("a")
        made.desk.lists["a", "alice"] = lists("y")
        async with asyncio.timeout(5):
            await made.lists.ready(ALICE)
        assert known(made, ALICE) == ["x"]
        # Whoever comes when the time is over does not wait at all.
        made.now += 1
        async with asyncio.timeout(5):
            await asyncio.gather(*(made.lists.ready(ALICE) for _ in range(10)))
        gate.set()
        for _ in range(2):
            await asyncio.wait_for(made.desk.told.get(), 5)
        assert known(made, ALICE) == ["y"]
        assert len(made.desk.began) == 2


async def test_what_failed_is_tried_again_ever_later_and_hardly_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "HASTE", 0.01)
    async with world(60.0) as made:
        made.desk.lists["a", "alice"] = DownstreamError(Reason.UNAVAILABLE, "it is down")
        delays = []
        for _ in range(6):
            await made.lists.ready(ALICE)
            tries = len(made.desk.began)
            begun = made.now
            while len(made.desk.began) == tries:
                made.now += 1
                made.lists.refresh(ALICE)
                await asyncio.sleep(0)
            delays.append(made.now - begun)
        assert (made.lists.reason("a", ALICE.id), made.lists.count("a")) == ("it is down", (0, 1))
        made.desk.slow["alice"] = asyncio.Event()
        made.now += LONGEST_RETRY
        async with asyncio.timeout(5):
            await made.lists.ready(ALICE)
    assert delays == [RETRY, 10, 20, 40, LONGEST_RETRY, LONGEST_RETRY]
    assert HASTE < RETRY


async def test_word_of_a_change_makes_up_for_a_failure_and_is_passed_on() -> None:
    async with world() as made:
        made.desk.lists["a", "alice"] = ConsentNeeded("it waits until its user has signed in", "t")
        await made.lists.ready(ALICE)
        assert made.lists.signs_in("a", ALICE.id)
        made.desk.lists["a", "alice"] = lists("x")
        made.lists.changed("a", ALICE.id, TOOLS)
        await made.lists.ready(ALICE)
        assert not made.lists.signs_in("a", ALICE.id)
        assert known(made, ALICE) == ["x"]
        assert made.desk.told.get_nowait() == (ALICE.id, TOOLS, True)
        made.lists.changed("a", BOBBY.id)
        made.lists.changed("other")
        assert not made.lists.signs_in("a", BOBBY.id)
        assert made.lists.reason("a", BOBBY.id) == "not read yet"


async def test_lists_that_change_while_they_are_read_are_read_again_for_who_waits() -> None:
    async with world() as made:
        made.desk.lists["a", "alice"] = lists("x")
        made.desk.slow["alice"] = gate = asyncio.Event()
        waiting = asyncio.gather(made.lists.ready(ALICE))
        await asyncio.sleep(0.01)
        made.lists.changed("a", ALICE.id)
        gate.set()
        await waiting
        assert len(made.desk.began) == 2


async def until(done: Callable[[], bool]) -> None:
    """Wait for something, within the time limit."""
    async with asyncio.timeout(5):
        while not done():
            await asyncio.sleep(0.005)


async def test_a_servers_word_has_a_few_lists_read_at_once_and_the_others_in_turn() -> None:
    crowd = [Principal(f"key:{number}", "key", "crowd") for number in range(3 * AT_ONCE)]
    async with world() as made:
        made.desk.lists["a", "crowd"] = lists("x")
        made.desk.slow["crowd"] = gate = asyncio.Event()
        for principal in crowd:
            made.lists.relist("a", principal, TOOLS)
            made.lists.relist("gone", principal, TOOLS)
            made.lists.relist("a", principal, frozenset())
        await until(lambda: len(made.desk.began) >= AT_ONCE)
        await asyncio.sleep(0.01)
        assert len(made.desk.began) == AT_ONCE
        gate.set()
        told = [await asyncio.wait_for(made.desk.told.get(), 5) for _ in crowd]
        assert sorted(whose for whose, _, _ in told) == sorted(principal.id for principal in crowd)
        assert {kinds for _, kinds, _ in told} == {TOOLS}


async def test_a_failure_that_was_under_way_before_a_change_keeps_nobody_waiting() -> None:
    """Somebody signs in while their lists are refused for want of that."""
    async with world() as made:
        made.desk.lists["a", "alice"] = ConsentNeeded("it waits until its user has signed in", "t")
        made.desk.slow["alice"] = gate = asyncio.Event()
        made.lists.refresh(ALICE)
        await asyncio.sleep(0.01)
        made.lists.changed("a", ALICE.id)
        gate.set()
        await until(lambda: made.lists.signs_in("a", ALICE.id))
        made.desk.lists["a", "alice"] = lists("x")
        await made.lists.ready(ALICE)
        assert known(made, ALICE) == ["x"]


async def test_those_whose_lists_hang_keep_nobody_elses_from_being_read() -> None:
    """S188."""
    stuck = [Principal(f"key:{number}", "key", "stuck") for number in range(AT_ONCE)]
    async with world(0.05) as made:
        made.desk.lists["a", "alice"] = lists("x")
        made.desk.slow["stuck"] = asyncio.Event()
        for principal in (*stuck, ALICE):
            made.lists.relist("a", principal, TOOLS)
        await until(lambda: known(made, ALICE) == ["x"])


async def test_a_server_that_says_so_whenever_it_is_asked_is_asked_calmly() -> None:
    """S94: each reading makes the server say again that its lists have changed."""
    async with world() as made:
        made.desk.lists["a", "alice"] = lists("x")
        made.desk.slow["alice"] = gate = asyncio.Event()
        waiting = asyncio.gather(made.lists.ready(ALICE))
        await asyncio.sleep(0.01)
        for _ in range(1000):
            made.lists.changed("a", ALICE.id)
            made.lists.relist("a", ALICE, TOOLS)
        gate.set()
        await waiting
        assert len(made.desk.began) == 2
        made.lists.changed("a", ALICE.id)
        made.lists.relist("a", ALICE, TOOLS)
        await asyncio.sleep(0.2)
        assert len(made.desk.began) <= 3


async def test_one_slow_server_leaves_the_lists_of_others_alone() -> None:
    """G117."""
    async with world(0.05, "a", "b") as made:
        made.desk.lists = {("a", "alice"): lists("x"), ("b", "alice"): DownstreamError(Reason.TIMEOUT, "too slow")}
        await made.lists.ready(ALICE)
        assert known(made, ALICE) == ["x"]
        assert made.lists.count("b") == (0, 1)


async def test_another_config_forgets_everything_of_its_server_alone() -> None:
    async with world(5.0, "a", "b") as made:
        made.desk.lists = {("a", "alice"): lists("x"), ("b", "alice"): lists("y", server="b")}
        await made.lists.ready(ALICE)
        same = {name: Terms("m", 5.0) for name in ("a", "b")}
        made.lists.apply(same)
        assert (known(made, ALICE), known(made, ALICE, "b")) == (["x"], ["y"])
        made.lists.apply(same, renewed=["b"])
        assert (known(made, ALICE), known(made, ALICE, "b")) == (["x"], [])
        made.lists.apply({"a": Terms("n", 5.0)})
        assert known(made, ALICE) == []
        assert made.desk.gone == [("b", ALICE.id), ("a", ALICE.id)]


async def test_lists_that_come_for_a_config_that_is_gone_are_nobodys() -> None:
    async with world(0.01) as made:
        made.desk.lists["a", "alice"] = lists("x")
        made.desk.slow["alice"] = gate = asyncio.Event()
        await made.lists.ready(ALICE)
        made.lists.apply({})
        gate.set()
        await asyncio.sleep(0.01)
        # Not even the pins hear of them: they would be taken for those of the server that has the name now.
        assert made.desk.admitted == []
        assert made.desk.gone == [("a", ALICE.id)] * 2
        assert made.desk.told.empty()


async def test_those_that_nobody_asked_for_longest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_LISTINGS == 2_000
    monkeypatch.setattr(own, "MAX_LISTINGS", 2)
    async with world() as made:
        carol = Principal("key:carol", "key", "carol")
        made.desk.lists = {("a", name): lists(name) for name in ("alice", "bobby", "carol")}
        for principal in (ALICE, BOBBY, ALICE, carol):
            await made.lists.ready(principal)
        assert made.desk.gone == [("a", BOBBY.id)]
        assert (known(made, ALICE), known(made, carol), len(made.lists)) == (["alice"], ["carol"], 2)
        # Texts that somebody else's lists have already are held once.
        assert made.desk.lasts[0] is None
        assert made.desk.lasts[-1] is not None


def test_lists_are_the_same_by_all_that_a_catalog_takes_from_them() -> None:
    base = lists("x")
    others = [
        lists("y"),
        lists("x", ttl=1),
        listing("a", tool("x"), instructions="read"),
        listing("a", tool("x"), capabilities={"tools": {}}),
        listing("a", tool("x"), rejected=(HeldBack("a", Kind.TOOL, "", "", "bad"),)),
        listing("b", tool("x")),
    ]
    digests = {Known.of(each).digest for each in (base, *others)}
    assert len(digests) == 1 + len(others)
    assert Known.of(lists("x")).digest == Known.of(base).digest


async def test_a_failure_for_want_of_a_token_keeps_nobody_with_one_waiting() -> None:
    """A server's word has lists read for somebody who listens, whose token has come with no request since a reload."""
    async with world() as made:
        made.desk.lists["a", "alice"] = DownstreamError(Reason.UNAVAILABLE, "it serves callers with a token")
        await made.lists.ready(ALICE)
        made.desk.lists["a", "alice"] = lists("x")
        await made.lists.ready(ALICE)
        assert known(made, ALICE) == []
        await made.lists.ready(replace(ALICE, token="t"))
        assert known(made, ALICE) == ["x"]
