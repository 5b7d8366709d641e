"""``audit query`` and ``audit export`` from the command line's side (S170)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gateway.audit import payload, record
from gateway.audit.export import WRITERS
from gateway.audit.keys import load_key
from gateway.audit.log import stamp
from gateway.audit.payload import Keeping
from gateway.audit.record import DecisionFacts, Ending
from gateway.cli import audit_query
from gateway.cli.main import main
from gateway.errors import Reason
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object
from tests.kit.audit import a_call, end, signed_journal


def run(*arguments: str) -> int:
    return main(["audit", *arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A config, and a log with one call that ended well and one that was refused."""
    (tmp_path / "gateway.yaml").write_text("servers: {a: {command: cat}}\n")
    log = signed_journal(tmp_path / "audit", tmp_path / "state")
    key = load_key(tmp_path / "state")
    log.open()
    for outcome, decision in (
        (Complete({}), DecisionFacts("allow", "p", "allow[0]")),
        (Failure(Reason.DENIED, "no"), DecisionFacts("deny", "p", "deny[0]", "deny_rule")),
    ):
        call = a_call({"limit": 5})
        described = record.describe(call, decision, payload.arguments_block(Keeping("none"), call.arguments, key), key)
        ending = Ending(Exchange(started=1.0), outcome, 1.1)
        denied = isinstance(outcome, Failure)
        log.write([{**stamp(), **(record.call_denied if denied else record.call_end)(described, ending)}])
    log.sign()
    log.sync()
    log.close()
    return tmp_path


def lines(capsys: pytest.CaptureFixture[str]) -> list[Object]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_query_shows_what_matches(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(folder / "audit")
    assert run("query", log, "--event", "call.*", "--json") == 0
    assert [each["event"] for each in lines(capsys)] == ["call.end", "call.denied"]
    assert run("query", log, "--outcome", "denied") == 0
    assert "deny (p/deny[0])" in capsys.readouterr().out
    assert run("query", log, "--limit", "1", "--since", "1h", "--until", "2099-01-01", "--json") == 0
    assert [each["event"] for each in lines(capsys)] == ["audit.checkpoint"]
    assert run("query", log, "--server", "nope") == 1
    assert run("query", log, "--until", "1h") == 1
    for wrong in ("yesterday", "99999999999999d", "9999-12-31T23:59:59-23:59"):
        assert run("query", log, "--since", wrong) == 2
        assert "is no time such as" in capsys.readouterr().err


def test_several_logs_are_read_as_one(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = signed_journal(tmp_path / "other" / "audit", tmp_path / "other" / "state")
    log.open()
    log.write([{**stamp(), **end("elsewhere")}])
    log.close()
    both = (str(tmp_path / "other" / "audit"), str(folder / "audit"))
    assert run("query", *both, "--event", "call.*", "--json") == 0
    assert [each["event"] for each in lines(capsys)] == ["call.end", "call.denied", "call.end"]
    assert run("export", *both, "--event", "call.end") == 0
    assert len(lines(capsys)) == 2


def test_a_subject_is_found_by_its_name_where_the_key_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(folder / "gateway.yaml")
    assert run("query", "-c", config, "--principal", "sub:https://as.example/alice@example.org", "--json") == 0
    assert len(lines(capsys)) == 2
    assert run("query", "-c", config, "--principal", "sub:https://as.example/bob@example.org") == 1
    assert run("query", "-c", config, "--principal", "example-idp") == 0


def test_follow_goes_on_with_new_ones(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[float] = []

    def wait(seconds: float) -> None:
        rounds.append(seconds)
        if len(rounds) == 2:
            raise KeyboardInterrupt
        log = signed_journal(folder / "audit", folder / "state")
        log.open()
        log.write([{**stamp(), **end("later")}])
        log.close()

    monkeypatch.setattr(audit_query, "wait", wait)
    assert run("query", str(folder / "audit"), "--event", "call.end", "--follow", "--json") == 0
    assert [each["call_id"] for each in lines(capsys)][-1] == "later"


@pytest.mark.parametrize("form", ["jsonl", "ocsf", "cef"])
def test_export_writes_every_form(folder: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    target = folder / "out"
    log = str(folder / "audit")
    assert run("export", log, "--format", form, "--event", "call.end") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("CEF:0|" if form == "cef" else "{")
    assert run("export", log, "--format", form, "--event", "call.end", "-o", str(target)) == 0
    assert target.read_text() == printed
    assert target.stat().st_mode & 0o777 == 0o600
    assert run("export", log, "-o", str(target)) == 2, "nothing is overwritten"
    assert "exists" in capsys.readouterr().err


def test_an_export_that_is_interrupted_leaves_no_part_of_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(record: Object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setitem(WRITERS, "jsonl", interrupted)
    assert run("export", str(folder / "audit"), "-o", str(folder / "out")) == 130
    assert not (folder / "out").exists()


def test_a_query_of_a_long_log_says_at_a_terminal_how_far_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    [segment] = (folder / "audit").glob("*.jsonl")
    with segment.open("ab") as file:
        file.write((rawjson.encode(end("more")) + b"\n") * 20_000)
    assert run("query", str(folder / "audit"), "--call", "none") == 1
    assert capsys.readouterr().err == "", "no terminal"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run("query", str(folder / "audit"), "--call", "none") == 1
    shown = capsys.readouterr().err
    assert " %" in shown
    assert shown.endswith("\r     \r"), "and takes it back"


def test_progress_is_for_terminals_alone(capsys: pytest.CaptureFixture[str]) -> None:
    shown = audit_query.Progress(10 * 2**20, True)
    shown.read(2**20)
    shown.read(2**20 + 1)
    shown.end(7)
    assert capsys.readouterr().err == "\r 10 %\r7 records\n"
    shown.clear()
    quiet = audit_query.Progress.of(10 * 2**20)
    quiet.read(5 * 2**20)
    quiet.end(7)
    quiet.clear()
    assert capsys.readouterr().err == "\r     \r"
