"""Background tasks: each has an owner, and its end is never lost."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from gateway.tasks import TaskSet, outcome


async def test_an_outcome_is_a_value_or_a_failure_and_never_a_cancellation() -> None:
    async def seven() -> int:
        return 7

    assert await outcome(seven()) == 7
    assert isinstance(await outcome(fail("x")), ValueError)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await outcome(wait_for_ever())


class Crashes:
    """Keeps what was reported; ``seen`` is set with the first one."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, str]] = []
        self.seen = asyncio.Event()

    def __call__(self, name: str, error: BaseException) -> None:
        self.reported.append((name, str(error)))
        self.seen.set()


async def fail(text: str) -> None:
    raise ValueError(text)


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


async def test_a_task_runs_under_its_name_and_leaves_when_it_is_done() -> None:
    crashes = Crashes()
    tasks = TaskSet(crashes)
    ran = asyncio.Event()

    async def work() -> None:
        ran.set()

    task = tasks.start(work(), "reader")
    assert (task.get_name(), len(tasks)) == ("reader", 1)
    await asyncio.wait_for(task, 5)
    await asyncio.sleep(0)
    assert ran.is_set()
    assert len(tasks) == 0
    assert crashes.reported == []


async def test_a_crash_is_reported_and_touches_no_other_task() -> None:
    crashes = Crashes()
    tasks = TaskSet(crashes)
    other = tasks.start(wait_for_ever(), "other")
    tasks.start(fail("broken pipe"), "reader")
    await asyncio.wait_for(crashes.seen.wait(), 5)
    assert crashes.reported == [("reader", "broken pipe")]
    assert not other.done()
    await asyncio.wait_for(tasks.aclose(), 5)
    assert crashes.reported == [("reader", "broken pipe")]


async def test_closing_ends_every_task_and_waits_for_it() -> None:
    crashes = Crashes()
    tasks = TaskSet(crashes)
    tidied: list[str] = []
    running = asyncio.Event()

    async def work() -> None:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            tidied.append("work")

    task = tasks.start(work(), "work")
    await asyncio.wait_for(running.wait(), 5)
    await asyncio.wait_for(tasks.aclose(), 5)
    assert tidied == ["work"]
    assert task.cancelled()
    assert len(tasks) == 0
    assert crashes.reported == []


async def test_a_crash_on_the_way_out_is_reported_too() -> None:
    crashes = Crashes()
    tasks = TaskSet(crashes)
    running = asyncio.Event()

    async def work() -> None:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            raise OSError("cannot tidy up")

    tasks.start(work(), "work")
    await asyncio.wait_for(running.wait(), 5)
    await asyncio.wait_for(tasks.aclose(), 5)
    assert crashes.reported == [("work", "cannot tidy up")]


async def test_a_task_may_close_the_set_it_belongs_to() -> None:
    """A connection is closed by whoever notices its end, also by its own reading task."""
    crashes = Crashes()
    tasks = TaskSet(crashes)
    other = tasks.start(wait_for_ever(), "other")
    steps: list[str] = []

    async def work() -> None:
        await tasks.aclose()
        steps.append("closed")
        await asyncio.sleep(0)
        steps.append("still alive")

    await asyncio.wait_for(tasks.start(work(), "reader"), 5)
    assert steps == ["closed", "still alive"]
    assert other.cancelled()
    await asyncio.sleep(0)
    assert len(tasks) == 0


async def test_two_tasks_that_close_the_set_at_once_both_end() -> None:
    tasks = TaskSet(Crashes())
    both = asyncio.Barrier(2)

    async def work() -> None:
        await both.wait()
        await tasks.aclose()

    made = [tasks.start(work(), f"closer {number}") for number in range(2)]
    await asyncio.wait_for(asyncio.wait(made), 5)
    await asyncio.wait_for(tasks.aclose(), 5)
    assert len(tasks) == 0


async def test_a_closed_set_starts_nothing_and_leaves_nothing_unawaited() -> None:
    tasks = TaskSet(Crashes())
    await asyncio.wait_for(tasks.aclose(), 5)
    work = wait_for_ever()
    with pytest.raises(RuntimeError, match="'late' started after"):
        tasks.start(work, "late")
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
    assert len(tasks) == 0


async def test_closing_twice_is_closing_once() -> None:
    tasks = TaskSet(Crashes())
    tasks.start(wait_for_ever(), "work")
    await asyncio.wait_for(tasks.aclose(), 5)
    await asyncio.wait_for(tasks.aclose(), 5)
    assert len(tasks) == 0


async def test_a_task_may_start_others_until_the_set_is_closed() -> None:
    crashes = Crashes()
    tasks = TaskSet(crashes)

    async def parent() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            tasks.start(wait_for_ever(), "too late")

    async def ready() -> None:
        tasks.start(parent(), "parent")

    await asyncio.wait_for(tasks.start(ready(), "starter"), 5)
    await asyncio.sleep(0)
    await asyncio.wait_for(tasks.aclose(), 5)
    assert [name for name, _ in crashes.reported] == ["parent"]
    assert len(tasks) == 0


async def test_what_runs_can_be_waited_for_without_ending_it() -> None:
    tasks, free, done = TaskSet(lambda _, error: None), asyncio.Event(), []

    async def work() -> None:
        await free.wait()
        done.append(True)

    await tasks.settled()
    tasks.start(work(), "work")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await tasks.settled()
    free.set()
    async with asyncio.timeout(5):
        await tasks.settled()
    assert done == [True]
    await tasks.aclose()
