"""The pace of progress (S94)."""

from __future__ import annotations

import asyncio

from gateway.downstream.progress import BURST, Bucket, Pacer
from gateway.protocol.rawjson import Members, decode_value
from tests.kit.transport import members


class Line:
    """Collects what gets through."""

    def __init__(self) -> None:
        self.values: list[object] = []
        self.arrived = asyncio.Event()

    def send(self, params: Members) -> None:
        self.values.append(decode_value(params["progress"]))
        self.arrived.set()


async def test_a_flood_becomes_a_burst_and_the_newest_value() -> None:
    line = Line()
    pacer = Pacer(line.send, asyncio.get_running_loop())
    for number in range(10_000):
        assert pacer.offer(number, members(progress=number))
    assert line.values == list(range(BURST))
    pacer.close()
    assert line.values == [*range(BURST), 9_999]


async def test_what_is_held_goes_out_by_itself_when_there_is_room() -> None:
    line = Line()
    pacer = Pacer(line.send, asyncio.get_running_loop())
    for number in range(BURST + 5):
        pacer.offer(number, members(progress=number))
    line.arrived.clear()
    await asyncio.wait_for(line.arrived.wait(), 5)
    assert line.values[-1] == BURST + 4
    pacer.close()
    assert len(line.values) == BURST + 1


async def test_equal_and_smaller_values_and_late_ones_are_dropped() -> None:
    line = Line()
    pacer = Pacer(line.send, asyncio.get_running_loop())
    assert pacer.offer(2, members(progress=2))
    assert not pacer.offer(2, members(progress=2))
    assert not pacer.offer(1.5, members(progress=1.5))
    pacer.close()
    assert not pacer.offer(3, members(progress=3))
    pacer.close()
    assert line.values == [2]


def test_a_bucket_refills_with_time_and_never_beyond_its_burst() -> None:
    now = [0.0]
    bucket = Bucket(2, 4.0, lambda: now[0])
    assert [bucket.take(), bucket.take(), bucket.take()] == [0.0, 0.0, 0.25]
    now[0] = 0.25
    assert bucket.take() == 0.0
    now[0] = 100.0
    assert [bucket.take(), bucket.take(), bucket.take()] == [0.0, 0.0, 0.25]
