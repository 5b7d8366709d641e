"""Calls that wait at one replica and are answered at another, with real servers behind both (S99, G063)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gateway.downstream.transport import Reply
from gateway.errors import AuditUnavailable, Reason
from gateway.model.call import Call, Caller, TaskRef
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome
from gateway.protocol.rawjson import Object, Value, decode_value
from gateway.protocol.versions import Era
from gateway.replicas import elsewhere, hosting
from gateway.replicas.identity import new_replica_id
from gateway.replicas.post import Letter, Parcel
from tests.kit.processes import eventually, guarded, scripted
from tests.kit.replicas import Replica, SharedMemory, replica, replicas
from tests.kit.transport import LEGACY, Client, Farm, Sent, but, call, members, never, principal, reply, server

ELICIT, SAMPLE = "elicitation/create", "sampling/createMessage"
ALL: Object = {"elicitation": {"form": {}}, "sampling": {}}
ASKS = ["elicitation", "sampling"]
ROLE: Object = {"role": "a"}
YES: Object = {"action": "accept", "content": {"word": "yes"}}


def asking(arguments: Object | None = None, who: str = "bot", **changes: object) -> Call:
    caller = Caller(Era.MODERN, "2026-07-28", capabilities=ALL)
    params: Object = {"name": "asks", "arguments": arguments or {}}
    made = call("asks", params=params, principal=principal(who), caller=caller)
    return replace(made, **changes)  # type: ignore[arg-type]  # reason: changes are Call's own fields.


def answered(made: Call, outcome: Outcome, answer: Value = None, **by_key: Object) -> Call:
    assert isinstance(outcome, InputRequired), outcome
    given: Object = {**by_key} if answer is None else dict.fromkeys(outcome.requests, answer)
    return replace(made, input_responses=given, request_state=outcome.state, round=made.round + 1)


def structured(outcome: Outcome) -> Value:
    assert isinstance(outcome, Complete), outcome
    return decode_value(outcome.result["structuredContent"])


def curious(*methods: str, rounds: int = 1) -> Farm:
    """Servers that ask for these in each round of a call, and tell how often they were answered."""

    async def work(sent: Sent) -> Reply:
        asked = 0
        for _ in range(rounds):
            given = [sent.transport.ask(method) for method in methods]
            later = [each for each in given if isinstance(each, asyncio.Future)]
            await asyncio.gather(*later)
            asked += len(later)
        return reply(content=[], structuredContent={"asked": asked})

    return Farm(but(LEGACY, {"tools/call": work}))


@asynccontextmanager
async def world(farm: Farm, count: int = 2, **config: object) -> AsyncIterator[tuple[SharedMemory, list[Replica]]]:
    servers = {"a": server(**{"asks": ASKS, "protocol": "legacy", **config})}
    async with guarded() as guardian, replicas(count, servers, guardian, farm) as (store, made):
        yield store, made


async def test_an_answer_at_another_replica_finds_its_call_over_a_real_process() -> None:
    servers = {"a": scripted("--era", "legacy", asks=ASKS, protocol="legacy")}
    async with guarded() as guardian, replicas(2, servers, guardian) as (store, (one, two)):
        made, exchange, again = asking({"rounds": [[ELICIT]]}), Exchange(), Exchange()
        first = await one.call(made, exchange)
        last = await two.call(answered(made, first, YES), again)
        assert isinstance(last, Complete), last
        assert b'"word": "yes"' in bytes(last.result["content"]).replace(b"\\", b"")
        assert exchange.instance is not None
        assert again.instance == exchange.instance
        assert exchange.instance.replica == one.post.replica
        assert (again.dispatched, again.repeated) == (True, False)
        assert one.moved.rows == [(made.id, two.post.replica, False)]
        assert two.moved.taken == [(made.id, one.post.replica)]
        await eventually(lambda: len(one.hosting) == 0)
        assert len(two.servers) == 0
        assert not any(b"yes" in message for _, message in store.published)


async def test_a_second_question_names_the_same_replica_and_any_other_may_answer_it() -> None:
    async with world(curious(ELICIT, rounds=2), 3) as (_, (one, two, three)):
        made = asking()
        first = await one.call(made)
        second = await two.call(answered(made, first, YES))
        assert isinstance(second, InputRequired)
        assert (second.held, second.at) == (True, one.post.replica)
        assert structured(await three.call(answered(made, second, YES))) == {"asked": 2}
        rows = [(two.post.replica, False), (two.post.replica, True), (three.post.replica, False)]
        assert [row[1:] for row in one.moved.rows] == rows


async def test_an_answer_comes_back_to_where_the_call_waits() -> None:
    async with world(curious(ELICIT, rounds=2)) as (_, (one, two)):
        made = asking()
        second = await two.call(answered(made, await one.call(made), YES))
        assert structured(await one.call(answered(made, second, YES))) == {"asked": 2}


async def test_a_partial_answer_is_asked_again_for_the_rest_under_the_same_ticket() -> None:
    async with world(curious(ELICIT, SAMPLE)) as (_, (one, two)):
        made = asking()
        first = await one.call(made)
        assert isinstance(first, InputRequired)
        rest = await two.call(answered(made, first, None, **{"ask-1": YES}))
        assert isinstance(rest, InputRequired)
        assert (list(rest.requests), rest.state) == (["ask-2"], first.state)
        assert structured(await two.call(answered(made, rest, None, **{"ask-2": ROLE}))) == {"asked": 2}


async def test_an_answer_that_is_repeated_anywhere_gets_the_same_result_and_one_alone_tells_of_the_end() -> None:
    """S99: each ticket is good for one answer; a repetition runs nothing."""
    async with world(farm := curious(ELICIT), 3) as (_, made_replicas):
        made = asking()
        first = await made_replicas[0].call(made)
        exchanges = [Exchange() for _ in range(6)]
        goes_on = answered(made, first, YES)
        outcomes = await asyncio.gather(
            *(made_replicas[number % 3].call(goes_on, exchange) for number, exchange in enumerate(exchanges))
        )
        assert [structured(outcome) for outcome in outcomes] == [{"asked": 1}] * 6
        assert sum(not exchange.repeated for exchange in exchanges) == 1
        assert sum(len(transport.of("tools/call")) for transport in farm.made) == 1


async def test_what_a_server_says_meanwhile_reaches_the_client_that_answered_in_order() -> None:
    async def work(sent: Sent) -> Reply:
        asked = sent.transport.ask(ELICIT)
        assert isinstance(asked, asyncio.Future)
        await asked
        token = sent.request.params["_meta"]["progressToken"]  # type: ignore[index]  # reason: scripted.
        for number in range(1, 4):
            sent.transport.say("notifications/progress", progressToken=token, progress=number)
            await asyncio.sleep(0.15)
        return reply(content=[], structuredContent={})

    async with world(Farm(but(LEGACY, {"tools/call": work}))) as (_, (one, two)):
        made, client = asking(progress_token="mine"), Client()
        first = await one.call(made)
        assert isinstance(await two.call(answered(made, first, YES), client.exchange()), Complete)
        assert [(method, said["progress"], said["progressToken"]) for method, said in client.heard] == [
            ("notifications/progress", number, "mine") for number in (1, 2, 3)
        ]


async def test_a_large_outcome_travels_in_pieces_and_is_the_same() -> None:
    text = "x" * 3_000_000 + "ü"

    async def work(sent: Sent) -> Reply:
        asked = sent.transport.ask(ELICIT)
        assert isinstance(asked, asyncio.Future)
        await asked
        return reply(content=[{"type": "text", "text": text}])

    async with world(Farm(but(LEGACY, {"tools/call": work}))) as (store, (one, two)):
        made = asking()
        last = await two.call(answered(made, await one.call(made), YES | {"pad": "y" * 200_000}))
        assert isinstance(last, Complete)
        assert decode_value(last.result["content"]) == [{"type": "text", "text": text}]
        assert max(len(message) for _, message in store.published) < 100_000
        assert store._entries == {}


async def test_an_outcome_too_large_to_pass_on_is_a_failure_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.replicas.post.MAX_LETTER", 100_000)

    async def work(sent: Sent) -> Reply:
        asked = sent.transport.ask(ELICIT)
        assert isinstance(asked, asyncio.Future)
        await asked
        return reply(content=[{"type": "text", "text": "x" * 200_000}])

    async with world(Farm(but(LEGACY, {"tools/call": work}))) as (_, (one, two)):
        made = asking()
        last = await two.call(answered(made, await one.call(made), YES))
        assert isinstance(last, Failure)
        assert (last.reason, last.may_have_run) == (Reason.TOO_LARGE, True)


async def test_failures_travel_as_they_are() -> None:
    async def work(sent: Sent) -> Reply:
        asked = sent.transport.ask(ELICIT)
        assert isinstance(asked, asyncio.Future)
        await asked
        sent.transport.end()
        return await never(sent)

    async with world(Farm(but(LEGACY, {"tools/call": work}))) as (_, (one, two)):
        made = asking()
        last = await two.call(answered(made, await one.call(made), YES))
        assert isinstance(last, Failure)
        assert (last.reason, last.may_have_run) == (Reason.UNAVAILABLE, True)
        assert 'server "a"' in last.text.lower()


async def test_only_the_caller_of_a_call_goes_on_with_it() -> None:
    async with world(curious(ELICIT)) as (_, (one, two)):
        made = asking()
        goes_on = answered(made, await one.call(made), YES)
        other = await two.call(replace(goes_on, principal=principal("other")))
        assert isinstance(other, Failure)
        assert "no longer waits" in other.text
        assert structured(await two.call(goes_on)) == {"asked": 1}


@pytest.mark.parametrize("lost", [None, 3], ids=["heard", "lost once"])
async def test_a_client_that_leaves_takes_its_call_along(lost: int | None) -> None:
    async def work(sent: Sent) -> Reply:
        asked = sent.transport.ask(ELICIT)
        assert isinstance(asked, asyncio.Future)
        await asked
        answered_there.set()
        return await never(sent)

    answered_there = asyncio.Event()
    async with world(farm := Farm(but(LEGACY, {"tools/call": work}))) as (store, (one, two)):
        made, exchange = asking(), Exchange()
        first = await one.call(made)
        letters: list[str] = []

        def loses(topic: str, number: int) -> bool:
            letters.extend([topic] if topic.endswith(one.post.replica) else [])
            return topic.endswith(one.post.replica) and len(letters) == lost

        store.loses = loses
        waiting = asyncio.get_running_loop().create_task(two.call(answered(made, first, YES), exchange))
        await answered_there.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not exchange.repeated
        assert sum(len(transport.cancelled) for transport in farm.made) == 1
        await eventually(lambda: len(one.hosting) == 0)


@pytest.mark.parametrize("during", ["call", "here"])
async def test_a_client_that_leaves_while_its_call_is_passed_on_leaves_nothing_running(
    during: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its letter is on its way then, or has arrived: nothing else would tell the other replica before long."""

    async def work(sent: Sent) -> Reply:
        asked = sent.transport.ask(ELICIT)
        assert isinstance(asked, asyncio.Future)
        await asked
        return await never(sent)

    async with world(Farm(but(LEGACY, {"tools/call": work}))) as (_, (one, two)):
        made, sent = asking(), asyncio.Event()
        first = await one.call(made)
        dispatch = two.post.dispatch

        async def slow(parcel: Parcel) -> bool:
            done = await dispatch(parcel)
            if parcel.head["kind"] == during:
                sent.set()
                await asyncio.Event().wait()
            return done

        monkeypatch.setattr(two.post, "dispatch", slow)
        exchange = Exchange()
        waiting = asyncio.get_running_loop().create_task(two.call(answered(made, first, YES), exchange))
        async with asyncio.timeout(5):
            await sent.wait()
        await eventually(lambda: len(one.hosting) == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        # What never began there waits on, and its end is told there; two logs with an end would be one too many.
        assert exchange.repeated is (not one.moved.rows)
        # Much sooner than for want of signs of life.
        await eventually(lambda: len(one.hosting) == 0, 4)


async def test_an_answer_for_a_replica_that_is_gone_is_refused_at_once() -> None:
    async with world(curious(ELICIT)) as (_, (one, two)):
        made, exchange = asking(), Exchange()
        first = await one.call(made)
        await one.kill()
        began = asyncio.get_running_loop().time()
        last = await two.call(answered(made, first, YES), exchange)
        assert isinstance(last, Failure)
        assert (last.reason, last.detail, exchange.repeated) == (Reason.UNAVAILABLE, "unknown_ticket", True)
        assert asyncio.get_running_loop().time() - began < elsewhere.ANSWERED_WITHIN


async def test_a_replica_that_is_lost_during_the_call_ends_it_as_may_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "BEAT", 0.05)

    async def work(sent: Sent) -> Reply:
        asked = sent.transport.ask(ELICIT)
        assert isinstance(asked, asyncio.Future)
        await asked
        going_on.set()
        return await never(sent)

    going_on = asyncio.Event()
    async with world(Farm(but(LEGACY, {"tools/call": work}))) as (_, (one, two)):
        made, exchange = asking(), Exchange()
        first = await one.call(made)
        waiting = asyncio.get_running_loop().create_task(two.call(answered(made, first, YES), exchange))
        await going_on.wait()
        one.post.on("stop", lambda letter: None)
        killed = asyncio.get_running_loop().create_task(one.kill())
        last = await waiting
        await killed
        assert isinstance(last, Failure)
        assert (last.reason, last.may_have_run, exchange.repeated) == (Reason.UNAVAILABLE, True, False)
        assert "check its effect" in last.text


