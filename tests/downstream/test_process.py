from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gateway.downstream import process as module
from gateway.downstream.command import Command
from gateway.downstream.guardian import Guardian
from gateway.downstream.process import Process, start
from gateway.errors import DownstreamError, Reason
from tests.kit.processes import SCRIPT, WAIT, alive, eventually, guarded


@dataclass
class Owner:
    """Keeps what a process hands up."""

    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    ends: list[str] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def output(self, data: bytes) -> None:
        self.out += data

    def complaint(self, data: bytes) -> None:
        self.err += data

    def ended(self, how: str) -> None:
        self.ends.append(how)
        self.over.set()


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def shell(line: str) -> Command:
    return Command(("/bin/sh", "-c", line), {"PATH": os.defpath}, "/")


@asynccontextmanager
async def started(line: str) -> AsyncIterator[tuple[Process, Owner, Guardian]]:
    async with guarded() as guardian:
        owner = Owner()
        process = await start(shell(line), guardian, owner)
        try:
            yield process, owner, guardian
        finally:
            await process.stop()


def group(pgid: int) -> list[int]:
    """The processes of a group, zombies of ours too; what process 1 has not reaped is not ours."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                state, parent, group = file.read().rsplit(")", 1)[1].split()[:3]
        except OSError:
            continue
        if int(group) == pgid and (state != "Z" or int(parent) == os.getpid()):
            found.append(int(entry))
    return found


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "GRACE", 0.3)
    return iter(())


class SlowOwner(Owner):
    """Takes its time over every piece of output, as a flood of messages does; notes when it was free again."""

    def __init__(self) -> None:
        super().__init__()
        self.rests: list[float] = []
        self._free_at = 0.0

    def output(self, data: bytes) -> None:
        if self._free_at:
            self.rests.append(time.monotonic() - self._free_at)
        time.sleep(0.02)
        self._free_at = time.monotonic()
        super().output(data)


async def test_a_flood_of_output_leaves_half_of_the_loop_to_others() -> None:
    """G117: reading rests as long as the last piece took."""
    async with guarded() as guardian:
        owner = SlowOwner()
        process = await start(shell("exec cat /dev/zero"), guardian, owner)
        async with asyncio.timeout(WAIT):
            while len(owner.rests) < 5:
                await asyncio.sleep(0.005)
        process.kill()
        await process.stop()
    assert min(owner.rests[:5]) > 0.015


async def test_output_comes_before_the_end_and_the_end_once() -> None:
    async with started("echo out; echo err >&2; exit 3") as (_, owner, _):
        await asyncio.wait_for(owner.over.wait(), WAIT)
        assert (bytes(owner.out), bytes(owner.err), owner.ends) == (b"out\n", b"err\n", ["exited with code 3"])


async def test_a_process_reads_what_is_written() -> None:
    async with started("read line; echo got $line") as (process, owner, _):
        process.write(b"hello\n")
        await asyncio.wait_for(owner.over.wait(), WAIT)
        assert bytes(owner.out) == b"got hello\n"
        process.write(b"too late\n")
        assert process.unsent == 0


async def test_the_end_is_noticed_although_a_grandchild_holds_the_pipes() -> None:
    """M17, S114"""
    async with started("sleep 60 & kill -9 $$") as (process, owner, _):
        await asyncio.wait_for(owner.over.wait(), WAIT)
        assert owner.ends == ["was ended by SIGKILL"]
        await process.stop()
        assert group(process.pid) == []


@pytest.mark.parametrize(
    ("line", "how"), [("exec >&-; exec sleep 60", "closed its output"), ("exec <&-; exec sleep 60", "closed its input")]
)
@pytest.mark.usefixtures("short_grace")
async def test_a_process_that_closes_a_pipe_and_lives_on_is_over(line: str, how: str) -> None:
    async with started(line) as (process, owner, _):
        await asyncio.wait_for(owner.over.wait(), WAIT)
        assert owner.ends == [how]
        await process.stop()
        assert not alive(process.pid)


async def test_closing_standard_error_is_no_end() -> None:
    async with started("exec 2>&-; read line; echo $line") as (process, owner, _):
        process.write(b"still here\n")
        await asyncio.wait_for(owner.over.wait(), WAIT)
        assert (bytes(owner.out), owner.ends) == (b"still here\n", ["exited with code 0"])


async def test_the_end_of_input_is_the_first_word_and_enough_for_most() -> None:
    """S110: no signal reaches a process that ends by itself."""
    line = "trap 'echo signalled; exit 9' TERM; cat; echo flushed"
    async with started(line) as (process, owner, _):
        process.write(b"last words\n")
        await eventually(lambda: owner.out)
        await process.stop()
        # Without an owner the rest is only drained.
        assert bytes(owner.out) == b"last words\n"
        assert owner.ends == []
        assert group(process.pid) == []


@pytest.mark.usefixtures("short_grace")
async def test_sigterm_to_the_group_is_the_second_word() -> None:
    line = "trap 'echo asked >&2; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    async with started(line) as (process, owner, _):
        await eventually(lambda: owner.out)
        await process.stop()
        assert group(process.pid) == []
        assert process._child.returncode == 0


async def test_a_group_that_ignores_everything_is_gone_after_both_graces() -> None:
    """S110, S111, G012: the real graces; leader and three grandchildren ignore end of input and SIGTERM."""
    async with guarded() as guardian:
        owner = Owner()
        command = Command(
            (sys.executable, "-I", "-S", SCRIPT, "noeof", "ignoreterm", "fork=3"), {"PATH": os.defpath}, "/"
        )
        process = await start(command, guardian, owner)
        await eventually(lambda: len(group(process.pid)) == 4)
        async with asyncio.timeout(6):
            await process.stop()
        assert group(process.pid) == []


@pytest.mark.usefixtures("short_grace")
async def test_grandchildren_of_a_leader_that_ended_are_ended_too() -> None:
    """S111"""
    async with started("(trap '' TERM; sleep 60) & (trap '' TERM; sleep 60) & exit 1") as (process, owner, _):
        await asyncio.wait_for(owner.over.wait(), WAIT)
        await process.stop()
        assert group(process.pid) == []


async def test_kill_has_no_grace() -> None:
    async with started("trap '' TERM; while :; do sleep 0.05; done") as (process, owner, _):
        process.kill()
        async with asyncio.timeout(1.5):
            await process.stop()
        assert owner.ends == []


async def test_a_stop_that_is_cancelled_goes_on() -> None:
    async with started("trap '' TERM; while :; do sleep 0.05; done") as (process, _, _):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.stop(), 0.05)
        process.kill()
        await eventually(lambda: not alive(process.pid))
        await process.stop()


async def test_output_is_drained_while_stopping() -> None:
    """S107: a process that must write before it ends must not be stuck."""
    line = "cat; head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2"
    async with started(line) as (process, _, _):
        async with asyncio.timeout(2):
            await process.stop()
        assert process._child.returncode == 0


async def test_a_reader_that_stops_makes_writers_wait() -> None:
    """S116"""
    async with started("sleep 60") as (process, _, _):
        await process.room()
        process.write(b"x" * 1_000_000)
        assert process.unsent > module.MAX_UNSENT
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.room(), 0.05)
        process.kill()
        await asyncio.wait_for(process.room(), WAIT)


async def test_the_guardian_watches_from_before_the_program_starts_until_the_group_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S112"""
    seen: list[tuple[str, int, list[str]]] = []

    def note(what: str) -> None:
        def noted(self: Guardian, pgid: int) -> None:
            # In the middle of an exec a process has no command line.
            line, end = "", time.monotonic() + 5
            while group(pgid) and not line and time.monotonic() < end:
                with open(f"/proc/{pgid}/cmdline") as file:
                    line = file.read()
                if what == "release":
                    break
            seen.append((what, pgid, line.split("\0")))

        monkeypatch.setattr(Guardian, what, noted)

    note("watch")
    note("release")
    async with started("cat") as (process, _, _):
        pid = process.pid
        await process.stop()
    assert [(what, pgid) for what, pgid, _ in seen] == [("watch", pid), ("release", pid)]
    assert any("launcher.py" in word for word in seen[0][2])
    assert seen[1][2] == [""]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (Command(("/etc/passwd",), {}, "/"), "cannot start passwd: Permission denied"),
        (Command(("/bin/sh",), {}, "/secret/folder"), "cannot start sh: working directory: No such file or directory"),
    ],
)
async def test_a_start_that_fails_says_why_and_leaves_nothing(command: Command, message: str) -> None:
    async with guarded() as guardian:
        owner = Owner()
        with pytest.raises(DownstreamError) as caught:
            await start(command, guardian, owner)
        assert caught.value.message == message
        assert caught.value.reason is Reason.UNAVAILABLE
        assert owner.ends == []
        # Nothing but the guardian process is a child of ours, dead or alive.
        assert os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


