"""Every approval is found again, decided by who is asked, used once and ended in time, within bounds."""

from __future__ import annotations

import asyncio
import threading
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
from gateway.state.documents import Version
from gateway.state.folder import FolderDocuments
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

    def write(self, entries: Iterable[Entry], expected: Version) -> Version:
        if self.full:
            raise OSError(28, "No space left on device")
        return super().write(entries, expected)


async def test_what_cannot_be_kept_does_not_count(tmp_path: Path) -> None:
    disk, told = FullDisk(FolderDocuments(tmp_path), SEALER), Told()
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


# Shared with other replicas.


def pair(folder: Path, bounds: Bounds | None = None) -> tuple[Ledger, Ledger, Told, Told]:
    """Return the ledgers of two replicas, and what each one tells."""
    one, two = Told(), Told()
    return ledger(folder, one, bounds=bounds), ledger(folder, two, bounds=bounds), one, two


async def test_what_one_replica_asks_another_decides_and_whoever_waits_hears_of_it(tmp_path: Path) -> None:
    one, two, told_one, told_two = pair(tmp_path)
    asked = await one.ask(subject(), ALICE, 60)
    await two.reread()
    assert two.entries() == [asked]
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(one.changed(asked))
        await asyncio.sleep(0)
        granted = await two.approve(asked.id, "alice")
        await one.reread()
    assert one.find(asked.id) == granted
    assert await one.use(granted)
    assert not await two.use(granted)
    assert (told_one.outcomes, told_two.outcomes) == (["requested", "used"], ["approved"])


async def test_a_replica_that_has_not_heard_yet_builds_on_what_is_there(tmp_path: Path) -> None:
    one, two, told_one, told_two = pair(tmp_path)
    asked = await one.ask(subject(), BOTH, 60)
    assert await two.ask(subject(), BOTH, 60) == asked, "it is asked for once"
    await one.approve(asked.id, "alice")
    granted = await two.approve(asked.id, "bob")
    assert (granted.state, granted.users) == (State.GRANTED, ("alice", "bob"))
    with pytest.raises(Settled, match="granted already"):
        await one.approve(asked.id, "bob")
    assert told_one.outcomes + told_two.outcomes == ["requested", "approved", "approved"]


async def test_who_comes_again_right_after_a_yes_finds_it_at_any_replica(tmp_path: Path) -> None:
    one, two = (Ledger(ApprovalFile(FolderDocuments(tmp_path, shared=True), SEALER), Told()) for _ in range(2))
    asked = await one.ask(subject(), ALICE, 60)
    await two.reread()
    granted = await two.approve(asked.id, "alice")
    assert await one.ask(subject(), ALICE, 60) == granted
    (tmp_path / FILE).write_text("{")
    assert await one.ask(subject(), ALICE, 60) == granted, "what is known counts"


async def test_of_many_replicas_one_uses_a_yes(tmp_path: Path) -> None:
    told = Told()
    replicas = [ledger(tmp_path, told) for _ in range(5)]
    granted = await replicas[0].approve((await replicas[0].ask(subject(), ALICE, 60)).id, "alice")
    for each in replicas:
        await each.reread()
    used = await asyncio.gather(*(each.use(granted) for each in replicas for _ in range(4)))
    assert sum(used) == 1
    assert told.outcomes == ["requested", "approved", "used"]


async def test_bounds_hold_for_all_replicas_together(tmp_path: Path) -> None:
    one, two, _, _ = pair(tmp_path, Bounds(principal=3))
    made = await asyncio.gather(
        *(each.ask(subject(f"{number}{each is one}"), ALICE, 60) for number in range(4) for each in (one, two)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, Full) for each in made) == 5
    assert len(ledger(tmp_path).entries()) == 3


async def test_what_is_over_is_ended_and_told_by_one(tmp_path: Path) -> None:
    clock, told = Clock(), Told()
    replicas = [ledger(tmp_path, told, clock) for _ in range(4)]
    await replicas[0].ask(subject(), ALICE, 60)
    for each in replicas:
        await each.reread()
    clock.ahead = 61
    await asyncio.gather(*(each.sweep() for each in replicas))
    assert told.outcomes == ["requested", "expired"]


async def test_what_is_damaged_later_changes_nothing_and_nothing_is_decided_on_it(tmp_path: Path) -> None:
    one, two, _, _ = pair(tmp_path)
    asked = await one.ask(subject(), ALICE, 60)
    await two.reread()
    (tmp_path / FILE).write_text("{")
    for act in (two.reread(), two.approve(asked.id, "alice"), two.ask(subject("y"), ALICE, 60)):
        with pytest.raises(Unwritable, match="cannot be used"):
            await act
    assert two.entries() == [asked]


class Slow(ApprovalFile):
    """A file whose next write ends when a test says so."""

    wait: threading.Event | None = None

    def write(self, entries: Iterable[Entry], expected: Version) -> Version:
        version = super().write(entries, expected)
        if self.wait is not None:
            self.wait.wait(5)
        return version


async def test_a_call_that_leaves_while_its_change_is_written_takes_nothing_back(tmp_path: Path) -> None:
    """What has become durable is told, once, although nobody waits for it any more."""
    slow, told = Slow(FolderDocuments(tmp_path), SEALER), Told()
    entries = Ledger(slow, told)
    slow.wait = threading.Event()
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        asking = group.create_task(entries.ask(subject(), ALICE, 60))
        while not (tmp_path / FILE).exists():
            await asyncio.sleep(0.01)
        asking.cancel()
    slow.wait.set()
    slow.wait = None
    async with asyncio.timeout(5):
        while not told.events:
            await entries.sweep()
            await asyncio.sleep(0.01)
    [(outcome, entry)] = told.events
    assert outcome == "requested"
    assert entries.entries() == [entry]
    assert (await entries.approve(entry.id, "alice")).state is State.GRANTED
    assert told.outcomes == ["requested", "approved"]
