"""Alerts reach their address in order and once, also when it was away; what it refuses for good is dropped."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from gateway.alerts.webhook import MAX_WAITING, Pace, Webhook
from tests.kit.webhook import Receiver, receiving

PACE = Pace(0.01, 0.02)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


def alert(number: int) -> bytes:
    return json.dumps({"kind": "k", "n": number}).encode()


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.005)


async def test_what_is_put_is_delivered_in_order(receiver: Receiver) -> None:
    counted: Counter[str] = Counter()
    hook = Webhook(0, receiver.url, lambda result: counted.update([result]), PACE)
    for number in range(3):
        hook.put(alert(number))
    await hook.aclose()
    assert [each["n"] for each in receiver.got] == [0, 1, 2]
    assert counted == {"delivered": 3}


async def test_what_failed_is_tried_again_before_anything_else(receiver: Receiver) -> None:
    counted: Counter[str] = Counter()
    receiver.statuses = [503, 429]
    hook = Webhook(0, receiver.url, lambda result: counted.update([result]), PACE)
    hook.put(alert(0))
    hook.put(alert(1))
    await until(lambda: len(receiver.got) == 2)
    assert [each["n"] for each in receiver.got] == [0, 1]
    await hook.aclose()
    assert counted == {"failed": 2, "delivered": 2}


async def test_an_address_that_is_away_gets_it_when_it_is_back(receiver: Receiver) -> None:
    counted: Counter[str] = Counter()
    await asyncio.to_thread(receiver.down)
    hook = Webhook(0, receiver.url, lambda result: counted.update([result]), PACE)
    hook.put(alert(0))
    await until(lambda: counted["failed"] > 1)
    assert hook.waiting == 1
    receiver.up()
    await until(lambda: counted["delivered"])
    assert [each["n"] for each in receiver.got] == [0]
    await hook.aclose()


@pytest.mark.parametrize("status", [302, 400, 401, 404, 410])
async def test_what_would_be_refused_again_is_dropped(receiver: Receiver, status: int) -> None:
    counted: Counter[str] = Counter()
    receiver.statuses = [status]
    hook = Webhook(0, receiver.url, lambda result: counted.update([result]), PACE)
    hook.put(alert(0))
    hook.put(alert(1))
    await until(lambda: counted["delivered"])
    assert [each["n"] for each in receiver.got] == [1]
    assert counted == {"dropped": 1, "delivered": 1}
    await hook.aclose()


async def test_a_full_queue_loses_the_oldest(receiver: Receiver) -> None:
    counted: Counter[str] = Counter()
    await asyncio.to_thread(receiver.down)
    hook = Webhook(0, receiver.url, lambda result: counted.update([result]), PACE)
    for number in range(MAX_WAITING + 5):
        hook.put(alert(number))
    await until(lambda: counted["failed"])
    assert (hook.waiting, counted["dropped"]) == (MAX_WAITING, 5)
    receiver.up()
    await until(lambda: not hook.waiting)
    assert [each["n"] for each in receiver.got] == list(range(5, MAX_WAITING + 5))
    await hook.aclose()


async def test_the_end_does_not_wait_for_an_address_that_is_away(receiver: Receiver) -> None:
    await asyncio.to_thread(receiver.down)
    hook = Webhook(0, receiver.url, lambda result: None, Pace(60, 60))
    hook.put(alert(0))
    async with asyncio.timeout(5):
        await hook.aclose(0.01)


async def test_cloud_metadata_is_never_dialed() -> None:
    """S118."""
    counted: Counter[str] = Counter()
    hook = Webhook(0, "http://169.254.169.254/latest", lambda result: counted.update([result]), PACE)
    hook.put(alert(0))
    await until(lambda: counted["failed"])
    await hook.aclose(0)
    assert counted["delivered"] == 0
