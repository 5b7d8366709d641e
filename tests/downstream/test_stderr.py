from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.downstream import stderr as module
from gateway.downstream.lent import Lent
from gateway.downstream.stderr import KEPT, LINE_SHOWN, LINES_PER_SECOND, Stderr


class Log:
    """Takes the debug lines that would be written."""

    def __init__(self) -> None:
        self.lines: list[object] = []

    def debug(self, event: str, /, **fields: object) -> None:
        assert (event, fields["server"]) == ("server_stderr", "files")
        self.lines.append(fields["line"])


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    monkeypatch.setattr(module, "_log", log)
    return log


def at(second: float) -> Callable[[], float]:
    return lambda: second


def test_only_the_end_is_kept() -> None:
    """G007: some of it one line without an end, some of it progress with carriage returns."""
    ring = Stderr("files")
    ring.feed(b"x" * 300_000)
    for part in range(1000):
        ring.feed(b"\r%d%% done" % part * 20)
    assert len(ring.text()) <= KEPT * 2
    assert ring.text().endswith("\\r999% done")
    assert "998% done" in ring.text()


def test_the_last_line_is_the_last_one_with_anything_in_it() -> None:
    ring = Stderr("files")
    assert ring.last_line() == ""
    ring.feed(b"first\nTraceback: no key\r\n  \n\n")
    assert ring.last_line() == "Traceback: no key"


def test_control_characters_are_escaped_and_long_lines_cut() -> None:
    """S152"""
    ring = Stderr("files")
    ring.feed(b"\x1b[2J" + b"y" * 1000 + b"\xff\n")
    assert ring.last_line().startswith("\\x1b[2Jyyy")
    assert len(ring.last_line()) == LINE_SHOWN
    assert "\x1b" not in ring.text()


def test_lines_are_logged_up_to_a_rate(log: Log) -> None:
    ring = Stderr("files", at(1.0))
    ring.feed(b"one\ntwo\n\n")
    assert log.lines == ["one", "two"]
    ring.feed(b"".join(b"line %d\n" % number for number in range(10_000)))
    assert len(log.lines) == LINES_PER_SECOND


def test_the_next_second_is_logged_again(log: Log) -> None:
    now = [1.0]
    ring = Stderr("files", lambda: now[0])
    ring.feed(b"x\n" * 100)
    now[0] = 2.0
    ring.feed(b"again\n")
    assert log.lines == ["x"] * LINES_PER_SECOND + ["again"]


def test_what_a_server_was_given_to_keep_is_masked_in_what_it_says(log: Log) -> None:
    """S151: keys are, in every place it can be read; words and paths, which tell what is wrong, are not."""
    given = ["sk-secret-0123456789", "0123456789-longer", "production", "/srv/data/notes"]
    ring = Stderr("files", at(0), lent=Lent(given))
    ring.feed(b"production: bad key sk-secret-0123456789 for /srv/data/notes\n")

    said = "production: bad key *** for /srv/data/notes"
    assert ring.last_line() == said
    assert ring.text() == f"{said}\n"
    assert log.lines == [said]
