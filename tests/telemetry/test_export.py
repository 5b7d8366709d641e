"""Batches on their way to a collector that fails, lingers or is exchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from gateway.telemetry.collector import Unsent
from gateway.telemetry.export import BATCH, Export, Pace
from gateway.telemetry.logs import configure

QUICK = Pace(look=0.001, first=0.001, longest=0.004, tries=3)


@dataclass(slots=True)
class Box:
    """Holds numbers."""

    waiting: list[int] = field(default_factory=list)
    unwanted: int = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def take(self, most: int) -> tuple[int, Callable[[], bytes]]:
        taken, self.waiting = self.waiting[:most], self.waiting[most:]
        return len(taken), partial(bytes, len(taken))

    def refused(self, answer: bytes) -> int:
        return self.unwanted


@dataclass(slots=True)
class Road:
    """Takes what comes unless told otherwise; each of ``ends`` is raised once."""

    ends: list[Unsent] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    closed: int = 0

    def __post_init__(self) -> None:
        self.open.set()

    async def send(self, body: bytes) -> bytes:
        await self.open.wait()
        self.sizes.append(len(body))
        if self.ends:
            raise self.ends.pop(0)
        return b""

    async def aclose(self) -> None:
        self.closed += 1


@dataclass(slots=True)
class Count:
    """Keeps what was counted."""

    results: dict[str, int] = field(default_factory=dict)
    failures: int = 0

    def spans(self, count: int, result: str) -> None:
        self.results[result] = self.results.get(result, 0) + count

    def failed(self) -> None:
        self.failures += 1


async def until(true: Callable[[], bool]) -> None:
    """Wait for something, at most five seconds."""
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.001)


async def test_what_waits_is_sent_in_batches() -> None:
    box, road, count = Box(list(range(BATCH + 7))), Road(), Count()
    task = asyncio.get_running_loop().create_task(Export(box, road, count, QUICK).run())
    await until(lambda: count.results == {"sent": BATCH + 7})
    task.cancel()
    assert road.sizes == [BATCH, 7]


async def test_a_request_is_tried_again_and_then_given_up() -> None:
    box, count = Box([1, 2]), Count()
    road = Road([Unsent("status 503", 0.001), Unsent("no connection")])
    export = Export(box, road, count, QUICK)
    task = asyncio.get_running_loop().create_task(export.run())
    await until(lambda: count.results == {"sent": 2})
    assert (count.failures, road.sizes) == (2, [2, 2, 2])
    road.ends = [Unsent("no connection") for _ in range(3)]
    box.waiting = [1]
    await until(lambda: count.results == {"sent": 2, "lost": 1})
    task.cancel()
    assert count.failures == 5


def test_a_collector_is_waited_for_as_long_as_it_asks_within_bounds() -> None:
    pace = Pace()
    assert [pace.after(failures, 0) for failures in (1, 2, 3, 9)] == [0.5, 1.0, 2.0, 8.0]
    assert [pace.after(1, asked) for asked in (0.1, 30, 9999)] == [0.5, 30, 60]


async def test_what_the_collector_does_not_want_is_not_sent_again() -> None:
    box, count = Box([1, 2]), Count()
    road = Road([Unsent("status 400", final=True)])
    task = asyncio.get_running_loop().create_task(Export(box, road, count, QUICK).run())
    await until(lambda: count.results == {"refused": 2})
    box.unwanted, box.waiting = 1, [1, 2, 3]
    await until(lambda: count.results == {"refused": 3, "sent": 2})
    # It cannot refuse more than it got.
    box.unwanted, box.waiting = 99, [1]
    await until(lambda: count.results == {"refused": 4, "sent": 2})
    # And no less than none.
    box.unwanted, box.waiting = -1, [1]
    await until(lambda: count.results == {"refused": 4, "sent": 3})
    task.cancel()
    assert road.sizes == [2, 3, 1, 1]


async def test_one_odd_failure_does_not_end_the_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Whatever tests before this one made of the log.
    configure("json", "info")
    box, road, count = Box([1]), Road(), Count()
    real = Box.take

    def take(self: Box, most: int) -> tuple[int, Callable[[], bytes]]:
        taken, _ = real(self, most)
        return taken, _broken

    task = asyncio.get_running_loop().create_task(Export(box, road, count, QUICK).run())
    with monkeypatch.context() as patched:
        patched.setattr(Box, "take", take)
        await until(lambda: count.results == {"lost": 1})
    box.waiting = [1, 2]
    await until(lambda: count.results == {"lost": 1, "sent": 2})
    task.cancel()
    with monkeypatch.context() as patched:
        patched.setattr(Box, "take", take)
        box.waiting = [1]
        await Export(box, road, count, QUICK).aclose(5)
    assert count.results == {"lost": 2, "sent": 2}
    said = capsys.readouterr().err
    assert '"ZeroDivisionError"' in said


def _broken() -> bytes:
    return bytes(1 // len(b""))


async def test_another_way_is_taken_and_the_old_one_closed() -> None:
    box, old, new, count = Box(), Road(), Road(), Count()
    export = Export(box, old, count, QUICK)
    task = asyncio.get_running_loop().create_task(export.run())
    export.change(new)
    box.waiting = [1]
    await until(lambda: count.results == {"sent": 1})
    task.cancel()
    assert (old.sizes, old.closed, new.sizes, new.closed) == ([], 1, [1], 0)


async def test_the_end_sends_what_waits_once() -> None:
    box, road, count = Box([1, 2, 3]), Road([Unsent("no connection")]), Count()
    await Export(box, road, count, QUICK).aclose(5)
    assert (count.results, road.closed) == ({"lost": 3}, 1)


async def test_the_end_waits_no_longer_than_it_may() -> None:
    box, road, count = Box(list(range(BATCH + 7))), Road(), Count()
    road.open.clear()
    await Export(box, road, count, QUICK).aclose(0.01)
    assert (count.results, road.sizes, road.closed) == ({"lost": BATCH + 7}, [], 1)


async def test_trouble_is_told_once_and_its_end_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json", "info")
    box, count = Box([1]), Count()
    road = Road([Unsent("status 503"), Unsent("status 503")])
    export = Export(box, road, count, QUICK)
    task = asyncio.get_running_loop().create_task(export.run())
    await until(lambda: count.results == {"sent": 1})
    task.cancel()
    said = capsys.readouterr().err
    assert said.count("spans_not_sent") == 1
    assert said.count("spans_sent_again") == 1


async def test_a_batch_that_is_cut_short_is_counted() -> None:
    box, road, count = Box([1, 2]), Road(), Count()
    road.open.clear()
    task = asyncio.get_running_loop().create_task(Export(box, road, count, QUICK).run())
    await until(lambda: not box.waiting)
    task.cancel()
    await asyncio.wait([task])
    assert count.results == {"lost": 2}


async def test_at_the_end_a_request_that_is_under_way_arrives() -> None:
    box, road, count = Box([1, 2]), Road(), Count()
    road.open.clear()
    export = Export(box, road, count, QUICK)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(export.run())
        await until(lambda: not box.waiting)
        ending = group.create_task(export.settle(5))
        box.waiting = [3]
        road.open.set()
        await ending
    assert (count.results, box.waiting) == ({"sent": 2}, [3])
    await export.aclose(5)
    assert count.results == {"sent": 3}


async def test_at_the_end_nothing_waits_for_another_try_nor_for_ever() -> None:
    box, road, count = Box([1]), Road([Unsent("status 503", 30.0)]), Count()
    export = Export(box, road, count, Pace(look=0.001))
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(export.run())
        await until(lambda: count.failures == 1)
        await export.settle(5)
    # One more, at once.
    assert (count.results, road.sizes) == ({"sent": 1}, [1, 1])
    road.open.clear()
    box.waiting = [2]
    stuck = Export(box, road, count, QUICK)
    task = asyncio.get_running_loop().create_task(stuck.run())
    await until(lambda: not box.waiting)
    await stuck.settle(0.01)
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])
    assert count.results == {"sent": 1, "lost": 1}
