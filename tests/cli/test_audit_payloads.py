"""Payloads shown and erased, and the key that signs handed over (S169)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gateway.audit.log import stamp
from gateway.audit.notes import collect
from gateway.audit.sidecars import Sidecar
from gateway.audit.verify import verify
from gateway.cli.main import main
from gateway.protocol.rawjson import Object
from tests.kit.audit import end, signed_journal, start, write_signed_log

OWNER = "key:bot"


def run(folder: Path, *arguments: str) -> int:
    (folder / "gateway.yaml").write_text("servers: {a: {command: cat}}\n")
    return main(["audit", *arguments, "-c", str(folder / "gateway.yaml")])


def write_call(folder: Path) -> None:
    """A call whose payloads are kept beside the chain, and one with redacted arguments in it."""
    log = signed_journal(folder / "audit", folder / "state")
    log.open()
    kept = [Sidecar("aa", OWNER, b'{"args":{"sql":"select 1.50"}}'), Sidecar("bb", OWNER, b'{"result":{"content":[]}}')]
    payloads: list[Object] = [
        {"mode": "full", "args_sidecar": "aa"},
        {"mode": "full", "args_sidecar": "aa", "result_sidecar": "bb"},
    ]
    log.write([{**stamp(), **start("one"), "payload": payloads[0]}], kept[:1])
    log.write([{**stamp(), **end("one"), "payload": payloads[1]}], kept[1:])
    log.write([{**stamp(), **end("two"), "payload": {"mode": "redacted", "args": '{"a":1}'}}])
    log.sign()
    log.sync()
    log.close()


def test_a_call_is_shown_with_what_was_kept_until_it_is_erased(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_call(tmp_path)
    assert run(tmp_path, "show", "one", "--json") == 0
    first, last = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["args"], first["record"]["event"]) == ({"sql": "select 1.50"}, "call.start")
    assert (last["args"], last["result"]) == ({"sql": "select 1.50"}, {"content": []})
    assert run(tmp_path, "show", "two") == 0
    assert '"a": 1' in capsys.readouterr().out
    assert run(tmp_path, "show", "three") == 1
    assert "the log has no call three" in capsys.readouterr().err

    assert run(tmp_path, "erase", OWNER) == 0
    assert run(tmp_path, "erase", OWNER) == 1
    capsys.readouterr()
    assert run(tmp_path, "erase", OWNER, "--json") == 1
    assert json.loads(capsys.readouterr().out) == {"principal": OWNER, "erased": False}
    assert run(tmp_path, "show", "one") == 0
    assert "payload absent" in capsys.readouterr().out
    verdict = verify(tmp_path / "audit")
    assert (verdict.ok, verdict.unanchored) == (True, 0)


def test_a_deleted_payload_file_leaves_the_log_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_call(tmp_path)
    for path in (tmp_path / "audit" / "payloads").iterdir():
        path.unlink()
    assert run(tmp_path, "verify") == 0
    assert run(tmp_path, "show", "one") == 0
    assert "payload absent" in capsys.readouterr().out


def test_a_new_key_signs_from_the_next_start_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_signed_log(tmp_path / "audit", tmp_path / "state", 3)
    assert run(tmp_path, "rotate-key", "--json") == 0
    key = json.loads(capsys.readouterr().out)["key"]
    assert run(tmp_path, "rotate-key") == 0
    assert key in capsys.readouterr().out, "it stays the same until it is used"
    write_signed_log(tmp_path / "audit", tmp_path / "state", 3)
    assert run(tmp_path, "verify") == 0
    assert key in capsys.readouterr().out


def test_who_used_the_commands_is_left_for_the_gateway_to_write_down(tmp_path: Path) -> None:
    """S172: checks, exports, looks at payloads, erasures."""
    write_call(tmp_path)
    for words in (
        ("verify",),
        ("export", "-o", str(tmp_path / "out")),
        ("show", "one"),
        ("erase", OWNER),
        ("rotate-key",),
    ):
        run(tmp_path, *words)
    left = collect(tmp_path / "state")
    assert [record["event"] for record in left] == [
        "audit.verified",
        "admin.audit_export",
        "admin.audit_show",
        "admin.audit_erase",
        "admin.audit_rotate_key",
    ]
    assert OWNER not in json.dumps(left[3]), "what was erased is not named again"
    assert left[0]["audit"] == {"ok": True, "records": 6, "fault": "", "user": f"uid {os.getuid()}"}
    run(tmp_path, "verify", str(tmp_path / "audit"))
    assert collect(tmp_path / "state") == [], "a copy is nobody's log"
