"""What one connection offers is read when it may have changed, once for all who wait."""

from __future__ import annotations

import asyncio

import pytest

from gateway.downstream.inspection import MAX_AGE, Inspector, Meeting, Offer, Quarantined, WrongKey
from gateway.errors import DownstreamError, Reason
from tests.kit.calls import call
from tests.kit.definitions import stdio


class Lists:
    """A server's lists, counted; ``gate`` holds them up."""

    def __init__(self) -> None:
        self.read = 0
        self.digests = {"tool:t": "1"}
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: DownstreamError | None = None
        self.now = 0.0

    async def __call__(self) -> dict[str, str]:
        self.read += 1
        digests = dict(self.digests)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return digests

    def offer(self) -> Offer:
        return Offer(self, lambda: self.now)


async def test_what_was_read_is_good_until_it_is_said_to_have_changed() -> None:
    lists = Lists()
    offer = lists.offer()
    assert await offer.digests() == {"tool:t": "1"}
    await offer.digests()
    assert lists.read == 1
    lists.digests = {"tool:t": "2"}
    offer.changed()
    assert await offer.digests() == {"tool:t": "2"}


async def test_a_change_while_reading_is_read_again() -> None:
    """S139: no call goes out on what was out of date before it was known."""
    lists = Lists()
    lists.gate.clear()
    offer = lists.offer()
    async with asyncio.TaskGroup() as group, asyncio.timeout(5):
        first, second = group.create_task(offer.digests()), group.create_task(offer.digests())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        lists.digests = {"tool:t": "2"}
        offer.changed()
        lists.gate.set()
    assert first.result() == second.result() == {"tool:t": "2"}
    assert lists.read == 2


async def test_lists_are_read_again_after_five_minutes() -> None:
    """S139."""
    lists = Lists()
    offer = lists.offer()
    await offer.digests()
    lists.now = MAX_AGE + 1
    await offer.digests()
    assert lists.read == 2


async def test_lists_that_cannot_be_read_are_not_taken_for_read() -> None:
    lists = Lists()
    lists.error = DownstreamError(Reason.TIMEOUT, "no answer")
    offer = lists.offer()
    for _ in range(2):
        with pytest.raises(DownstreamError, match="no answer"):
            await offer.digests()
    assert lists.read == 2


async def test_where_nobody_inspects_everything_passes() -> None:
    inspector = Inspector()
    assert await inspector.before("a", stdio()) is None
    await inspector.after("a", stdio(), {})
    inspector.wrong_key("a", "", "f" * 64)
    assert await inspector.cleared(call()) is None


def test_both_errors_say_that_the_server_cannot_be_had() -> None:
    assert Quarantined("no").reason is Reason.UNAVAILABLE
    assert (WrongKey("no", "f").reason, WrongKey("no", "f").found) == (Reason.UNAVAILABLE, "f")


def test_a_meeting_says_whose_connection_it_is() -> None:
    assert Meeting.__dataclass_fields__["whose"].type == "str"
