"""``policy replay``: every changed decision listed, and an exit code that a build can go by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.cli.main import main
from gateway.config.root import LoadedConfig
from tests.kit.calls import call
from tests.kit.config_files import write
from tests.kit.configs import loaded
from tests.kit.recording import record_calls

CONFIG = """
servers: {a: {command: x}}
clients: {bot: {key: kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk}}
policies: [p.yaml]
"""


def candidate(folder: Path, rule: str, name: str = "p.yaml") -> Path:
    return write(folder, f"policies:\n  - {{name: new, clients: ['*'], allow: [{rule}]}}\n", name)


def policies(payload: str = "conditions") -> LoadedConfig:
    policy = {"name": "old", "clients": ["*"], "allow": ["a/t", {"tools": "a/u", "when": "args.n < 5"}]}
    return loaded({"policies": [policy], "audit": {"payload": payload}})


async def recorded(folder: Path, payload: str = "conditions") -> Path:
    calls = [call("t", arguments={}), call("u", arguments={"n": 1}), call("u", arguments={"n": 9})]
    return await record_calls(folder, policies(payload), calls)


def ran(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[str], str]:
    code = main(["policy", "replay", *(str(word) for word in words)])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


async def test_changes_are_listed_with_both_decisions_and_are_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = await recorded(tmp_path)
    file = candidate(tmp_path, "a/u")
    code, out, _ = ran(capsys, "--candidate", file, log)
    assert code == 1
    assert out[0].endswith("Z  key:bot  a/t  allow (old allow[0]) -> deny (default_deny)")
    assert out[1].endswith("Z  key:bot  a/u  deny (old allow[1]) -> allow (new allow[0])")
    assert out[2:] == ["3 calls judged, 2 changed, 0 undecidable"]
    code, out, _ = ran(capsys, log, "--json", "--candidate", file)
    value = json.loads(out[0])
    assert (code, value["judged"], value["changed"], value["undecidable"]) == (1, 3, 2, 0)
    assert value["changes"][0] | {"ts": "", "call_id": ""} == {
        "seq": 2,
        "call_id": "",
        "ts": "",
        "principal": "key:bot",
        "kind": "tool",
        "server": "a",
        "name": "t",
        "view": None,
        "before": {"action": "allow", "policy": "old", "rule": "allow[0]", "reason": "allow_rule"},
        "after": {"action": "deny", "policy": "", "rule": "", "reason": "default_deny"},
    }


async def test_nothing_that_changes_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = await recorded(tmp_path)
    rules = "a/t, {tools: a/u, when: 'args.n <= 4'}"
    code, out, _ = ran(capsys, "--candidate", candidate(tmp_path, rules), log)
    assert (code, out) == (0, ["3 calls judged, 0 changed, 0 undecidable"])


async def test_what_cannot_be_told_is_neither(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = await recorded(tmp_path, "shape+hmac")
    rules = "a/t, {tools: a/u, when: 'args.n <= 4'}"
    code, out, _ = ran(capsys, "--candidate", candidate(tmp_path, rules), log)
    assert (code, out) == (
        2,
        ["undecidable: new allow[1] reads args.n (2 calls)", "1 call judged, 0 changed, 2 undecidable"],
    )


async def test_a_whole_config_is_a_candidate_and_knows_where_its_log_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await recorded(tmp_path)
    config = write(tmp_path, CONFIG)
    candidate(tmp_path, "a/*")
    code, out, _ = ran(capsys, "-c", config)
    assert (code, out[-1]) == (1, "3 calls judged, 1 changed, 0 undecidable")
    assert ran(capsys, "-c", config, "--until", "2026-01-01")[0] == 2
    assert ran(capsys, "-c", config, "--since", "2026-01-01T00:00:00+01:00")[0] == 1
    assert ran(capsys, "-c", config, "--since", "2h")[0] == 1


def test_what_cannot_be_asked_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = candidate(tmp_path, "a/*")
    code, _, err = ran(capsys, "--candidate", file, "--", tmp_path / "nowhere")
    assert code == 2
    assert "the audit log cannot be read" in err
    code, _, err = ran(capsys, tmp_path, "--candidate", file, "--since", "yesterday")
    assert code == 2
    assert "'yesterday' is no time" in err
    code, _, err = ran(capsys, tmp_path, "--candidate", tmp_path / "none.yaml")
    assert code == 2
    assert "does not exist" in err
