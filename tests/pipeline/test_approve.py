"""A call waits for a person, in its request and after it; a yes is for exactly this call, once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.approvals.entry import Entry, State
from gateway.approvals.file import ApprovalFile
from gateway.approvals.ledger import MAX_ARGUMENTS, Bounds, Ledger
from gateway.errors import Reason
from gateway.model.outcome import Failure, InputRequired, Outcome
from gateway.pipeline.approve import Approve, Desk
from gateway.pipeline.interceptor import Approved, Passage
from gateway.pipeline.passes import Passes
from gateway.policy.decision import Approval, Decision
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Members
from gateway.state.documents import Version
from gateway.state.folder import FolderDocuments
from gateway.state.memory import MemoryStore
from tests.kit.approvals import SEALER, Told, definition, ledger
from tests.kit.calls import OK, Next, call, passage
from tests.kit.definitions import tool

ASK = Approval("p", "approve[0]", frozenset({"alice"}), hold=0.0, timeout=60.0)
LONG = replace(ASK, hold=30.0)


def step(entries: Ledger, patience: float = 600.0) -> Approve:
    return Approve(Desk(entries, Passes(MemoryStore(), SEALER), definition), lambda _: patience, progress=0.01)


def way(*wanted: Approval, **facts: object) -> Passage:
    return passage(decision=Decision(True, "p", "allow[0]", "allow_rule", approvals=wanted), **facts)


def refused(outcome: Outcome) -> Failure:
    assert isinstance(outcome, Failure)
    return outcome


async def asked(entries: Ledger) -> Entry:
    """Wait until exactly one call waits."""
    async with asyncio.timeout(5):
        while not entries.pending:
            await asyncio.sleep(0)
    [entry] = [each for each in entries.entries() if each.state is State.PENDING]
    return entry


async def test_a_call_without_such_a_rule_does_not_wait(tmp_path: Path) -> None:
    entries = ledger(tmp_path)
    assert await step(entries)(call(), way(), Next()) is OK
    assert await step(entries)(call(), passage(), Next()) is OK
    assert entries.entries() == []


async def test_a_call_that_nobody_has_approved_is_refused_with_what_to_do(tmp_path: Path) -> None:
    entries, server, mine = ledger(tmp_path), Next(), way(ASK)
    failure = refused(await step(entries)(call(), mine, server))
    [entry] = entries.entries()
    assert (failure.reason, failure.approval, failure.may_have_run) == (Reason.APPROVAL_REQUIRED, entry.id, False)
    assert f"(approval {entry.id})" in failure.text
    assert "within 60 seconds" in failure.text
    assert mine.approved == Approved(entry.id)
    assert server.calls == []


async def test_a_call_goes_on_as_soon_as_it_is_approved(tmp_path: Path) -> None:
    entries, server, mine = ledger(tmp_path), Next(), way(LONG)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(step(entries)(call(), mine, server))
        entry = await asked(entries)
        assert server.calls == []
        await entries.approve(entry.id, "alice")
    assert running.result() is OK
    assert mine.approved == Approved(entry.id, ("alice",))
    assert mine.waited > 0
    assert refused(await step(entries)(call(), way(ASK), server)).approval != entry.id
    assert len(server.calls) == 1


async def test_a_call_that_is_denied_ends_at_once(tmp_path: Path) -> None:
    entries, server = ledger(tmp_path), Next()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(step(entries)(call(), way(LONG), server))
        entry = await asked(entries)
        await entries.deny(entry.id, "alice", "not today")
    failure = refused(running.result())
    assert (failure.reason, failure.approval) == (Reason.APPROVAL_DENIED, entry.id)
    assert "(not today)" in failure.text
    assert refused(await step(entries)(call(), way(ASK), server)).reason is Reason.APPROVAL_DENIED
    assert server.calls == []


async def test_a_client_that_leaves_lets_the_question_stand(tmp_path: Path) -> None:
    entries = ledger(tmp_path)
    running = asyncio.get_running_loop().create_task(_ignored(step(entries)(call(), way(LONG), Next())))
    entry = await asked(entries)
    running.cancel()
    await running
    await entries.approve(entry.id, "alice")
    assert await step(entries)(call(), way(ASK), Next()) is OK


async def _ignored(work: Any) -> None:
    try:
        await work
    except asyncio.CancelledError:
        return


async def test_a_held_call_is_told_to_come_again_when_the_gateway_ends(tmp_path: Path) -> None:
    entries = ledger(tmp_path)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        running = group.create_task(step(entries)(call(), way(LONG), Next()))
        entry = await asked(entries)
        entries.release()
    assert refused(running.result()).approval == entry.id
    assert refused(await step(entries)(call("u"), way(LONG), Next())).reason is Reason.APPROVAL_REQUIRED


async def test_of_twenty_equal_calls_one_passes(tmp_path: Path) -> None:
    entries, server = ledger(tmp_path), Next()
    await step(entries)(call(), way(ASK), server)
    await entries.approve((await asked(entries)).id, "alice")
    ended = await asyncio.gather(*(step(entries)(call(), way(ASK), server) for _ in range(20)))
    assert ended.count(OK) == len(server.calls) == 1
    assert len({refused(each).approval for each in ended if each is not OK}) == 1


async def test_it_waits_the_longest_hold_within_the_shortest_timeout_and_what_the_server_allows(tmp_path: Path) -> None:
    entries = ledger(tmp_path)
    short = replace(LONG, policy="q", timeout=0.05)
    async with asyncio.timeout(5):
        failure = refused(await step(entries)(call(), way(LONG, short), Next()))
        assert failure.reason is Reason.APPROVAL_REQUIRED
        assert refused(await step(entries, patience=0.0)(call("u"), way(LONG), Next())).approval


async def test_a_client_that_asked_for_progress_hears_what_it_waits_for(tmp_path: Path) -> None:
    told: list[Members] = []
    entries, mine = ledger(tmp_path), way(LONG)

    def hear(method: str, params: Members) -> None:
        told.append(params)
        if len(told) == 3:
            entries.release()

    mine.exchange.notify = hear
    async with asyncio.timeout(5):
        failure = refused(await step(entries)(call(), mine, Next()))
    values = [rawjson.decode_value(params["progress"]) for params in told]
    assert len(values) == 3
    assert values == sorted(set(map(float, map(str, values))))
    assert float(str(values[-1])) < 0.001
    assert failure.approval in str(rawjson.decode_value(told[0]["message"]))


async def test_a_repeated_call_waits_for_whoever_may_approve(tmp_path: Path) -> None:
    entries = ledger(tmp_path)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(step(entries)(call(), way(repeat="twice"), Next()))
        entry = await asked(entries)
        assert [(need.policy, need.rule, need.by) for need in entry.needs] == [("twice", "duplicates", frozenset())]
        await entries.approve(entry.id, "anybody")
    assert running.result() is OK


async def test_a_definition_that_changes_while_a_call_waits_is_asked_for_anew(tmp_path: Path) -> None:
    told = Told()
    entries, digest = ledger(tmp_path, told), ["one"]
    waiting = Approve(Desk(entries, Passes(MemoryStore(), SEALER), lambda _: digest[0]), lambda _: 600.0, progress=0.01)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(waiting(call(definition=tool("t")), way(LONG), Next()))
        first = await asked(entries)
        digest[0] = "two"
        async with asyncio.timeout(5):
            while "voided" not in told.outcomes:
                await asyncio.sleep(0.01)
        second = await asked(entries)
        assert second.id != first.id
        await entries.approve(second.id, "alice")
    assert running.result() is OK


@pytest.mark.parametrize("method", ["completion/complete", "resources/subscribe", "subscriptions/listen"])
async def test_nobody_is_asked_about_what_runs_nothing(tmp_path: Path, method: str) -> None:
    entries = ledger(tmp_path)
    assert await step(entries)(call(method=method), way(ASK), Next()) is OK
    assert entries.entries() == []


async def test_the_rounds_of_an_approved_call_pass_once_each(tmp_path: Path) -> None:
    entries, question = ledger(tmp_path), Next(InputRequired({}, "s"))
    approving = step(entries)
    await approving(call(), way(ASK), question)
    await entries.approve((await asked(entries)).id, "alice")
    assert isinstance(await approving(call(), way(ASK), question), InputRequired)
    second = way(ASK)
    assert isinstance(await approving(call(round=2), second, question), InputRequired)
    assert second.approved is not None
    assert second.approved.by == ("alice",)
    assert await approving(call(round=3), way(ASK), Next()) is OK
    replayed = refused(await approving(call(round=3), way(ASK), Next()))
    assert replayed.reason is Reason.APPROVAL_REQUIRED


async def test_what_cannot_be_shown_or_kept_is_refused(tmp_path: Path) -> None:
    long = call(arguments={"a": "x" * MAX_ARGUMENTS})
    assert refused(await step(ledger(tmp_path))(long, way(ASK), Next())).reason is Reason.TOO_LARGE
    full = ledger(tmp_path, bounds=Bounds(principal=0))
    assert refused(await step(full)(call(), way(ASK), Next())).reason is Reason.OVERLOADED
    broken = Ledger(_Broken(FolderDocuments(tmp_path), SEALER), Told())
    assert refused(await step(broken)(call(), way(ASK), Next())).reason is Reason.UNAVAILABLE


class _Broken(ApprovalFile):
    def write(self, entries: Iterable[Entry], expected: Version) -> Version:
        raise OSError(5, "Input/output error")


async def test_a_round_of_a_call_that_is_open_at_its_server_may_be_repeated(tmp_path: Path) -> None:
    entries, question = ledger(tmp_path), Next(InputRequired({}, "ticket", held=True))
    approving = step(entries)
    await approving(call(), way(ASK), question)
    await entries.approve((await asked(entries)).id, "alice")
    assert isinstance(await approving(call(), way(ASK), question), InputRequired)
    for _ in range(2):
        assert await approving(call(round=2), way(ASK), Next()) is OK