async def test_while_the_store_is_away_an_answer_may_come_again_and_then_finds_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elsewhere, "ANSWERED_WITHIN", 0.2)
    async with world(curious(ELICIT)) as (store, (one, two)):
        made, exchange = asking(), Exchange()
        goes_on = answered(made, await one.call(made), YES)
        store.up = False
        last = await two.call(goes_on, exchange)
        assert isinstance(last, Failure)
        assert (last.detail, last.retry_after_ms, exchange.repeated) == ("replica_unreachable", 2000, True)
        store.up = True
        assert structured(await two.call(goes_on)) == {"asked": 1}


async def test_an_answer_waits_for_a_store_that_comes_back_soon() -> None:
    async with world(curious(ELICIT)) as (store, (one, two)):
        made = asking()
        goes_on = answered(made, await one.call(made), YES)
        store.up = False
        asyncio.get_running_loop().call_later(0.2, setattr, store, "up", True)
        assert structured(await two.call(goes_on)) == {"asked": 1}


@pytest.mark.parametrize("lost", ["call", "taken", "here", "end", "got"])
async def test_no_letter_that_is_lost_loses_the_call(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (elsewhere, hosting):
        monkeypatch.setattr(module, "BEAT", 0.1)
    monkeypatch.setattr(elsewhere, "AGAIN", 0.1)
    async with world(farm := curious(ELICIT)) as (store, (one, two)):
        made = asking()
        goes_on = answered(made, await one.call(made), YES)
        heard = {"call": (one, 1), "here": (one, 2), "got": (one, 3), "taken": (two, 1), "end": (two, 2)}
        victim, which = heard[lost]
        counted: list[str] = []

        def loses(topic: str, number: int) -> bool:
            counted.append(topic)
            return topic.endswith(victim.post.replica) and counted.count(topic) == which

        store.loses = loses
        assert structured(await two.call(goes_on)) == {"asked": 1}
        assert sum(len(transport.of("tools/call")) for transport in farm.made) == 1
        await eventually(lambda: len(one.hosting) == 0)


async def test_a_call_whose_taking_over_cannot_be_recorded_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(curious(ELICIT)) as (_, (one, two)):
        made, exchange = asking(), Exchange()
        goes_on = answered(made, await one.call(made), YES)

        async def refused(call: Call, exchange: Exchange, replica: str) -> None:
            raise AuditUnavailable("full")

        with monkeypatch.context() as patch:
            patch.setattr(two.servers, "_take_over", refused)
            with pytest.raises(AuditUnavailable):
                await two.call(goes_on, exchange)
        assert (exchange.repeated, one.moved.rows) == (True, [])
        await eventually(lambda: len(one.hosting) == 0)
        assert structured(await two.call(goes_on)) == {"asked": 1}


async def test_that_an_end_was_fetched_is_said_until_it_is_heard() -> None:
    """Else it would be sent again and again, and its pieces would lie in the store meanwhile."""
    async with world(curious(ELICIT)) as (store, (one, two)):
        made = asking()
        goes_on = answered(made, await one.call(made), YES)
        sent: list[str] = []

        def loses(topic: str, number: int) -> bool:
            if topic.endswith(one.post.replica):
                sent.append(topic)
            return topic.endswith(one.post.replica) and len(sent) == 3

        store.loses = loses
        assert structured(await two.call(goes_on)) == {"asked": 1}
        await eventually(lambda: len(one.hosting) == 0, elsewhere.BEAT * 2)
        assert len(sent) == 4


async def test_what_was_fetched_is_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "MAX_FETCHED", 1)
    async with world(curious(ELICIT)) as (_, (one, two)):
        for _ in range(3):
            made = asking()
            await two.call(answered(made, await one.call(made), YES))
        assert len(two.servers._fetched) == 1


