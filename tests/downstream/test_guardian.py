from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.downstream import child
from gateway.downstream import guardian as guardians
from gateway.downstream.guardian import Guardian
from gateway.errors import GatewayError
from tests.kit.processes import SCRIPT, WAIT, alive, eventually, guarded

GATEWAY = """
import asyncio, json, os, sys
from gateway.config.servers import Server
from gateway.downstream.guardian import Guardian
from gateway.downstream.stdio import StdioTransport
from tests.kit.processes import Recorder, call, said

async def main():
    guardian = Guardian()
    await guardian.start()
    pids = []
    for n in range(2):
        server = Server(command=sys.executable, args=["-I", "-S", sys.argv[1], "noeof", "ignoreterm", "fork=3"])
        transport = StdioTransport(f"s{n}", server, guardian)
        await transport.open(Recorder())
        pids.append(int(transport.instance[4:].partition("#")[0]))
        pids += json.loads(said(await transport.request(call("children"))))
    print(json.dumps([guardian.pid, pids]), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_a_gateway_that_is_killed_takes_every_server_with_it(number: signal.Signals) -> None:
    """S112, G012: servers that ignore end of input and SIGTERM, each with three grandchildren that do too."""
    process = subprocess.Popen(
        [sys.executable, "-c", GATEWAY, SCRIPT], stdout=subprocess.PIPE, cwd=Path(SCRIPT).parents[2]
    )
    assert process.stdout is not None
    with process, process.stdout:
        line = await asyncio.to_thread(process.stdout.readline)
        keeper, pids = json.loads(line)
        assert len(pids) == 8
        assert all(alive(pid) for pid in (keeper, *pids))
        process.send_signal(number)
        process.wait(WAIT)
        await eventually(lambda: not any(alive(pid) for pid in (keeper, *pids)))


async def test_closing_ends_the_process_and_the_groups_it_still_watches() -> None:
    guardian = Guardian()
    await guardian.start()
    keeper = guardian.pid
    watched, released = sleeper(), sleeper()
    guardian.watch(watched.pid)
    guardian.watch(released.pid)
    guardian.release(released.pid)
    await guardian.aclose()
    await guardian.aclose()
    assert watched.wait(WAIT) == -signal.SIGKILL
    assert released.poll() is None
    assert keeper is not None
    assert not alive(keeper)
    released.kill()
    released.wait()


async def test_a_guardian_that_dies_is_replaced_and_told_all_groups() -> None:
    async with guarded() as guardian:
        watched = sleeper()
        guardian.watch(watched.pid)
        first = guardian.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: guardian.pid not in (None, first))
        assert watched.poll() is None
    assert watched.wait(WAIT) == -signal.SIGKILL


async def test_a_group_is_watched_although_the_guardian_has_just_died() -> None:
    async with guarded() as guardian:
        assert guardian.pid is not None
        first = guardian.pid
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        watched = sleeper()
        # No turn of the loop in between: its end is noticed by writing to it.
        guardian.watch(watched.pid)
        assert guardian.pid != first
    assert watched.wait(WAIT) == -signal.SIGKILL


async def test_replacing_a_guardian_that_does_not_listen_kills_nothing() -> None:
    """A stopped guardian process that wakes up to a closed pipe would end every group."""
    async with guarded() as guardian:
        watched = sleeper()
        guardian.watch(watched.pid)
        first = guardian.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        for _ in range(20_000):
            guardian.watch(watched.pid)
            if guardian.pid != first:
                break
        assert guardian.pid != first
        await eventually(lambda: not alive(first))
        assert watched.poll() is None
    assert watched.wait(WAIT) == -signal.SIGKILL


async def test_a_guardian_that_keeps_dying_is_not_restarted_in_a_busy_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[int] = []
    spawn = child.spawn

    def counted(argv: tuple[str, ...]) -> subprocess.Popen[bytes]:
        starts.append(1)
        return spawn(argv)

    async with guarded() as guardian:
        monkeypatch.setattr(guardians, "spawn", counted)
        for _ in range(2):
            pid = guardian.pid
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                await eventually(lambda pid=pid: guardian.pid != pid)  # type: ignore[misc]  # Bound per round.
        assert len(starts) == 1
        assert guardian.pid is None


@pytest.mark.parametrize("argv", [("/bin/true",), ("/nonexistent",)], ids=["ends at once", "cannot be executed"])
async def test_a_guardian_that_does_not_come_up_is_an_error(
    argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn = child.spawn
    monkeypatch.setattr(guardians, "spawn", lambda _: spawn(argv))
    guardian = Guardian()
    with pytest.raises(GatewayError, match="guardian"):
        await guardian.start()
    assert guardian.pid is None
