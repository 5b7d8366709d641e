"""``audit verify`` and ``audit tail`` from the command line's side: what is printed, and the exit code (S165)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from gateway.audit import events, payload, record
from gateway.audit.events import Asked
from gateway.audit.record import DecisionFacts, Ending
from gateway.cli import audit, audit_lines
from gateway.errors import Reason
from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object
from tests.kit.audit import KEY, PRINCIPAL, STAMP, a_call, caller, journal, notice, write_log


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    audit.register(parser.add_subparsers())
    args = parser.parse_args(["audit", *arguments])
    code = args.run(args)
    assert isinstance(code, int)
    return code


def test_a_good_log_is_ok_and_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path, 10)

    assert run("verify", str(tmp_path)) == 0
    assert capsys.readouterr().out == "OK 11 records in 1 segment, not signed\n"


def test_a_bad_log_is_named_by_segment_line_and_seq_and_exits_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path, 10)
    segment = tmp_path / "00000001.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b'"number":4', b'"number":5', 1))

    assert run("verify", str(tmp_path)) == 1
    assert capsys.readouterr().out == (
        "FAIL 00000001.jsonl:6 seq 6: hash does not match the record (5 records before it are good)\n"
    )
    assert run("verify", "--json", str(tmp_path)) == 1
    assert json.loads(capsys.readouterr().out)["fault"] == {
        "segment": "00000001.jsonl",
        "line": 6,
        "seq": 6,
        "reason": "hash does not match the record",
    }


def test_a_log_that_is_not_there_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", str(tmp_path)) == 2
    assert run("verify", str(tmp_path / "missing")) == 2
    assert run("tail", str(tmp_path / "missing")) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "no audit records" in captured.err
    assert "No such file" in captured.err


def test_an_unfinished_last_line_is_mentioned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path, 3)
    with (tmp_path / "00000001.jsonl").open("ab") as file:
        file.write(b'{"chain')

    assert run("verify", str(tmp_path)) == 0
    assert "7 bytes of a record that was never finished" in capsys.readouterr().out
    assert run("verify", str(tmp_path), "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["ok"], facts["records"], facts["unfinished_bytes"]) == (True, 4, 7)
    assert len(facts["head"]) == 64


def test_without_a_directory_the_configs_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path / "logs", 2)
    config = tmp_path / "gateway.yaml"
    config.write_text("audit: {dir: logs}\nservers: {echo: {command: cat}}\n")

    assert run("verify", "-c", str(config)) == 0
    assert capsys.readouterr().out.startswith("OK 3 records")
    assert run("verify", "-c", str(tmp_path / "missing.yaml")) == 2
    config.write_text("audit: {folder: logs}\n")
    assert run("tail", "-c", str(config)) == 2
    assert "folder" in capsys.readouterr().err


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

    monkeypatch.setattr("gateway.cli.audit.wait", wait)
    assert run("tail", "--follow", str(tmp_path)) == 0
    log.close()

    shown = [line for line in capsys.readouterr().out.splitlines() if "gateway.started" in line]
    assert [line.rsplit(" ", 1)[1] for line in shown] == ["number=1", "number=2", "number=3"]


def test_an_unmarked_record_is_told_as_far_as_it_goes() -> None:
    assert audit_lines.describe_line(rawjson.encode({"event": "gateway.started"})) == "gateway.started"
    assert audit_lines.describe_line(
        rawjson.encode({"event": 7, "principal": {"id": "key:ci-bot"}, "outcome": "odd"})
    ) == ("7  key:ci-bot")


def test_what_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", str(tmp_path), "--key", str(tmp_path / "no.pem")) == 2
    assert capsys.readouterr().err.startswith(f"{tmp_path / 'no.pem'} cannot be read: ")
