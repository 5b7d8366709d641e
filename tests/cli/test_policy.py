"""``policy test`` and ``policy explain``, as people and programs read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.cli.main import main
from tests.kit.config_files import write
from tests.kit.gateway import ROOT, Gateway

POLICY = """
policies:
  - name: read
    clients: ["*"]
    allow: [wiki/*, {tools: files/read, when: "args.path.inside('/srv')"}]
    deny: [wiki/drop]
"""
CASES = """
cases:
  - {who: bot, call: wiki/search, expect: allow}
  - {name: nobody drops, who: bot, call: wiki/drop, expect: hidden, rule: "deny[0]"}
"""
CONFIG = """
servers:
  wiki: {command: x}
  files: {command: x}
clients:
  bot: {key: kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk, groups: [automation]}
policies: [p.yaml]
"""


def ran(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[str], str]:
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def test_the_ready_policies_do_what_their_cases_say(capsys: pytest.CaptureFixture[str]) -> None:
    """S57, S58, S67, S68, S73, G073."""
    policies = sorted(path for path in (ROOT / "policies").glob("*.yaml") if ".cases." not in path.name)
    assert len(policies) >= 9
    code, out, _ = ran(capsys, "policy", "test", *policies)
    assert (code, [line for line in out if line.startswith("FAIL")]) == (0, [])
    for path in policies:
        text = path.with_name(f"{path.stem}.cases.yaml").read_text()
        assert any(f"expect: {word}" in text for word in ("deny", "hidden", "approve")) or path.stem == "shadow-first"
        assert "expect: allow" in text


def test_each_case_has_its_line_and_the_end_says_how_many_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, POLICY, "p.yaml")
    cases = write(tmp_path, CASES + "  - {who: bot, call: files/read, expect: allow}\n", "p.cases.yaml")
    code, out, _ = ran(capsys, "policy", "test", cases)
    assert code == 1
    assert out == [
        f"ok   {cases}:2 bot wiki/search: allow (allow_rule read allow[0])",
        f"ok   {cases}:3 nobody drops: hidden (deny_rule read deny[0])",
        f"FAIL {cases}:4 bot files/read: expected allow, got deny (condition read allow[1])",
        "3 cases, 1 failed",
    ]
    code, out, _ = ran(capsys, "policy", "test", "--json", cases)
    value = json.loads(out[0])
    assert (code, value["ok"], [case["ok"] for case in value["cases"]]) == (1, False, [True, True, False])
    assert value["cases"][2]["wrong"] == ["expected allow"]


def test_without_files_every_case_beside_a_policy_of_the_config_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write(tmp_path, CONFIG)
    write(tmp_path, POLICY, "p.yaml")
    code, out, err = ran(capsys, "policy", "test", "-c", config)
    assert (code, out) == (2, [])
    assert "no cases" in err
    write(tmp_path, CASES, "p.cases.yaml")
    code, out, _ = ran(capsys, "policy", "test", "-c", config)
    assert (code, out[-1]) == (0, "2 cases passed")


def test_with_a_config_cases_are_about_all_of_it_and_names_are_its_clients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = "policies:\n  - p.yaml\n  - {name: more, clients: ['group:automation'], allow: [files/list]}\n"
    config = write(tmp_path, CONFIG.replace("policies: [p.yaml]\n", both))
    write(tmp_path, POLICY, "p.yaml")
    cases = write(tmp_path, "cases:\n  - {who: bot, call: files/list, expect: allow, policy: more}\n", "p.cases.yaml")
    assert ran(capsys, "policy", "test", "-c", config, cases)[0] == 0
    assert ran(capsys, "policy", "test", cases)[0] == 1
    cases.write_text("cases:\n  - {who: bat, call: wiki/x, expect: allow}\n")
    code, _, err = ran(capsys, "policy", "test", "-c", config, cases)
    assert code == 2
    assert (
        f'{cases}:2: cases[0]: who: no client "bat" is configured (configured: bot; or anonymous; did you mean bot?)'
        in err
    )


def test_a_policy_that_cannot_be_read_is_told_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = write(tmp_path, POLICY.replace("inside", "within"), "p.yaml")
    write(tmp_path, CASES, "p.cases.yaml")
    code, _, err = ran(capsys, "policy", "test", policy)
    assert code == 2
    assert f"{policy}:4: policies[0].allow[1].when: is no CEL condition" in err
    code, _, err = ran(capsys, "policy", "test", tmp_path / "q.yaml")
    assert code == 2
    assert "no file of cases lies beside it (q.cases.yaml)" in err


def test_a_call_is_explained_rule_by_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write(tmp_path, CONFIG)
    write(tmp_path, POLICY, "p.yaml")
    call = ("policy", "explain", "-c", config, "bot", "files/read")
    code, out, _ = ran(capsys, *call, '{"path": "/srv/a"}')
    assert (code, out[:3]) == (
        0,
        [
            "tool:files/read for key:bot",
            "policy read:",
            "  allow[1] files/read: allows",
        ],
    )
    assert "allowed by read allow[1] (allow_rule)" in out
    assert out[-1].startswith("note: it is not in the last known list of its server")
    code, out, _ = ran(capsys, *call, '{"path": "/etc"}', "--json")
    value = json.loads(out[0])
    assert (code, value["allowed"], value["visible"], value["reason"]) == (1, False, True, "condition")
    assert ran(capsys, *call, "--at", "2026-01-05T12:00:00Z", "--groups", "a,b", "--scopes", "s")[0] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bat", "wiki/x"), "did you mean bot?"),
        (("bot", "wiki"), "needs a server"),
        (("bot", "wiki/x", "[1]"), "ARGS-JSON must be a JSON object"),
        (("bot", "wiki/x", "{}", "--at", "noon"), "must be a time"),
        (("bot", "wiki/x", "{}", "--view", "v"), "no view is called 'v'"),
    ],
)
def test_what_cannot_be_asked_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    config = write(tmp_path, CONFIG)
    write(tmp_path, POLICY, "p.yaml")
    code, out, err = ran(capsys, "policy", "explain", "-c", config, *words)
    assert (code, out) == (2, [])
    assert said in err


def test_annotations_come_from_the_lists_the_gateway_kept(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ran(capsys, "policy", "explain", "-c", gateway.file, "bot", "notes/list_notes")
    assert (code, [line for line in out if line.startswith("note: ")]) == (0, [])
    code, out, _ = ran(capsys, "policy", "explain", "-c", gateway.file, "bot", "notes/delete_note")
    assert (code, out[-2:]) == (1, ["hidden", "refused by p deny[0] (deny_rule)"])
