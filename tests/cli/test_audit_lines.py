"""One line for a person, whatever the log holds."""

from __future__ import annotations

from gateway.cli.audit_lines import describe, describe_line, wait
from gateway.protocol.rawjson import Object


def test_a_record_is_one_line_of_what_matters() -> None:
    record = {
        "ts": "2026-08-23T10:00:00Z",
        "event": "call.end",
        "principal": {"id": "key:bot"},
        "server": "wiki",
        "tool": {"name": "search"},
        "outcome": {"status": "ok", "dur_us": 1500},
    }
    assert describe(record) == "2026-08-23T10:00:00Z  call.end  key:bot  wiki/search  ok  1.5ms"  # type: ignore[arg-type] # a literal
    assert describe({"event": "gateway.started"}) == "gateway.started"


def test_a_call_that_no_rule_refused_says_what_did() -> None:
    waits: Object = {"status": "denied", "error_type": "approval_required", "detail": "approval 7k2m9qx4ta"}
    record: Object = {"event": "call.denied", "decision": {"action": "allow"}, "outcome": waits}
    assert describe(record) == "call.denied  approval_required (approval 7k2m9qx4ta)"
    refused: Object = {"action": "deny", "reason": "default_deny"}
    outcome: Object = {"status": "denied", "error_type": "denied"}
    assert describe({"event": "call.denied", "decision": refused, "outcome": outcome}) == (
        "call.denied  deny (default_deny)"
    )


def test_what_is_no_record_is_said_to_be_none() -> None:
    assert describe_line(b"[1]") == "? unreadable line: [1]"
    assert describe_line(b'{"event":"a"}') == "a"
    wait(0.0)
