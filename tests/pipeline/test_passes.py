"""Passes of approved calls: for the next round alone, at whichever replica it comes."""

from __future__ import annotations

from dataclasses import replace

from gateway.pipeline.interceptor import Approved
from gateway.pipeline.passes import Passes
from gateway.policy.limits import PASS_SECONDS
from gateway.state.memory import MemoryStore
from gateway.state.sealing import Sealer
from tests.kit.calls import call

SEALER = Sealer([b"s" * 32])
YES = Approved("a-1", ("alice", "bob"))


async def test_a_pass_is_good_for_the_next_round_once_and_at_any_replica() -> None:
    store = MemoryStore()
    here, there = Passes(store, SEALER), Passes(store, Sealer([b"s" * 32]))
    first = call(id="one")
    await here.give(first, YES, held=False)
    assert await there.take(first) is None
    assert await there.take(replace(first, round=3)) is None
    assert await there.take(replace(first, round=2)) == YES
    assert await here.take(replace(first, round=2)) is None


async def test_the_pass_of_a_call_that_waits_at_its_server_is_good_for_repetitions() -> None:
    passes, first = Passes(MemoryStore(), SEALER), call(id="one")
    await passes.give(first, YES, held=True)
    assert [await passes.take(replace(first, round=2)) for _ in range(2)] == [YES, YES]


async def test_a_pass_ends_in_time() -> None:
    now = [0.0]
    passes, first = Passes(MemoryStore(lambda: now[0]), SEALER), call(id="one")
    await passes.give(first, YES, held=True)
    now[0] = PASS_SECONDS + 1
    assert await passes.take(replace(first, round=2)) is None


async def test_nobody_who_writes_to_the_store_can_make_a_pass() -> None:
    """A pass is as good as a person's yes, and the store is not trusted with that."""
    store = MemoryStore()
    await Passes(store, Sealer([b"x" * 32])).give(call(id="one"), YES, held=True)
    await Passes(store, SEALER).give(call(id="two"), YES, held=True)
    mine = {key: value for key, (_, value) in store._entries.items()}
    key_one, key_two = list(mine)
    passes = Passes(store, SEALER)
    assert await passes.take(call(id="one", round=2)) is None
    await store.put(key_one, mine[key_two], 60.0)
    assert await passes.take(call(id="one", round=2)) is None
