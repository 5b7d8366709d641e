from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio
from gateway.cli import pipes

async def main():
    pipes.MAX_LINE = 100
    lines, printer = pipes.Lines(), pipes.Printer()
    await lines.open()
    try:
        while (line := await lines.read()) is not None:
            await printer.write(line + b"!\\r\\n?")
    except pipes.LineTooLong:
        await printer.write(b"too long")
    lines.close()

asyncio.run(main())
"""


def echoed(**streams: object) -> bytes:
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, stdout=subprocess.PIPE, timeout=20, check=True, **streams).stdout  # type: ignore[call-overload, no-any-return]  # reason: one of stdin and input is given.


def test_lines_of_a_pipe_come_without_blanks_around_and_go_out_as_one_line_each() -> None:
    assert echoed(input=b" a \r\n\n\nb") == b"a!  ?\nb!  ?\n"


def test_a_regular_file_can_be_read_too(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"a\nb\n")
    with path.open("rb") as file:
        assert echoed(stdin=file) == b"a!  ?\nb!  ?\n"


def test_no_input_at_all_is_an_end_and_not_waited_for() -> None:
    assert echoed(stdin=subprocess.DEVNULL) == b""


@pytest.mark.parametrize("line", [b"x" * 300 + b"\n", b"x" * 300])
def test_a_line_over_the_bound_ends_the_reading(line: bytes) -> None:
    assert echoed(input=b"a\n" + line) == b"a!  ?\ntoo long\n"
