from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from gateway.downstream.child import INTERPRETER, script
from gateway.downstream.sentinel import READY, end, obey, watch


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process group that ends by itself only after a long time."""
    with subprocess.Popen(["/bin/sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("order", [b"+0", b"+1", b"+-5", b"+", b"", b"7", b"*7", b"+x"])
def test_orders_that_name_no_single_group_are_ignored(order: bytes) -> None:
    groups: set[int] = set()
    obey(groups, order)
    assert groups == set()


def test_orders_add_and_remove_groups_until_the_end() -> None:
    source, sink = os.pipe()
    os.write(sink, b"+5\n+6\n-5\n+")
    os.write(sink, b"7\n+8")
    os.close(sink)
    assert watch(source) == {6, 7}
    os.close(source)


def test_a_group_that_is_gone_does_not_spare_the_others(sleeper: subprocess.Popen[bytes]) -> None:
    gone = subprocess.Popen(["/bin/true"], start_new_session=True)
    gone.wait()
    end({gone.pid, sleeper.pid})
    assert sleeper.wait(5) == -signal.SIGKILL


def test_the_end_of_its_input_kills_the_known_groups(sleeper: subprocess.Popen[bytes]) -> None:
    argv = [*INTERPRETER, script("sentinel.py")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.read(64) == READY
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process.send_signal(number)
        process.stdin.write(b"+%d\n" % sleeper.pid)
        process.stdin.close()
        assert sleeper.wait(5) == -signal.SIGKILL
        assert process.wait(5) == 0


def test_orders_count_although_nobody_reads_its_first_words(sleeper: subprocess.Popen[bytes]) -> None:
    """A gateway may be gone before its guardian process is up; what it wrote is still in the pipe."""
    source, sink = os.pipe()
    os.close(source)
    argv = [*INTERPRETER, script("sentinel.py")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=sink) as process:
        os.close(sink)
        process.communicate(b"+%d\n" % sleeper.pid, timeout=5)
    assert sleeper.wait(5) == -signal.SIGKILL
