"""A token waits for its code, wherever that is given, for a while and three attempts."""

from __future__ import annotations

import asyncio

from gateway.downstream.oauth.confirmation import CONFIRM_SECONDS, MAX_TRIES, Confirmation
from gateway.downstream.oauth.shelf import Shelf
from gateway.downstream.oauth.token import Token

TOKEN = Token("access", "https://idp", "https://mcp", "refresh")


def confirmation(shelf: Shelf, owner: str = "key:alice", now: float = 0.0) -> Confirmation:
    return Confirmation("a", owner, shelf, lambda: now)


async def test_the_code_gives_the_token_once_at_any_replica() -> None:
    shelf = Shelf.alone()
    code = await confirmation(shelf).put(TOKEN)
    elsewhere = confirmation(shelf)
    assert await elsewhere.is_waiting()
    given = await asyncio.gather(*(elsewhere.confirm(f" {code.lower()} ") for _ in range(5)))
    assert [token for token in given if token is not None] == [TOKEN]
    assert not await elsewhere.is_waiting()


async def test_another_principal_gets_nothing() -> None:
    shelf = Shelf.alone()
    code = await confirmation(shelf).put(TOKEN)
    assert await confirmation(shelf, "key:bob").confirm(code) is None
    assert await confirmation(shelf).confirm(code) == TOKEN


async def test_it_ends_after_wrong_codes_or_some_time() -> None:
    shelf = Shelf.alone()
    code = await confirmation(shelf).put(TOKEN)
    assert not await confirmation(shelf, now=CONFIRM_SECONDS).is_waiting()
    for _ in range(MAX_TRIES):
        assert await confirmation(shelf).is_waiting()
        assert await confirmation(shelf).confirm("AAAA-AAAA") is None
    assert await confirmation(shelf).confirm(code) is None


async def test_a_later_token_replaces_an_earlier_one() -> None:
    shelf = Shelf.alone()
    early = await confirmation(shelf).put(Token("old", "i", "r"))
    late = await confirmation(shelf).put(TOKEN)
    assert await confirmation(shelf).confirm(early) is None
    assert await confirmation(shelf).confirm(late) == TOKEN


async def test_of_many_wrong_codes_at_once_each_counts() -> None:
    shelf = Shelf.alone()
    code = await confirmation(shelf).put(TOKEN)
    for _ in range(MAX_TRIES):
        await asyncio.gather(*(confirmation(shelf).confirm("AAAA-AAAA") for _ in range(20)))
    assert await confirmation(shelf).confirm(code) is None


async def test_a_wrong_code_does_not_bring_an_earlier_token_back() -> None:
    shelf = Shelf.alone()
    await confirmation(shelf).put(Token("old", "i", "r"))
    taken = await shelf.take("token", confirmation(shelf)._name)
    assert taken is not None
    late = await confirmation(shelf).put(TOKEN)
    await shelf.put_back("token", confirmation(shelf)._name, taken, CONFIRM_SECONDS)
    assert await confirmation(shelf).confirm(late) == TOKEN
