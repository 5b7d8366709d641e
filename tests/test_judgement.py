"""Rules are judged against what servers really offer."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from gateway.cli.check_live import against_live
from gateway.config.loader import load
from gateway.judgement import against_kept
from tests.test_runtime import notes, running, tools, until, write


def policy(*allow: str) -> dict[str, object]:
    return {"name": "p", "clients": ["bot"], "allow": list(allow)}


CLIENTS = {"bot": {"key": "k" * 40}, "idle": {"key": "i" * 40}}


def test_a_rule_that_matches_nothing_is_found_with_the_nearest_name(tmp_path: Path) -> None:
    """G074."""
    servers = {"a": notes(tmp_path, "one")}
    path = write(tmp_path, servers=servers, clients=CLIENTS, policies=[policy("a/whoamI", "a/list_notes")])
    findings = against_live(load(path, {}))
    [problem] = findings.problems
    assert "a/whoamI matches nothing" in problem.message
    assert "whoami" in problem.hint
    assert (problem.file, problem.line > 0) == (str(path), True)


def test_a_client_that_sees_nothing_is_a_note(tmp_path: Path) -> None:
    """G075."""
    path = write(tmp_path, servers={"a": notes(tmp_path, "one")}, clients=CLIENTS, policies=[policy("a/*")])
    findings = against_live(load(path, {}))
    assert findings.problems == []
    assert findings.notes == ["idle sees nothing"]


def test_servers_that_cannot_be_listed_are_notes_and_their_rules_are_not_judged(tmp_path: Path) -> None:
    silent = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"], "timeouts": {"start": "1s"}}
    servers = {"gone": {"command": "no-such-command"}, "silent": silent}
    path = write(tmp_path, servers=servers, clients={"bot": CLIENTS["bot"]}, policies=[policy("gone/x", "silent/y")])
    findings = against_live(load(path, {}))
    assert findings.problems == []
    [gone] = [note for note in findings.notes if note.startswith("gone cannot be listed")]
    assert "command not found: no-such-command" in gone
    assert any(note.startswith("silent cannot be listed") for note in findings.notes)


def test_without_ever_having_run_nothing_is_judged_and_no_file_is_made(tmp_path: Path) -> None:
    servers = {"a": notes(tmp_path, "one")}
    path = write(tmp_path, servers=servers, clients=CLIENTS, policies=[policy("a/nope")])
    findings = against_kept(load(path, {}))
    assert findings.problems == []
    assert "never listed, so rules about them are not judged: a" in findings.notes
    assert [file.name for file in tmp_path.iterdir()] == ["gateway.yaml"]


def test_the_lists_of_the_last_run_are_judged_without_a_gateway(tmp_path: Path) -> None:
    servers = {"a": notes(tmp_path, "one")}
    path = write(tmp_path, servers=servers)

    async def once() -> None:
        async with running(path) as runtime:
            await until(lambda: bool(tools(runtime)), "tools")

    asyncio.run(once())
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"clients": CLIENTS, "policies": [policy("a/nope", "a/*")]})
    )
    findings = against_kept(load(path, {}))
    assert ["a/nope matches nothing" in problem.message for problem in findings.problems] == [True]


def test_what_gateways_share_is_tried_live_and_left_alone_otherwise(tmp_path: Path) -> None:
    database = {"state": {"database": "postgres://me:hush@127.0.0.1:1/x", "sealing_keys": ["k" * 32]}}
    path = write(tmp_path, **database, servers={"notes": {"command": "/nonexistent"}})
    kept = against_kept(load(path, {}))
    assert (kept.problems, [note for note in kept.notes if "state.database" in note] != []) == ([], True)
    [problem] = [each for each in against_live(load(path, {})).problems if each.path == "state.database"]
    assert "cannot be used" in problem.message
    assert "hush" not in str(problem)
    shared = {"state": {"database": f"file://{tmp_path / 'shared'}", "sealing_keys": ["k" * 32]}}
    assert against_live(load(write(tmp_path, **shared), {})).problems == []


def test_rules_about_a_server_that_lists_by_who_asks_are_not_judged(tmp_path: Path) -> None:
    servers = {"a": {**notes(tmp_path, "one"), "catalog": "principal"}}
    path = write(tmp_path, servers=servers, clients=CLIENTS, policies=[policy("a/only_some_see_it")])
    findings = against_live(load(path, {}))
    assert findings.problems == []
    assert findings.notes == ["they list by who asks, so rules about them are not judged: a"]
