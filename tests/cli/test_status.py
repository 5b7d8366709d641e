"""``status`` against a running gateway, as a pipe, as JSON and without one."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from gateway.cli import status
from gateway.cli.main import main
from gateway.cli.output import Output
from gateway.protocol.rawjson import Object
from tests.kit.gateway import Gateway


def test_a_server_that_does_not_start_is_a_finding_with_its_cause(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    """G118, G129."""
    assert main(["status", "-c", str(gateway.file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{gateway.url}  ready")
    [notes] = [line for line in lines if line.startswith("notes ")]
    assert "up" in notes
    [broken] = [line for line in lines if line.startswith("broken ")]
    assert "command not found: no-such-command-anywhere" in broken
    assert "next try in" in broken


def test_json_is_one_value(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json", "-c", str(gateway.file)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["servers"]["notes"]["state"] == "up"
    assert told["clients"]["bot"]["tools"] == told["servers"]["notes"]["tools"] - 1
    assert told["clients"]["bot"]["approx_tokens"] > 50


def test_without_a_gateway_it_cannot_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text("admin: {port: 1}\n")
    assert main(["status", "-c", str(config)]) == 2
    assert "is it running?" in capsys.readouterr().err


def test_a_refused_reload_and_pending_restarts_are_told() -> None:
    stream = io.StringIO()
    load = {
        "ok": False,
        "at": "2026-01-01T00:00:00+00:00",
        "problems": ["gateway.yaml:3: bad"],
        "needs_restart": ["listen.port"],
    }
    status.show(
        {"endpoint": "u", "ready": False, "reasons": ["draining"], "config": {"last_load": load}},  # type: ignore[dict-item]  # reason: a literal of JSON.
        Output(stream, terminal=True),
    )
    text = stream.getvalue()
    assert "not ready: draining" in text
    assert "gateway.yaml:3: bad" in text
    assert "after a restart: listen.port" in text


def test_where_to_sign_in_is_told() -> None:
    stream = io.StringIO()
    waiting: Object = {"state": "waiting for consent", "consent_url": "http://gw/oauth/start?ticket=t"}
    status.show({"endpoint": "u", "ready": True, "servers": {"wiki": waiting}}, Output(stream, terminal=True))
    assert "sign in to wiki: http://gw/oauth/start?ticket=t" in stream.getvalue()


def test_what_waits_for_people_and_what_they_should_know_is_told() -> None:
    stream = io.StringIO()
    alert: Object = {"at": "2026-01-01T00:00:00+00:00", "kind": "rate", "client": "bot", "server": None, "name": None}
    people: Object = {"approvals": {"pending": 2}, "alerts": {"raised": 7, "undelivered": 0, "recent": [alert]}}
    status.show({"endpoint": "u", "ready": True, **people}, Output(stream, terminal=False))
    assert "waiting for approval: 2 (approvals list)" in stream.getvalue()
    assert "alerts: 7, the last at 2026-01-01T00:00:00+00:00: rate bot" in stream.getvalue()


def test_one_of_several_says_which_it_is_and_that_the_database_is_away() -> None:
    stream = io.StringIO()
    shared: Object = {"kind": "shared", "state": "up"}
    database: Object = {"kind": "postgres", "reachable": False, "reason": "refused", "since": "2026-01-01T00:00:00Z"}
    whole: Object = {"endpoint": "u", "ready": True, "replica": "0123456789ab", "store": shared, "database": database}
    status.show(whole, Output(stream, terminal=False))
    assert "replica 0123456789ab" in stream.getvalue()
    assert "the database is away since 2026-01-01T00:00:00Z (refused)" in stream.getvalue()


def test_a_store_that_is_away_is_told() -> None:
    stream = io.StringIO()
    store: Object = {"kind": "shared", "state": "degraded", "reason": "lost", "since": "2026-01-01T00:00:00+00:00"}
    status.show({"endpoint": "u", "ready": True, "store": store}, Output(stream, terminal=False))
    assert "the shared store is away since 2026-01-01T00:00:00+00:00 (lost)" in stream.getvalue()


def test_of_how_many_callers_the_own_lists_are_known_is_told() -> None:
    stream = io.StringIO()
    fine: Object = {"state": "up", "own_lists": {"known": 3, "failing": 0}}
    partly: Object = {"state": "up", "own_lists": {"known": 1, "failing": 2}}
    status.show({"endpoint": "u", "ready": True, "servers": {"a": fine, "b": partly}}, Output(stream, terminal=False))
    assert "lists by who asks: a: known for 3 principals\n" in stream.getvalue()
    assert "lists by who asks: b: known for 1 principals, and cannot be had for 2\n" in stream.getvalue()
