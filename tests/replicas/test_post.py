"""Letters between replicas: sealed, whole, bounded, and for whom they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object
from gateway.replicas import post as posts
from gateway.replicas.identity import new_replica_id
from gateway.replicas.post import Letter, LetterLost, LetterTooLong, Post
from gateway.state.sealing import Sealer
from gateway.state.store import MAX_VALUE
from gateway.tasks import TaskSet
from tests.kit.replicas import SEALER, SharedMemory


class Box:
    """What arrived."""

    def __init__(self) -> None:
        self.letters: asyncio.Queue[Letter] = asyncio.Queue()

    async def next(self) -> Letter:
        async with asyncio.timeout(5):
            return await self.letters.get()


@asynccontextmanager
async def offices(store: SharedMemory, *sealers: Sealer) -> AsyncIterator[list[tuple[Post, Box]]]:
    tasks = TaskSet(lambda name, error: None)
    made = []
    for sealer in sealers:
        office, box = Post(store, sealer, new_replica_id()), Box()
        office.on("word", box.letters.put_nowait)
        tasks.start(office.run(), "post")
        await office.listening.wait()
        made.append((office, box))
    try:
        yield made
    finally:
        await tasks.aclose()


async def read(office: Post, letter: Letter) -> Object:
    return {key: rawjson.decode_value(item) for key, item in (await office.read(letter)).items()}


async def test_a_letter_reaches_the_replica_it_is_for_and_no_other() -> None:
    async with offices(SharedMemory(), SEALER, SEALER, SEALER) as [(one, _), (two, box), (_, other)]:
        assert await one.send(two.replica, "word", {"said": "hello"}, "thread-1")
        letter = await box.next()
        assert (letter.kind, letter.sender, letter.thread) == ("word", one.replica, "thread-1")
        assert await read(two, letter) == {"said": "hello"}
        assert other.letters.empty()


async def test_a_broadcast_reaches_all_others_and_not_its_sender() -> None:
    async with offices(SharedMemory(), SEALER, SEALER, SEALER) as [(one, own), (two, box), (three, other)]:
        await one.broadcast("word", {"said": 1})
        assert await read(two, await box.next()) == {"said": 1}
        assert await read(three, await other.next()) == {"said": 1}
        assert own.letters.empty()


async def test_a_long_letter_waits_in_pieces_under_the_bound_and_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store, text = SharedMemory(), "x" * (3 * posts.MAX_SHORT)
    async with offices(store, SEALER, SEALER) as [(one, _), (two, box)]:
        assert await one.send(two.replica, "word", {"said": text})
        letter = await box.next()
        assert (letter.short, letter.pieces) == (None, 4)
        assert max(len(value) for _, value in store._entries.values()) < MAX_VALUE
        assert await read(two, letter) == {"said": text}
        assert store._entries == {}
        with pytest.raises(LetterLost):
            await two.read(letter)
        monkeypatch.setattr(posts, "MAX_LETTER", 1000)
        with pytest.raises(LetterTooLong):
            await one.send(two.replica, "word", {"said": text})
        with pytest.raises(LetterTooLong):
            await one.broadcast("word", {"said": text})


class Laid(SharedMemory):
    """A store that knows where something was put, each time."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[str] = []

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        self.places.append(key)
        await super().put(key, value, ttl)


async def test_for_nobody_nothing_is_laid_out() -> None:
    """A client can name a replica that is not there: what it sends must not fill the store."""
    store = Laid()
    async with offices(store, SEALER) as [(one, _)]:
        body = {"said": "x" * (4 * 2**20)}
        assert not await one.deliver(new_replica_id(), "word", body)
        assert not await one.send(new_replica_id(), "word", body)
        assert store.places == []


