from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import __version__
from gateway.cli.commands import COMMANDS
from gateway.cli.main import main
from tests.kit.config_files import CANARY, write


def test_a_command_that_does_not_exist_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", "check", "chekc", "--json"]) == 2
    assert capsys.readouterr().err == "mcp-gateway: there is no command 'chekc' (did you mean 'check'?)\n"


def test_a_command_like_no_other_is_answered_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["\x1b[31mzzzzzz"]) == 2
    text = capsys.readouterr().err
    assert "commands: " in text
    assert "snippet" in text
    assert "\x1b" not in text


def test_no_command_prints_help_and_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["check", "--help"], ["--version"]])
def test_help_and_version_are_fine(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "mcp-gateway" in out
    assert words != ["--version"] or out == f"mcp-gateway {__version__}\n"


@pytest.mark.parametrize("words", [["check", "--frobnicate"], ["keys"], ["keys", "nwe"], ["snippet"]])
def test_a_command_line_that_makes_no_sense_is_two(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "error: " in capsys.readouterr().err


def test_a_config_that_is_not_there_is_two_and_says_where_to_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == 2
    assert capsys.readouterr().err == (
        "gateway.yaml: does not exist\nname the config with -c FILE, or run the command where gateway.yaml is\n"
    )
    assert main(["check", "-c", "other.yaml", "--json"]) == 2
    streams = capsys.readouterr()
    assert streams.err == "other.yaml: does not exist\n"
    assert '"message":"does not exist"' in streams.out


def test_a_broken_config_stops_other_commands_with_all_its_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, f"listen: {{prot: 1}}\nclients: {{bot: {{key: {CANARY}}}}}\n")
    assert main(["snippet", "cursor", "-c", str(path)]) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 2
    assert "did you mean 'port'?" in text
    assert CANARY not in text


def test_every_command_takes_the_common_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(COMMANDS) >= 4
    for words in (["check"], ["keys", "new"], ["schema"], ["snippet"]):
        assert main([*words, "--help"]) == 0
        shown = capsys.readouterr().out
        assert "--json" in shown
        assert "-c FILE" in shown


def test_output_that_nobody_reads_is_no_traceback(tmp_path: Path) -> None:
    command = f"{sys.executable} -m gateway schema | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "{"
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.parametrize("words", [[], ["serve"], ["audit"], ["audit", "verify"], ["keys", "new"]])
def test_every_help_begins_with_a_sentence(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--help"]) == 0
    usage, sentence, *_ = capsys.readouterr().out.split("\n\n")
    assert usage.startswith("usage: mcp-gateway")
    assert re.fullmatch(r"[A-Z][^.]*\.", sentence)