async def test_a_start_that_is_cancelled_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []

    async def hang(gate: object, orders: bytes) -> bytes:
        await asyncio.sleep(60)
        return b""

    def watched(self: Guardian, pgid: int) -> None:
        pids.append(pgid)

    monkeypatch.setattr(module, "_exchange", hang)
    monkeypatch.setattr(Guardian, "watch", watched)
    async with guarded() as guardian:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(start(shell("sleep 60"), guardian, Owner()), 0.3)
        assert len(pids) == 1
        assert group(pids[0]) == []


async def test_a_process_that_nobody_would_guard_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Guardian, pgid: int) -> None:
        raise OSError

    async with guarded() as guardian:
        monkeypatch.setattr(Guardian, "watch", refuse)
        with pytest.raises(DownstreamError, match="cannot start sh: the launch failed"):
            await start(shell("sleep 60"), guardian, Owner())


async def test_memory_is_limited_for_the_process_only() -> None:
    """S113"""
    async with guarded() as guardian:
        owner = Owner()
        code = "bytearray(4 * 2**30); print('allocated')"
        command = Command((sys.executable, "-I", "-S", "-c", code), {}, "/", memory=512 * 2**20)
        process = await start(command, guardian, owner)
        await asyncio.wait_for(owner.over.wait(), WAIT)
        await process.stop()
        assert bytes(owner.out) == b""
        assert owner.ends in (["exited with code 1"], ["was ended by SIGKILL"])


async def test_open_files_are_limited_for_the_process_only() -> None:
    """S113"""
    async with guarded() as guardian:
        owner = Owner()
        code = "import os\ntry:\n [os.dup(0) for _ in range(10000)]\nexcept OSError as error:\n print(error.errno)"
        command = Command((sys.executable, "-I", "-S", "-c", code), {}, "/", open_files=64)
        process = await start(command, guardian, owner)
        await asyncio.wait_for(owner.over.wait(), WAIT)
        await process.stop()
        assert bytes(owner.out) == b"24\n"


def test_it_works_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def conversation() -> None:
        async with started("read line; echo got $line; sleep 60 & exit 7") as (process, owner, _):
            process.write(b"x\n")
            await asyncio.wait_for(owner.over.wait(), WAIT)
            assert (bytes(owner.out), owner.ends) == (b"got x\n", ["exited with code 7"])
            await process.stop()
            assert group(process.pid) == []

    work: Coroutine[object, object, None] = conversation()
    uvloop.run(work)