async def test_a_long_letter_that_is_sent_again_lies_in_the_store_once_and_not_after_it_was_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(posts, "DELIVERED_WITHIN", 0.2)
    monkeypatch.setattr(posts, "AGAIN", 0.01)
    store = Laid()
    async with offices(store, SEALER, SEALER) as [(one, _), (two, box)]:
        store.loses = lambda topic, number: True
        assert not await one.deliver(two.replica, "word", {"said": "x" * (3 * posts.MAX_SHORT)})
        assert len(set(store.places)) == 4
        assert store._entries == {}
        # The first time somebody is asked for; most others are the letter alone.
        assert len(store.places) < 4 * (len(store.published) - 1)
        assert box.letters.empty()


async def test_a_piece_that_the_store_lost_is_laid_out_again_in_time() -> None:
    store = Laid()
    async with offices(store, SEALER, SEALER) as [(one, _), (two, box)]:
        parcel = one.parcel(two.replica, "word", {"said": "x" * (2 * posts.MAX_SHORT)})
        assert await one.dispatch(parcel)
        await store.delete(f"post:{parcel.name}:1")
        with pytest.raises(LetterLost):
            await two.read(await box.next())
        for _ in range(posts.RENEWED - 1):
            assert await one.dispatch(parcel)
            await box.next()
        assert len(store.places) == 3
        assert await one.dispatch(parcel)
        assert await read(two, await box.next()) == {"said": "x" * (2 * posts.MAX_SHORT)}
        assert len(set(store.places)) == 3


async def test_a_letter_that_breaks_who_takes_it_does_not_end_the_post() -> None:
    async with offices(SharedMemory(), SEALER, SEALER) as [(one, _), (two, box)]:

        def breaks(letter: Letter) -> None:
            raise RuntimeError(letter.kind)

        two.on("bad", breaks)
        assert await one.send(two.replica, "bad")
        assert await one.send(two.replica, "word", {"said": 1})
        assert await read(two, await box.next()) == {"said": 1}


async def test_who_writes_to_all_hears_whether_that_left_the_replica() -> None:
    store = SharedMemory()
    async with offices(store, SEALER) as [(one, _)]:
        assert await one.broadcast("word", {})
        store.up = False
        assert not await one.broadcast("word", {})


async def test_a_long_letter_of_which_a_piece_is_gone_is_lost_as_a_whole() -> None:
    store = SharedMemory()
    async with offices(store, SEALER, SEALER) as [(one, _), (two, box)]:
        await one.send(two.replica, "word", {"said": "x" * (2 * posts.MAX_SHORT)})
        letter = await box.next()
        await store.delete(f"post:{letter.name}:1")
        with pytest.raises(LetterLost):
            await two.read(letter)


async def test_pieces_cannot_be_exchanged_in_the_store() -> None:
    store = SharedMemory()
    async with offices(store, SEALER, SEALER) as [(one, _), (two, box)]:
        await one.send(two.replica, "word", {"said": "x" * (2 * posts.MAX_SHORT)})
        letter = await box.next()
        first = await store.get(f"post:{letter.name}:0")
        assert first is not None
        await store.put(f"post:{letter.name}:1", first, 60.0)
        with pytest.raises(LetterLost):
            await two.read(letter)


async def test_what_is_sealed_with_another_key_or_for_another_topic_is_no_letter() -> None:
    store = SharedMemory()
    foreign = Sealer([b"f" * 32])
    async with offices(store, SEALER, SEALER, foreign) as [(one, _), (two, box), (stranger, strange)]:
        await one.send(two.replica, "word", {"said": 1})
        await box.next()
        topic, message = store.published[-1]
        assert b"said" not in message
        await store.publish("replicas", message)
        await store.publish(topic, b"\xff no letter")
        await stranger.send(two.replica, "word", {"said": 2})
        await one.send(stranger.replica, "word", {"said": 3})
        await one.send(two.replica, "word", {"said": 4})
        assert await read(two, await box.next()) == {"said": 4}
        assert box.letters.empty()
        assert strange.letters.empty()


