"""What is kept survives whole, sealed and private; what is damaged is never taken for empty."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.approvals.entry import Entry, Need, State, Subject, Vote
from gateway.approvals.file import FILE, ApprovalFile
from gateway.errors import ConfigError
from gateway.state.documents import ABSENT, Conflict
from gateway.state.folder import FolderDocuments
from gateway.state.sealing import Sealer
from tests.kit.approvals import file
from tests.kit.calls import call
from tests.kit.definitions import tool

SUBJECT = Subject.of(call(arguments={"secret": "hunter2", "n": 10**30}, definition=tool("t")))
ENTRY = Entry(
    "a1",
    SUBJECT.key,
    SUBJECT,
    (Need("p", "approve[0]", frozenset({"alice", "bob"})), Need("q", "duplicates")),
    1.5,
    2.5,
    State.DENIED,
    (Vote("bob", 2.0),),
    "no",
)


def test_no_file_is_an_empty_one(tmp_path: Path) -> None:
    assert file(tmp_path).load() == ([], ABSENT)


def test_what_was_written_is_read_whole_and_seen_by_nobody(tmp_path: Path) -> None:
    version = file(tmp_path).write([ENTRY], ABSENT)
    assert file(tmp_path).load() == ([ENTRY], version)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    text = (tmp_path / FILE).read_text()
    assert "hunter2" not in text
    assert "bot" not in text
    assert json.loads(text)["v"] == 1


def test_an_older_state_never_replaces_a_newer_one(tmp_path: Path) -> None:
    kept = file(tmp_path)
    version = kept.write([ENTRY], ABSENT)
    for older in (ABSENT, "another"):
        with pytest.raises(Conflict):
            kept.write([], older)
    assert kept.load() == ([ENTRY], version)


def broken(text: str) -> list[str]:
    body = json.loads(text)
    sealed = body["entries"]["a1"]
    return [
        "",
        "{",
        "[]",
        '{"v":2,"entries":{}}',
        '{"v":1}',
        '{"v":1,"entries":{"a1":7}}',
        json.dumps({"v": 1, "entries": {"a2": sealed}}),
        json.dumps({"v": 1, "entries": {"a1": sealed[:-6] + "AAAAAA"}}),
    ]


@pytest.mark.parametrize("number", range(8))
def test_a_damaged_file_stops_the_start(tmp_path: Path, number: int) -> None:
    kept = file(tmp_path)
    kept.write([ENTRY], ABSENT)
    (tmp_path / FILE).write_text(broken((tmp_path / FILE).read_text())[number])
    with pytest.raises(ConfigError, match="the file of approvals cannot be used"):
        kept.load()


def test_a_file_of_another_gateway_or_one_that_others_may_write_is_damaged(tmp_path: Path) -> None:
    kept = file(tmp_path)
    kept.write([ENTRY], ABSENT)
    with pytest.raises(ConfigError, match="did not seal"):
        ApprovalFile(FolderDocuments(tmp_path), Sealer([b"o" * 32])).load()
    (tmp_path / FILE).chmod(0o666)
    with pytest.raises(ConfigError, match="others than its owner"):
        kept.load()
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir(mode=0o700)
    with pytest.raises(ConfigError):
        kept.load()


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"asker": []},
        {"asker": ["a", "b", "c", 4]},
        {"asker": ["a", "b", "c", "d"], "subject": ["x"]},
        {"asker": ["a", "b", "c", "d"], "subject": list("abcdef"), "needs": [], "votes": 1},
        {"asker": ["a", "b", "c", "d"], "subject": list("abcdef"), "needs": [["p"]], "votes": []},
        {"asker": ["a", "b", "c", "d"], "subject": list("abcdef"), "needs": [], "votes": [], "asked_at": True},
    ],
)
def test_a_sealed_entry_of_another_form_is_damage(tmp_path: Path, body: object) -> None:
    sealer = Sealer([b"s" * 32])
    sealed = sealer.seal("approval", json.dumps(body).encode(), b"a1")
    (tmp_path / FILE).write_text(json.dumps({"v": 1, "entries": {"a1": sealed}}))
    (tmp_path / FILE).chmod(0o600)
    with pytest.raises(ConfigError):
        ApprovalFile(FolderDocuments(tmp_path), sealer).load()
