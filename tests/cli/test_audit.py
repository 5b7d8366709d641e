"""``audit verify`` from the command line's side: what is printed, and the exit code (S165)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.cli import audit_lines
from gateway.cli.main import main
from gateway.protocol import rawjson
from tests.kit.audit import write_log


def run(*arguments: str) -> int:
    return main(["audit", *arguments])


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


def test_an_unmarked_record_is_told_as_far_as_it_goes() -> None:
    assert audit_lines.describe_line(rawjson.encode({"event": "gateway.started"})) == "gateway.started"
    assert audit_lines.describe_line(
        rawjson.encode({"event": 7, "principal": {"id": "key:ci-bot"}, "outcome": "odd"})
    ) == ("7  key:ci-bot")


def test_what_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", str(tmp_path), "--key", str(tmp_path / "no.pem")) == 2
    assert capsys.readouterr().err.startswith(f"{tmp_path / 'no.pem'} cannot be read: ")
