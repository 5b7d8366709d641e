"""``approvals``: what it prints and how it ends; what it brings about is in ``tests/matrix/test_approvals.py``."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pytest

from gateway.cli.approvals import show
from gateway.cli.main import main
from gateway.cli.output import Output
from gateway.protocol.rawjson import Object
from tests.kit.gateway import Gateway

NOW = datetime(2026, 1, 1, 12, 1, 30, tzinfo=UTC)


def row(**members: object) -> Object:
    base = {
        "id": "a1",
        "state": "pending",
        "client": "bot",
        "server": "crm",
        "name": "export_all",
        "asked_at": "2026-01-01T12:00:00+00:00",
        "ends_at": "2026-01-01T12:10:00+00:00",
        "shown": '{"to":"\\u202eevil"}',
        "needs": [
            {"policy": "p", "rule": "approve[0]", "by": ["alice", "bob"], "open": True},
            {"policy": "q", "rule": "duplicates", "by": [], "open": True},
        ],
    }
    made: Object = json.loads(json.dumps({**base, **members}))
    return made


def printed(*rows: Object, terminal: bool = False) -> list[str]:
    stream = io.StringIO()
    show([*rows], Output(stream, terminal), NOW)
    return stream.getvalue().splitlines()


def test_nothing_to_do_is_said() -> None:
    assert printed() == ["nothing waits for approval"]


def test_a_pipe_gets_one_line_for_each_and_then_what_exactly() -> None:
    assert printed(row()) == [
        "a1  pending  bot  crm/export_all  1m30s  8m30s  alice or bob; anyone with the role approve"
        "  p/approve[0], q/duplicates",
        'a1: {"to":"\\u202eevil"}',
    ]


def test_a_terminal_gets_headings_and_a_decided_one_waits_for_nobody() -> None:
    needs = [{"policy": "p", "rule": "approve[0]", "by": [], "open": False}]
    heading, line, _ = printed(row(needs=needs, state="granted", ends_at="2026-01-01T12:00:00+00:00"), terminal=True)
    assert heading.split()[:3] == ["ID", "STATE", "CLIENT"]
    assert line.split() == ["a1", "granted", "bot", "crm/export_all", "1m30s", "0m00s", "-", "p/approve[0]"]


def test_what_is_not_there_cannot_be_told(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    config = ["-c", str(gateway.file)]
    assert main(["approvals", "list", *config]) == 0
    assert capsys.readouterr().out == "nothing waits for approval\n"
    assert main(["approvals", "list", "--json", *config]) == 0
    assert json.loads(capsys.readouterr().out) == {"approvals": []}
    assert main(["approvals", "deny", "nothing", "--reason", "x", *config]) == 2
    assert 'nothing with the id "nothing" waits' in capsys.readouterr().err
