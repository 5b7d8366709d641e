"""Topics of one process: everybody who listens is told, nobody can be waited for, and nothing grows for ever."""

from __future__ import annotations

import asyncio

import pytest

from gateway.state.store import MAX_KEY, MAX_VALUE, StoreRefused
from gateway.state.topics import Topics


async def test_a_message_reaches_everybody_who_listens_to_its_topic_at_that_moment() -> None:
    topics = Topics()
    assert topics.deliver("a", b"nobody") == 0
    async with topics.listen("a") as first, topics.listen("a") as second, topics.listen("b") as other:
        assert (topics.count("a"), topics.count("b"), sorted(topics.names())) == (2, 1, ["a", "b"])
        assert topics.deliver("a", b"both") == 2
        assert topics.deliver("b", b"one") == 1
        async with asyncio.timeout(5):
            assert [await anext(each) for each in (first, second, other)] == [b"both", b"both", b"one"]
    assert (topics.names(), topics.deliver("a", b"gone")) == ([], 0)


async def test_who_falls_behind_loses_the_oldest() -> None:
    topics = Topics(waiting=2)
    async with topics.listen("a") as slow:
        for number in range(4):
            assert topics.deliver("a", b"%d" % number) == 1
        async with asyncio.timeout(5):
            assert [await anext(slow), await anext(slow)] == [b"2", b"3"]


async def test_listeners_and_what_they_hear_are_bounded() -> None:
    topics = Topics(subscribers=1)
    async with topics.listen("a"):
        with pytest.raises(StoreRefused, match="too many"):
            async with topics.listen("b"):
                pass
    async with topics.listen("b"):
        with pytest.raises(StoreRefused, match="256 KiB"):
            topics.deliver("b", bytes(MAX_VALUE + 1))
        with pytest.raises(StoreRefused, match="512 characters"):
            topics.deliver("k" * (MAX_KEY + 1), b"")
