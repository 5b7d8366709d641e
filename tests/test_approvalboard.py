"""What operators see of waiting calls, and what they decide: audited first, refused to whoever is not asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from gateway.admin.operations import Act, Conflict, Forbidden
from gateway.approvalboard import BRIEF, Approvalboard
from gateway.approvals.entry import Entry, Need, State, Subject
from gateway.approvals.file import ApprovalFile
from gateway.approvals.ledger import Ledger
from gateway.audit.log import AuditLog, AuditOptions
from gateway.audit.verify import verify
from gateway.errors import AuditUnavailable
from gateway.protocol.rawjson import Object
from gateway.state.documents import Version
from gateway.state.folder import FolderDocuments
from tests.kit.approvals import SEALER, Told
from tests.kit.calls import call

ALICE, BOB = Act("alice", "127.0.0.1"), Act("bob", "127.0.0.1")
NEEDS = (Need("p", "approve[0]", frozenset({"alice"})),)


class Disk(ApprovalFile):
    """A file that can be made unwritable."""

    full = False

    def write(self, entries: Iterable[Entry], expected: Version) -> Version:
        if self.full:
            raise OSError(28, "No space left on device")
        return super().write(entries, expected)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(FolderDocuments(tmp_path), SEALER)


@pytest.fixture
def ledger(disk: Disk) -> Ledger:
    return Ledger(disk, Told())


@pytest.fixture
async def audit(tmp_path: Path) -> AsyncIterator[AuditLog]:
    log = AuditLog(AuditOptions(tmp_path / "audit"))
    await log.open()
    yield log
    await log.aclose()


@pytest.fixture
def board(ledger: Ledger, audit: AuditLog) -> Approvalboard:
    return Approvalboard(ledger, audit)


async def waiting(ledger: Ledger, text: str = "x") -> Entry:
    return await ledger.ask(Subject.of(call(arguments={"text": text})), NEEDS, 60)


def one(shown: Object) -> dict[str, Any]:
    rows = shown["approvals"]
    assert isinstance(rows, list)
    [row] = rows
    assert isinstance(row, dict)
    return row


async def test_all_that_a_person_needs_is_shown(board: Approvalboard, ledger: Ledger) -> None:
    entry = await waiting(ledger, "a\u202eb")
    row = one(await board.show("alice"))
    assert (row["id"], row["state"], row["principal"], row["client"]) == (entry.id, "pending", "key:bot", "bot")
    assert (row["method"], row["server"], row["kind"], row["name"]) == ("tools/call", "a", "tool", "t")
    assert row["arguments"] == '{"text":"a\u202eb"}'
    assert row["shown"] == '{"text":"a\\u202eb"}'
    assert row["needs"] == [{"policy": "p", "rule": "approve[0]", "by": ["alice"], "open": True}]
    assert row["asked_at"] < row["ends_at"]
    assert row["yours"] is True
    assert one(await board.show("bob"))["yours"] is False


async def test_a_list_has_the_beginning_of_the_arguments_and_one_has_them_whole(
    board: Approvalboard, ledger: Ledger
) -> None:
    entry = await waiting(ledger, "x" * 1000)
    [brief] = board.briefs("alice")
    assert "arguments" not in brief
    assert len(str(brief["shown"])) == BRIEF
    shown = one(await board.show("alice"))
    assert board.one("alice", entry.id) == {key: value for key, value in shown.items() if key != "shown"}
    with pytest.raises(KeyError, match="waits"):
        board.one("alice", "nope")


async def test_megabytes_of_arguments_do_not_hold_the_loop(board: Approvalboard, ledger: Ledger) -> None:
    for number in range(4):
        await waiting(ledger, "\u202e" * 30_000 + str(number))
    turns = 0
    async with asyncio.TaskGroup() as group:
        showing = group.create_task(board.show("alice"))
        while not showing.done():
            turns += 1
            await asyncio.sleep(0)
    shown = showing.result()["approvals"]
    assert isinstance(shown, list)
    assert len(shown) == 4
    assert turns > 10


async def test_a_yes_and_a_no_are_audited_and_kept(board: Approvalboard, ledger: Ledger, tmp_path: Path) -> None:
    entry = await waiting(ledger)
    assert (await board.approve(ALICE, entry.id))["approved_by"] == ["alice"]
    denied = await board.deny(ALICE, entry.id, "no\n" + "x" * 300)
    assert denied["state"] == State.DENIED
    assert str(denied["reason"]).startswith("no\\nxxx")
    assert len(str(denied["reason"])) == 200
    with pytest.raises(Conflict, match="denied already"):
        await board.approve(ALICE, entry.id)


async def test_who_is_not_asked_is_refused_and_recorded(
    board: Approvalboard, ledger: Ledger, audit: AuditLog, tmp_path: Path
) -> None:
    entry = await waiting(ledger)
    with pytest.raises(Forbidden):
        await board.approve(BOB, entry.id)
    with pytest.raises(Forbidden):
        await board.deny(BOB, entry.id, "")
    await audit.aclose()
    assert verify(tmp_path / "audit").ok
    text = "".join(path.read_text() for path in (tmp_path / "audit").glob("*.jsonl"))
    assert text.count('"asked":false') == 2


async def test_what_is_not_there_is_said(board: Approvalboard) -> None:
    for act in (board.approve(ALICE, "gone"), board.deny(ALICE, "gone", "")):
        with pytest.raises(KeyError, match='nothing with the id "gone" waits'):
            await act


async def test_without_a_record_or_a_file_nothing_is_decided(
    board: Approvalboard, ledger: Ledger, audit: AuditLog, disk: Disk
) -> None:
    entry = await waiting(ledger)
    disk.full = True
    with pytest.raises(Conflict, match="cannot be kept now"):
        await board.approve(ALICE, entry.id)
    disk.full = False
    await audit.aclose()
    with pytest.raises(AuditUnavailable):
        await board.approve(ALICE, entry.id)
    assert ledger.find(entry.id) == entry
