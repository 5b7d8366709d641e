"""Where a command finds the log, and what it says where there is none."""

from __future__ import annotations

import argparse
import errno
from pathlib import Path

import pytest

from gateway.cli.audit_place import directory_of, told


def test_the_directory_is_the_one_that_was_named_else_the_configs(tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text("audit: {dir: logs}\n")
    assert directory_of(argparse.Namespace(dir="here", config=config)) == Path("here")
    assert directory_of(argparse.Namespace(dir=None, config=config)) == tmp_path / "logs"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no \x1b time"), "no \\x1b time\n"),
        (FileExistsError(errno.EEXIST, "File exists", "out.jsonl"), "out.jsonl exists\n"),
        (PermissionError(errno.EACCES, "Permission denied", "log"), "log cannot be read: Permission denied\n"),
        (OSError(errno.EIO, "Input/output error"), "the audit log cannot be read: Input/output error\n"),
    ],
)
def test_what_stops_a_command_is_said_in_a_line(
    error: Exception, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(_args: argparse.Namespace) -> int:
        raise error

    assert told(work, argparse.Namespace()) == 2
    assert capsys.readouterr().err == said


def test_a_reader_that_has_seen_enough_is_for_the_border() -> None:
    def work(_args: argparse.Namespace) -> int:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        told(work, argparse.Namespace())