@pytest.mark.parametrize(
    "letter",
    [
        {},
        {"v": 2, "kind": "word", "from": "a", "thread": "", "body": {}},
        {"v": 1, "kind": 1, "from": "a", "body": {}},
        {"v": 1, "kind": "word", "from": "a", "body": 7},
        {"v": 1, "kind": "word", "from": "a", "name": "n", "pieces": -1},
        {"v": 1, "kind": "word", "from": "a", "name": "n", "pieces": 10**9},
    ],
)
async def test_a_letter_of_another_form_is_not_taken(letter: Object) -> None:
    """As of a newer version, during a rolling update."""
    store = SharedMemory()
    async with offices(store, SEALER, SEALER) as [(one, _), (two, box)]:
        topic = f"replica:{two.replica}"
        token = SEALER.seal("post", rawjson.encode(letter), topic.encode(), 60.0)
        await store.publish(topic, token.encode())
        await one.send(two.replica, "word", {"said": "after"})
        assert await read(two, await box.next()) == {"said": "after"}


@pytest.mark.parametrize("lost", [1, 2])
async def test_a_letter_that_has_to_arrive_is_sent_until_it_does_and_taken_once(
    lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost is the letter itself, or the word that it arrived."""
    monkeypatch.setattr(posts, "AGAIN", 0.05)
    store = SharedMemory()
    async with offices(store, SEALER, SEALER) as [(one, _), (two, box)]:
        store.loses = lambda topic, number: number == lost
        assert await one.deliver(two.replica, "word", {"said": 1})
        assert await read(two, await box.next()) == {"said": 1}
        assert box.letters.empty()


async def test_a_letter_that_has_to_arrive_is_given_up_where_nobody_is_and_after_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(posts, "DELIVERED_WITHIN", 0.1)
    monkeypatch.setattr(posts, "AGAIN", 0.02)
    store = SharedMemory()
    async with offices(store, SEALER, SEALER) as [(one, _), (two, box)]:
        assert not await one.deliver(new_replica_id(), "word", {})
        store.loses = lambda topic, number: True
        assert not await one.deliver(two.replica, "word", {})
        store.up = False
        assert not await one.deliver(two.replica, "word", {})
        assert box.letters.empty()
        assert one._unconfirmed == {}


async def test_a_letter_of_a_kind_that_is_not_known_there_does_not_count_as_arrived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in an update, of a version that is newer."""
    monkeypatch.setattr(posts, "DELIVERED_WITHIN", 0.1)
    monkeypatch.setattr(posts, "AGAIN", 0.02)
    async with offices(SharedMemory(), SEALER, SEALER) as [(one, _), (two, box)]:
        assert not await one.deliver(two.replica, "newer", {})
        assert (len(two._seen), box.letters.empty()) == (0, True)


async def test_only_so_many_letters_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posts, "MAX_SEEN", 2)
    async with offices(SharedMemory(), SEALER, SEALER) as [(one, _), (two, box)]:
        for number in range(5):
            assert await one.deliver(two.replica, "word", {"said": number})
        assert len(two._seen) == 2
        assert box.letters.qsize() == 5


async def test_who_is_not_there_gets_nothing_and_who_wrote_is_told() -> None:
    store = SharedMemory()
    async with offices(store, SEALER, SEALER) as [(one, _), (two, _)]:
        assert not await one.send(new_replica_id(), "word")
        assert not await one.send("*", "word")
        assert one.reaches_others
        store.up = False
        assert not await one.send(two.replica, "word")
        assert not one.reaches_others


async def test_a_replica_that_is_alone_writes_to_nobody() -> None:
    store = SharedMemory()
    office = Post(store, SEALER, new_replica_id(), alone=True)
    await office.run()
    await office.broadcast("word", {})
    assert not await office.send(new_replica_id(), "word")
    assert (office.name, office.reaches_others, store.published) == ("", False, [])
