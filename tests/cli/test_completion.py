from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.cli.commands import COMMANDS, SHELLS
from gateway.cli.main import main

ASK = """
eval "$SCRIPT"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_mcp_gateway
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", "bash"]) == 0
    return capsys.readouterr().out


def completed(script: str, folder: Path, *words: str) -> list[str]:
    """Complete the last word in a real bash."""
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", "mcp-gateway", *words],
        env={"SCRIPT": script, "PATH": "/usr/bin:/bin"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    assert done.stderr == ""
    return sorted(filter(None, done.stdout.split("\n")))


def test_commands_are_completed(script: str, tmp_path: Path) -> None:
    everything = completed(script, tmp_path, "")
    assert {"serve", "check", "pins", "completion", "import"} <= set(everything)
    assert len(everything) >= len(COMMANDS)
    assert completed(script, tmp_path, "s") == ["schema", "serve", "snippet", "status"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pins", ""], ["approve", "check", "reject", "show"]),
        (["pins", "app"], ["approve"]),
        (["-c", "pins", "pins", "s"], ["show"]),
        (["--config", "=", "x", "keys", ""], ["new"]),
        (["snippet", "claude-"], ["claude-code", "claude-desktop"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["pins", "approve", "--di"], ["--digest"]),
        (["audit", "export", "--format", "j"], ["jsonl"]),
        (["tools", "--as", ""], []),
        (["check", "--l"], ["--live"]),
    ],
)
def test_what_a_command_takes_is_completed(script: str, tmp_path: Path, words: list[str], expected: list[str]) -> None:
    assert completed(script, tmp_path, *words) == expected


def test_files_are_completed_where_one_is_taken(script: str, tmp_path: Path) -> None:
    (tmp_path / "my gateway.yaml").touch()
    (tmp_path / "other").touch()
    for words in (["-c", "my"], ["serve", "--config", "my"], ["import", "my"]):
        assert completed(script, tmp_path, *words) == ["my gateway.yaml"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_every_command_and_a_script_it_can_read(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("serve", "approve", "--digest", "claude-desktop", "snippet"):
        assert word.lstrip("-") in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, timeout=10, check=True)


def test_programs_get_the_script_as_one_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["script"].startswith("# fish completion")


def test_an_unknown_shell_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "tcsh" in capsys.readouterr().err
