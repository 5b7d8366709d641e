"""``check --live``: findings about what servers offer now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.cli.main import main
from tests.test_runtime import notes, write


def test_a_rule_about_a_tool_that_is_not_there_is_found_without_a_gateway_ever_having_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = {"name": "p", "clients": ["bot"], "allow": ["a/whoamI", "a/list_notes"]}
    servers = {"a": notes(tmp_path, "one"), "gone": {"command": "no-such-command"}}
    path = write(tmp_path, servers=servers, clients={"bot": {"key": "k" * 40}}, policies=[policy])
    assert main(["check", "--live", "--json", "-c", str(path)]) == 1
    streams = capsys.readouterr()
    told = json.loads(streams.out)
    assert ["a/whoamI matches nothing" in problem["message"] for problem in told["problems"]] == [True]
    assert any(note.startswith("gone cannot be listed") for note in told["notes"])
    assert streams.err == ""
