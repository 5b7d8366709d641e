"""A signal in the first moments ends the program quietly, with the exit code that shells know."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import signal, sys
from gateway import early
{more}
print("ready", flush=True)
signal.pause()
"""


def ended(more: str, number: signal.Signals) -> tuple[int, str]:
    """Start a program that has come so far, send it a signal, and return its exit code and its complaints."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(more=more)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, complaints = process.communicate(timeout=10)
    return process.returncode, complaints


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_while_the_program_is_read_a_signal_ends_it_without_a_word(number: signal.Signals, code: int) -> None:
    assert ended("", number) == (code, "")


def test_commands_hear_of_an_interrupt_as_an_exception_and_a_sigterm_still_ends_them() -> None:
    code, complaints = ended("early.hand_back()", signal.SIGINT)
    assert (code, "KeyboardInterrupt" in complaints) == (-signal.SIGINT, True)
    assert ended("early.hand_back()", signal.SIGTERM) == (143, "")


def test_what_whoever_started_it_had_ignored_stays_ignored() -> None:
    more = "signal.signal(signal.SIGINT, signal.SIG_IGN); early.take_over(); early.hand_back(); signal.alarm(1)"
    # Only the alarm ends it.
    assert ended(more, signal.SIGINT) == (-signal.SIGALRM, "")
