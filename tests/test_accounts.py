"""How calls are written down under a config, and the end of those whose client went away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.accounts import Accounts
from gateway.audit.keys import AuditKey
from gateway.config.loader import load
from gateway.errors import Reason
from gateway.model.call import TaskRef
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure
from gateway.pipeline.snapshot import Snapshot
from gateway.protocol.rawjson import Object
from gateway.runtime import Runtime
from tests.kit.calls import call
from tests.kit.config_files import write

LATE = Failure(Reason.TIMEOUT, "no answer", detail="the client never answered")
FORBIDS = """
policies:
  - {name: closed, clients: ["*"], deny: ["*/*"]}
"""


def refused(entry: Object) -> None:
    raise AssertionError(entry)


def opened(folder: Path, text: str = "") -> tuple[Accounts, Snapshot, list[Object]]:
    write(folder, "state: { dir: state }\naudit: { dir: audit }\n" + text)
    runtime = Runtime(load(folder / "gateway.yaml", {}))
    written: list[Object] = []
    return Accounts(runtime.audit, AuditKey.of(b"k" * 32), written.append), runtime.current(), written


def test_a_held_call_that_nobody_comes_back_to_gets_its_end(tmp_path: Path) -> None:
    accounts, snapshot, written = opened(tmp_path)
    held = replace(call(arguments={"path": "/secret"}), round=2)
    accounts.close(snapshot, held, Exchange(), LATE)
    (end,) = written
    assert (end["event"], end["call_id"]) == ("call.end", held.id)
    assert "/secret" not in str(end)


def test_the_end_of_what_was_asked_about_a_task_is_no_second_end_of_its_call(tmp_path: Path) -> None:
    accounts, snapshot, written = opened(tmp_path)
    held = replace(call(), method="tasks/result", task=TaskRef("t", "t"))
    accounts.close(snapshot, held, Exchange(), LATE)
    (end,) = written
    assert end["event"] == "call.round"
    assert isinstance(end["round"], dict)
    assert end["round"]["held"] is False


def test_a_request_of_which_no_step_runs_here_is_described_like_any_other(tmp_path: Path) -> None:
    accounts, snapshot, _ = opened(tmp_path)
    held = replace(call(arguments={"path": "/secret"}), round=2)
    described = accounts.describe(snapshot, held, Exchange())
    assert described["call_id"] == held.id
    assert "/secret" not in str(described)


@pytest.mark.parametrize(("text", "action"), [("", "allow"), (FORBIDS, "deny")])
def test_an_end_says_what_the_policy_in_force_at_that_time_says(tmp_path: Path, text: str, action: str) -> None:
    accounts, snapshot, written = opened(tmp_path, text)
    accounts.close(snapshot, call(), Exchange(), LATE)
    decision = written[0]["decision"]
    assert isinstance(decision, dict)
    assert decision["action"] == action
    assert decision["config_sha256"] == snapshot.loaded.digest


@pytest.mark.parametrize(("durability", "waits"), [("each", True), ("group", False)])
def test_ends_are_waited_for_where_every_record_is(tmp_path: Path, durability: str, waits: bool) -> None:
    write(tmp_path, f"state: {{ dir: state }}\naudit: {{ dir: audit, durability: {durability} }}\n")
    runtime = Runtime(load(tmp_path / "gateway.yaml", {}))
    accounts = Accounts(runtime.audit, AuditKey.of(b"k" * 32), refused)
    assert accounts.of(runtime.current().loaded).durable_end is waits
