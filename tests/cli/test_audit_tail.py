"""``audit tail`` from the command line's side: what is printed, and the exit code (S165)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.audit import events, payload, record
from gateway.audit.events import Asked
from gateway.audit.record import DecisionFacts, Ending
from gateway.cli.main import main
from gateway.errors import Reason
from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure
from gateway.protocol.rawjson import Object
from tests.kit.audit import KEY, PRINCIPAL, STAMP, a_call, caller, journal, notice, write_log


def run(*arguments: str) -> int:
    return main(["audit", *arguments])


def write_records(directory: Path, *records: Object) -> None:
    log = journal(directory)
    log.open()
    log.write([{**STAMP, **each} for each in records])
    log.close()


def test_tail_shows_one_readable_line_for_each_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    described = record.describe(
        a_call({"limit": 5}), DecisionFacts("allow", "analysts", "allow[0]"), payload.shape({}), KEY
    )
    ending = Ending(Exchange(started=1.0), Complete({}), 1.018)
    limited = Failure(Reason.RATE_LIMITED, "Rate limit reached", detail="analysts: 5/minute")
    refused = record.call_denied(described, Ending(Exchange(started=1.0), limited, 1.0))
    nobody = Asked(PRINCIPAL, caller())
    hidden = events.hidden_denied(
        events.unknown_denied(nobody, "crm__delete", 1, KEY),
        Target(Kind.TOOL, "crm", "delete"),
        DecisionFacts("deny", "analysts", "deny[0]", "deny_rule"),
    )
    write_records(
        tmp_path,
        record.call_start(described),
        record.call_end(described, ending),
        refused,
        hidden,
        events.unknown_denied(nobody, "nope", 1, KEY),
        {"event": "admin.reload", "admin": {"user": "alice", "result": "ok"}},
        {"event": "auth.failed", "auth": {"kind": "key", "reason": "unknown"}, "count": 12},
    )

    assert run("tail", str(tmp_path)) == 0
    head, start, end, over, denied, unknown, reload, failed = capsys.readouterr().out.splitlines()
    who = "example-idp " + KEY.digest("subject", b"alice@example.org", 32)
    assert head.startswith("2026-08-23T10:00:00.123456Z  audit.segment  first_seq=1 number=1")
    assert start == f"2026-08-23T10:00:00.123456Z  call.start  {who}  warehouse/query  allow (analysts/allow[0])"
    assert end == f"2026-08-23T10:00:00.123456Z  call.end  {who}  warehouse/query  ok  18.0ms"
    assert over.endswith(f"  call.denied  {who}  warehouse/query  limited (analysts: 5/minute)  0.0ms")
    assert denied.endswith(f"  call.denied  {who}  crm/delete  deny (analysts/deny[0])")
    assert unknown.endswith(f"  call.denied  {who}  nope  deny (unknown_name)")
    assert reload == "2026-08-23T10:00:00.123456Z  admin.reload  alice  result=ok"
    assert failed == "2026-08-23T10:00:00.123456Z  auth.failed  kind=key reason=unknown x12"


def test_tail_shows_the_last_twenty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path, 50)

    assert run("tail", "--json", str(tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["gateway"]["number"] for line in lines] == list(range(30, 50))


def test_a_line_that_was_tampered_with_moves_no_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """S152: also what stands in the file raw is escaped."""
    lines = (b"\x1b]0;pwn\x07", b'{"event":"a\\u001b[2J\\n","ts":"\xc2\x9b","count":3}', b"[1]", b"\xff\x00")
    (tmp_path / "00000001.jsonl").write_bytes(b"\n".join(lines) + b"\n")

    assert run("tail", str(tmp_path)) == 0
    shown = capsys.readouterr().out.split("\n")
    assert len(shown) == 5
    assert all(line.isprintable() for line in shown)
    assert shown[0].startswith("? unreadable line: \\x1b]0;pwn")

    assert run("tail", "--json", str(tmp_path)) == 0
    encoded = capsys.readouterr().out
    assert "\x1b" not in encoded
    assert [type(json.loads(line)) for line in encoded.splitlines()] == [dict, dict, list, dict]


def test_follow_shows_what_is_added_until_it_is_interrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = journal(tmp_path, max_segment=500)
    log.open()
    waits = 0

    def wait(seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 4:
            raise KeyboardInterrupt
        log.write([{**STAMP, **notice(waits)}])

    monkeypatch.setattr("gateway.cli.audit_tail.wait", wait)
    assert run("tail", "--follow", str(tmp_path)) == 0
    log.close()

    shown = [line for line in capsys.readouterr().out.splitlines() if "gateway.started" in line]
    assert [line.rsplit(" ", 1)[1] for line in shown] == ["number=1", "number=2", "number=3"]
