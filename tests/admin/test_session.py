"""Sessions of the dashboard: how they begin, how long they last, how many there are, and that replicas share them."""

from __future__ import annotations

import hashlib

from gateway.admin.session import IDLE_SECONDS, LIFE_SECONDS, MAX_OF_USER, Sessions
from gateway.config.root import AdminUser
from gateway.state.memory import MemoryStore
from gateway.state.sealing import Sealer

SEALER = Sealer([b"s" * 32])


def users(*names: str, token: str = "token") -> dict[str, AdminUser]:
    return {name: AdminUser(token_sha256=hashlib.sha256(f"{name} {token}".encode()).hexdigest()) for name in names}


USERS = users("alice", "bob")


class Clock:
    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


async def test_a_session_is_found_by_what_the_browser_keeps_and_by_nothing_else() -> None:
    sessions = Sessions(USERS)
    secret = await sessions.start("alice")
    found = await sessions.find(secret)
    assert found is not None
    assert found.user == "alice"
    assert found.owns(found.csrf)
    assert not found.owns("")
    assert not found.owns(secret)
    assert not found.owns("ü")
    assert await sessions.find("") is None
    assert await sessions.find(secret + "x") is None
    assert await sessions.find("\udcff") is None


async def test_two_sessions_of_a_user_have_marks_of_their_own() -> None:
    sessions = Sessions(USERS)
    one, other = [await sessions.find(await sessions.start("alice")) for _ in range(2)]
    assert one is not None
    assert other is not None
    assert not one.owns(other.csrf)


async def test_an_unused_session_ends_and_a_used_one_ends_too() -> None:
    clock = Clock()
    store = MemoryStore(clock)
    sessions = Sessions(USERS, store, SEALER, clock)
    idle, busy = await sessions.start("alice"), await sessions.start("alice")
    for _ in range(int(LIFE_SECONDS / IDLE_SECONDS) * 2 - 1):
        clock.now += IDLE_SECONDS / 2
        assert await sessions.find(busy) is not None
    assert await sessions.find(idle) is None
    clock.now += IDLE_SECONDS * 0.6
    assert await sessions.find(busy) is None
    assert store._entries == {}


async def test_who_signs_out_is_out() -> None:
    sessions = Sessions(USERS)
    secret = await sessions.start("alice")
    await sessions.end(secret)
    await sessions.end(secret)
    assert await sessions.find(secret) is None


async def test_a_user_who_signs_in_for_ever_loses_the_oldest_of_his_own() -> None:
    sessions = Sessions(USERS)
    other = await sessions.start("bob")
    mine = [await sessions.start("alice") for _ in range(MAX_OF_USER + 1)]
    assert await sessions.find(mine[0]) is None
    assert all([await sessions.find(secret) for secret in (other, *mine[1:])])


async def test_a_session_is_known_at_every_replica_with_the_same_mark_and_ends_at_all() -> None:
    store = MemoryStore()
    one, two = Sessions(USERS, store, SEALER), Sessions(USERS, store, Sealer([b"s" * 32]))
    secret = await one.start("alice")
    here, there = await one.find(secret), await two.find(secret)
    assert here is not None
    assert here == there
    await two.end(secret)
    assert await one.find(secret) is None


async def test_a_session_ends_with_its_user_and_with_that_users_token() -> None:
    """It would outlive a restart otherwise, and with that who may sign in."""
    store = MemoryStore()
    secret = await Sessions(USERS, store, SEALER).start("alice")
    for now in (users("bob"), users("alice", token="another")):
        assert await Sessions(now, store, SEALER).find(secret) is None
    assert await Sessions(USERS, store, SEALER).find(secret) is not None


async def test_nobody_who_writes_to_the_store_can_make_a_session() -> None:
    store = MemoryStore()
    bobs = await Sessions(USERS, store, SEALER).start("bob")
    forged = await Sessions(USERS, store, Sealer([b"x" * 32])).start("alice")
    sessions = Sessions(USERS, store, SEALER)
    assert await sessions.find(forged) is None
    [key_of_bob, key_of_forged] = store._entries
    kept = store._entries[key_of_bob][1]
    for value in (kept, kept.replace(b"bob", b"alice"), b"[]", b'["alice"]', b'["alice", 7]', b"\xff", b'["eve", ""]'):
        await store.put(key_of_forged, value, 60.0)
        assert await sessions.find(forged) is None
    assert await sessions.find(bobs) is not None