async def test_a_replica_that_takes_no_more_calls_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "MAX_GUESTS", 0)
    async with world(curious(ELICIT)) as (_, (one, two)):
        made, exchange = asking(), Exchange()
        last = await two.call(answered(made, await one.call(made), YES), exchange)
        assert isinstance(last, Failure)
        assert "busy" in last.text
        assert (last.retry_after_ms, exchange.repeated) == (2000, True)


async def test_a_call_that_will_not_be_answered_is_given_up_where_it_waits() -> None:
    async with world(farm := curious(ELICIT, rounds=2)) as (_, (one, two)):
        made, exchange = asking(), Exchange()
        second = await two.call(answered(made, await one.call(made), YES), exchange)
        assert isinstance(second, InputRequired)
        exchange.abandon()
        await eventually(lambda: sum(len(transport.cancelled) for transport in farm.made) == 1)
        assert one.lapsed == []
        assert [held for _, _, held in one.moved.rows] == [False, True, False]


async def test_a_question_that_a_server_takes_back_is_taken_back_where_the_client_is_asked() -> None:
    async def work(sent: Sent) -> Reply:
        first = sent.transport.ask(ELICIT)
        assert isinstance(first, asyncio.Future)
        await first
        kept, dropped = sent.transport.ask(ELICIT), sent.transport.ask(SAMPLE)
        assert isinstance(kept, asyncio.Future)
        assert isinstance(dropped, asyncio.Future)
        await unwanted.wait()
        dropped.cancel()
        return reply(content=[], structuredContent={"asked": (await kept) is not None})

    unwanted = asyncio.Event()
    async with world(Farm(but(LEGACY, {"tools/call": work}))) as (_, (one, two)):
        taken_back: list[str] = []
        made, exchange = asking(), Exchange(withdraw=taken_back.append)
        second = await two.call(answered(made, await one.call(made), YES), exchange)
        assert isinstance(second, InputRequired)
        assert second.state is not None
        elicited, sampled = second.requests
        # Only the replica that asks can take a question of its own back.
        two.servers._taken_back(Letter("withdraw", new_replica_id(), short=members(ticket=second.state, key=elicited)))
        unwanted.set()
        await eventually(lambda: taken_back)
        assert taken_back == [sampled]
        goes_on = replace(made, request_state=second.state, input_responses={elicited: YES}, round=3)
        assert structured(await two.call(goes_on)) == {"asked": True}
        del exchange, second
        gc.collect()
        assert len(two.servers._asking) == 0


