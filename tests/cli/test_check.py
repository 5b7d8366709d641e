from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from gateway.cli.check import judge, reaches
from gateway.cli.main import main
from tests.kit.config_files import CANARY, KEY, loaded, write
from tests.kit.gateway import free_port

SHA = "0" * 64
GOOD = f"""
servers:
  wiki: {{command: x}}
clients:
  ana: {{key_sha256: ['{SHA}'], groups: [analysts]}}
  bot: {{key_sha256: ['{SHA[:-1]}1']}}
policies:
  - {{name: read, clients: ["group:analysts"], allow: [wiki/*]}}
  - {{name: watch, clients: ["*"], deny: [wiki/x], mode: shadow}}
"""


def checked(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    code = main(["check", "-c", str(path), *more])
    return code, capsys.readouterr().out


def test_a_config_that_is_fine_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = checked(write(tmp_path, GOOD), capsys)
    assert code == 0
    lines = out.splitlines()
    assert "ana  analysts  read, watch (shadow)" in lines
    assert "bot  -  watch (shadow)" in lines
    assert "note: bot: no policy allows it anything, it sees nothing" in lines
    assert lines[-1] == "gateway.yaml is fine: 1 server, 2 clients, 2 policies"


def test_every_problem_is_printed_with_place_and_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, f"listen: {{prot: 1}}\nclients:\n  bot: {{key: {CANARY}}}\n")
    code, out = checked(path, capsys)
    assert code == 1
    assert out.splitlines() == [
        f"{path}:1: listen.prot: unknown key (did you mean 'port'?)",
        f"{path}:3: clients.bot.key: is shorter than 32 characters (make one with: mcp-gateway keys new NAME)",
        "2 problems",
    ]


def test_problems_are_values_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "listen: {prot: 1}\n")
    code, out = checked(path, capsys, "--json")
    assert code == 1
    assert json.loads(out)["problems"] == [
        {"file": str(path), "line": 1, "path": "listen.prot", "message": "unknown key", "hint": "did you mean 'port'?"}
    ]


def test_a_fine_config_is_a_value_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = checked(write(tmp_path, GOOD), capsys, "--json")
    value = json.loads(out)
    assert code == 0
    assert (value["ok"], value["problems"], value["off"]) == (True, [], {})
    assert value["servers"] == {"wiki": "stdio"}
    assert value["clients"] == {"ana": ["read", "watch"], "bot": ["watch"]}


def test_a_server_that_is_off_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """G125."""
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    path = write(tmp_path, "servers:\n  a: {command: x, env: {T: '${NO_SUCH_TOKEN}'}}\n  b: {command: y}\n")
    code, out = checked(path, capsys)
    assert code == 1
    assert "server a is off: env.T: the variable NO_SUCH_TOKEN is not set" in out.splitlines()
    assert json.loads(checked(path, capsys, "--json")[1])["off"] == {
        "a": "env.T: the variable NO_SUCH_TOKEN is not set"
    }


def test_start_rules_are_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """S04."""
    code, out = checked(write(tmp_path, "listen: {host: 0.0.0.0}\n"), capsys)
    assert code == 1
    assert out.count("listen.host: an address other than loopback needs") == 3


def test_conditions_and_hours_are_compiled_and_reported_where_they_stand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = """
    policies:
      - name: p
        clients: [anonymous]
        hours: "whenever"
        allow:
          - {tools: wiki/x, when: "args. ="}
    """
    file = write(tmp_path, policy, "p.yaml")
    code, out = checked(write(tmp_path, "servers: {wiki: {command: x}}\npolicies: [p.yaml]\n"), capsys)
    assert code == 1
    assert f"{file}:4: policies[0].hours: " in out
    assert f"{file}:6: policies[0].allow[0].when: " in out


def test_that_callers_need_nothing_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = checked(write(tmp_path, "servers: {a: {command: x}}\n"), capsys)
    assert code == 0
    assert "note: callers need no credentials and may call everything" in out.splitlines()
    assert "anonymous  -  none: may call everything" in out.splitlines()


def test_anonymous_callers_are_judged_by_policies_too(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "servers: {a: {command: x}}\npolicies:\n"
        "  - {name: p, clients: [anonymous], allow: [a/*]}\n  - {name: q, clients: ['*']}\n",
    )
    (reach,) = reaches(config)
    assert (reach.caller, [policy.name for policy in reach.policies]) == ("anonymous", ["p"])


def test_keys_that_have_expired_are_noted(tmp_path: Path) -> None:
    text = f"clients: {{bot: {{key_sha256: ['{SHA}'], expires: 2026-05-05}}}}\n"
    config = loaded(tmp_path, text)
    said = "client bot: its keys expired on 2026-05-05"
    assert said in judge(config, date(2026, 5, 6)).notes
    assert said not in judge(config, date(2026, 5, 5)).notes


def test_no_secret_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOT_KEY", KEY)
    text = f"""
    servers: {{a: {{url: "https://u:{CANARY}@x/?k={CANARY}", headers: {{X: {CANARY}}}}}}}
    clients: {{bot: {{key: "${{BOT_KEY}}"}}}}
    """
    path = write(tmp_path, text)
    for more in ((), ("--json",)):
        code, out = checked(path, capsys, *more)
        assert code == 0
        assert CANARY not in out
        assert KEY not in out


def test_live_says_when_the_shared_store_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = f"redis://:{CANARY}@127.0.0.1:{free_port()}"
    path = write(tmp_path, f"state: {{url: '{nowhere}', sealing_keys: [{'s' * 32}]}}\n")
    code, out = checked(path, capsys, "--live")
    assert code == 0
    assert "the shared store cannot be used now (unreachable)" in out
    assert CANARY not in out
    assert "cannot be used now" not in checked(path, capsys)[1]
