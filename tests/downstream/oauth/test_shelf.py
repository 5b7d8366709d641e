"""What a sign-in needs elsewhere: sealed, bound to its kind and name, taken once."""

from __future__ import annotations

import asyncio

from gateway.downstream.oauth.shelf import Shelf
from gateway.state.memory import Bounds, MemoryStore
from gateway.state.sealing import Sealer

KEY, OTHER = b"k" * 32, b"o" * 32


async def test_what_one_replica_puts_there_another_takes_once() -> None:
    store = MemoryStore()
    one, two = Shelf(store, Sealer([KEY])), Shelf(store, Sealer([OTHER, KEY]))
    await one.put("state", "s", {"verifier": "canary"}, 60)
    assert await two.get("state", "s") == {"verifier": "canary"}
    taken = await asyncio.gather(*(each.take("state", "s") for each in (one, two) * 3))
    assert [each for each in taken if each is not None] == [{"verifier": "canary"}]
    await one.put("state", "s", {}, 60)
    await two.drop("state", "s")
    assert await one.get("state", "s") is None


async def test_nobody_reads_it_in_the_store_or_puts_it_elsewhere() -> None:
    """S49: what is sealed for one use opens for no other."""
    store = MemoryStore()
    shelf = Shelf(store, Sealer([KEY]))
    await shelf.put("state", "name-canary", {"verifier": "value-canary"}, 60)
    [(key, (_, data))] = store._entries.items()
    assert not any(word in key.encode() + data for word in (b"name-canary", b"value-canary"))
    for kind, name in (("offer", "name-canary"), ("state", "another")):
        await shelf.put(kind, name, {}, 60)  # type: ignore[arg-type] # kinds, as written above
        [moved] = [each for each in store._entries if each != key]
        await store.put(moved, data, 60)
        assert await shelf.get(kind, name) is None  # type: ignore[arg-type] # kinds, as written above
        await store.delete(moved)
    assert await Shelf(store, Sealer([OTHER])).get("state", "name-canary") is None
    await store.put(key, b"\xff", 60)
    assert await shelf.take("state", "name-canary") is None


async def test_what_the_store_does_not_take_is_lost() -> None:
    shelf = Shelf(MemoryStore(bounds=Bounds()), Sealer([KEY]))
    await shelf.put("offer", "o", {"long": "x" * 300_000}, 60)
    assert await shelf.get("offer", "o") is None