async def test_of_two_who_wait_for_an_end_one_may_leave_and_the_other_tells_of_it() -> None:
    async def work(sent: Sent) -> Reply:
        asked = sent.transport.ask(ELICIT)
        assert isinstance(asked, asyncio.Future)
        await asked
        await go.wait()
        return reply(content=[], structuredContent={"asked": 1})

    go = asyncio.Event()
    async with world(Farm(but(LEGACY, {"tools/call": work})), 3) as (_, (one, two, three)):
        made, leaves, stays = asking(), Exchange(), Exchange()
        goes_on = answered(made, await one.call(made), YES)
        loop = asyncio.get_running_loop()
        waiting = [loop.create_task(each.call(goes_on, own)) for each, own in ((two, leaves), (three, stays))]
        await eventually(lambda: leaves.dispatched and stays.dispatched and len(one.hosting) == 2)
        await eventually(lambda: all(guest.confirmed.is_set() for guest in one.hosting._guests.values()))
        waiting[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        go.set()
        assert structured(await waiting[1]) == {"asked": 1}
        assert (leaves.repeated, stays.repeated) == (True, False)


async def test_a_parked_call_whose_replica_ends_in_order_is_told_to_have_ended() -> None:
    async with world(curious(ELICIT)) as (_, (one, two)):
        made = asking()
        first = await one.call(made)
        await one.stop()
        assert len(one.lapsed) == 1
        last = await two.call(answered(made, first, YES))
        assert isinstance(last, Failure)
        assert last.detail == "unknown_ticket"


async def test_a_request_about_a_task_goes_to_the_replica_whose_connection_it_began_on() -> None:
    seen: list[str] = []

    def get(sent: Sent) -> Reply:
        seen.append(sent.transport.name)
        return Reply(members(taskId="t", status="working", ttl=None), None, 0, {})

    async with world(Farm(but(LEGACY, {"tasks/get": get}))) as (_, (one, two)):
        exchange = Exchange()
        await one.call(call("echo", caller=Caller(Era.LEGACY, "2025-11-25")), exchange)
        where = exchange.instance
        assert where is not None
        ref = TaskRef("t", "shown", where.instance, where.replica)
        about = call("echo", "tasks/get", params={"taskId": "t"}, task=ref, round=2)
        assert isinstance(await two.call(about), Complete)
        assert seen == [where.instance]
        await one.kill()
        lost = await two.call(about)
        assert isinstance(lost, Failure)
        assert "is lost with it" in lost.text


async def test_a_gateway_without_others_passes_nothing_on() -> None:
    servers = {"a": server(asks=ASKS, protocol="legacy")}
    store = SharedMemory()
    async with guarded() as guardian, replica(store, servers, guardian, curious(ELICIT), alone=True) as one:
        made, exchange = asking(), Exchange()
        first = await one.call(made, exchange)
        assert isinstance(first, InputRequired)
        assert exchange.instance is not None
        assert exchange.instance.replica == ""
        of_before = replace(answered(made, first, YES), request_state="parked-0123456789ab-x")
        gone = await one.call(of_before)
        assert isinstance(gone, Failure)
        assert gone.detail == "unknown_ticket"
        assert store.published == []
