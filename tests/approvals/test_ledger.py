"""Every approval is found again, decided by who is asked, used once and ended in time, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from gateway.approvals.entry import Entry, Need, State, Subject
from gateway.approvals.file import FILE, ApprovalFile
from gateway.approvals.ledger import (
    MAX_ARGUMENTS,
    Bounds,
    Full,
    Ineligible,
    Ledger,
    Settled,
    TooLarge,
    Unwritable,
)
from gateway.model.principal import Principal
from tests.kit.approvals import SEALER, Clock, Told, ledger
from tests.kit.calls import call
from tests.kit.definitions import tool

ALICE = (Need("p", "approve[0]", frozenset({"alice"})),)
BOTH = (*ALICE, Need("q", "approve[0]", frozenset({"bob"})))


def subject(word: str = "x", who: str = "bot") -> Subject:
    return Subject.of(call(arguments={"word": word}, principal=Principal(f"key:{who}", "key", who)))


async def test_the_same_call_has_one_entry_and_another_call_its_own(tmp_path: Path) -> None:
    told = Told()
    entries = ledger(tmp_path, told)
    first = await entries.ask(subject(), ALICE, 60)
    assert await entries.ask(subject(), ALICE, 60) == first
    other = await entries.ask(subject("y"), ALICE, 60)
    assert entries.entries() == [first, other]
    assert told.events == [("requested", first), ("requested", other)]
    assert entries.pending == 2


async def test_a_yes_passes_one_call_however_many_want_it(tmp_path: Path) -> None:
    told = Told()
    entries = ledger(tmp_path, told)
    asked = await entries.ask(subject(), ALICE, 60)
    assert not await entries.use(asked)
    granted = await entries.approve(asked.id, "alice")
    assert granted.state is State.GRANTED
    assert sum(await asyncio.gather(*(entries.use(granted) for _ in range(20)))) == 1
    assert entries.entries() == []
    assert told.outcomes == ["requested", "approved", "used"]
    assert ledger(tmp_path).entries() == []


async def test_everybody_a_rule_wants_has_to_agree(tmp_path: Path) -> None:
    entries = ledger(tmp_path)
    asked = await entries.ask(subject(), BOTH, 60)
    with pytest.raises(Ineligible):
        await entries.approve(asked.id, "carol")
    assert (await entries.approve(asked.id, "bob")).state is State.PENDING
    with pytest.raises(Settled, match="you have said yes"):
        await entries.approve(asked.id, "bob")
    granted = await entries.approve(asked.id, "alice")
    assert (granted.state, granted.users) == (State.GRANTED, ("bob", "alice"))
    with pytest.raises(Settled, match="granted already"):
        await entries.approve(asked.id, "alice")


async def test_a_no_is_remembered_and_takes_back_a_yes(tmp_path: Path) -> None:
    clock = Clock()
    entries = ledger(tmp_path, clock=clock)
    asked = await entries.ask(subject(), ALICE, 60)
    granted = await entries.approve(asked.id, "alice")
    with pytest.raises(Ineligible):
        await entries.deny(asked.id, "bob", "")
    await entries.deny(asked.id, "alice", "changed my mind")
    assert not await entries.use(granted)
    found = await entries.ask(subject(), ALICE, 60)
    assert (found.id, found.state, found.reason) == (asked.id, State.DENIED, "changed my mind")
    for act in (entries.approve(asked.id, "alice"), entries.deny(asked.id, "alice", "")):
        with pytest.raises(Settled, match="denied already"):
            await act


async def test_what_is_over_counts_for_nothing_and_is_told_once(tmp_path: Path) -> None:
    clock, told = Clock(), Told()
    entries = ledger(tmp_path, told, clock)
    pending = await entries.ask(subject(), ALICE, 60)
    granted = await entries.approve((await entries.ask(subject("y"), ALICE, 60)).id, "alice")
    await entries.sweep()
    clock.ahead = 61
    assert entries.entries() == [granted]
    with pytest.raises(KeyError):
        await entries.approve(pending.id, "alice")
    assert (await entries.ask(subject(), ALICE, 60)).id != pending.id
    clock.ahead = 901
    assert not await entries.use(granted)
    await entries.sweep()
    assert told.outcomes.count("expired") == 3
    assert entries.entries() == []


async def test_another_definition_voids_what_was_said(tmp_path: Path) -> None:
    told = Told()
    entries = ledger(tmp_path, told)
    before = Subject.of(call(definition=tool("t")))
    granted = await entries.approve((await entries.ask(before, ALICE, 60)).id, "alice")
    now = Subject.of(call(definition=tool("t", description="now it deletes")))
    asked = await entries.ask(now, ALICE, 60)
    assert (asked.state, asked.id != granted.id) == (State.PENDING, True)
    assert not await entries.use(granted)
    assert told.outcomes == ["requested", "approved", "voided", "requested"]


async def test_a_rule_that_came_later_wants_its_own_yes(tmp_path: Path) -> None:
    entries = ledger(tmp_path)
    granted = await entries.approve((await entries.ask(subject(), ALICE, 60)).id, "alice")
    asked = await entries.ask(subject(), BOTH, 60)
    assert (asked.id, asked.state) == (granted.id, State.PENDING)
    assert not await entries.use(granted)


async def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    entries = ledger(tmp_path)
    asked = await entries.ask(subject(), ALICE, 60)
    granted = await entries.approve((await entries.ask(subject("y"), ALICE, 60)).id, "alice")
    again = ledger(tmp_path)
    assert again.entries() == [asked, granted]
    assert await again.use(granted)
    assert ledger(tmp_path).entries() == [asked]


async def test_there_is_room_for_so_many_and_no_more(tmp_path: Path) -> None:
    entries = ledger(tmp_path, bounds=Bounds(principal=2, total=3, size=60))
    await entries.ask(subject("1"), ALICE, 60)
    await entries.ask(subject("2"), ALICE, 60)
    with pytest.raises(Full):
        await entries.ask(subject("3"), ALICE, 60)
    with pytest.raises(Full):
        await entries.ask(subject("x" * 60, "other"), ALICE, 60)
    await entries.ask(subject("1", "other"), ALICE, 60)
    with pytest.raises(Full):
        await entries.ask(subject("1", "third"), ALICE, 60)
    assert (await entries.ask(subject("1"), ALICE, 60)).state is State.PENDING
    with pytest.raises(TooLarge):
        await entries.ask(subject("x" * MAX_ARGUMENTS), ALICE, 60)


class FullDisk(ApprovalFile):
    full = False

    def write(self, entries: Iterable[Entry], version: int) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        super().write(entries, version)


async def test_what_cannot_be_kept_does_not_count(tmp_path: Path) -> None:
    disk, told = FullDisk(tmp_path / FILE, SEALER), Told()
    entries = Ledger(disk, told)
    granted = await entries.approve((await entries.ask(subject(), ALICE, 60)).id, "alice")
    asked = await entries.ask(subject("y"), ALICE, 60)
    disk.full = True
    for act in (entries.use(granted), entries.ask(subject("z"), ALICE, 60), entries.approve(asked.id, "alice")):
        with pytest.raises(Unwritable, match="No space"):
            await act
    assert entries.entries() == [granted, asked]
    disk.full = False
    assert await entries.use(granted)


async def test_who_waits_hears_of_a_decision_at_once(tmp_path: Path) -> None:
    entries = ledger(tmp_path)
    asked = await entries.ask(subject(), ALICE, 60)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        waiting = [group.create_task(entries.changed(asked)) for _ in range(3)]
        await asyncio.sleep(0)
        await entries.ask(subject("y"), ALICE, 60)
        assert not any(task.done() for task in waiting)
        await entries.approve(asked.id, "alice")
    await entries.changed(asked)


async def test_whoever_waits_is_let_go_when_the_gateway_ends_and_what_was_asked_stays(tmp_path: Path) -> None:
    entries = ledger(tmp_path)
    asked = await entries.ask(subject(), ALICE, 60)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(entries.changed(asked))
        await asyncio.sleep(0)
        entries.release()
    await entries.changed(asked)
    assert entries.released
    assert entries.entries() == [asked]
