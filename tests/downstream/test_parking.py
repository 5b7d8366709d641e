"""Questions of legacy servers: parked, answered, lapsed (S96, S97, G062, G063; contract: Input requests)."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from gateway.downstream import isolation, legacy, parking, tickets
from gateway.downstream.hooks import Hooks
from gateway.downstream.parking import Parking
from gateway.downstream.pool import Pool, PoolOptions
from gateway.downstream.questions import MAX_OPEN, Roots, declined
from gateway.downstream.slot import Slot
from gateway.downstream.transport import Later, Reply
from gateway.errors import Reason
from gateway.model.call import Call, Caller
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Object, Value, decode_value
from gateway.protocol.versions import Era
from tests.kit.http_server import Exchange as HttpExchange
from tests.kit.http_server import Json, McpServer, serving
from tests.kit.processes import eventually, guarded, scripted
from tests.kit.sse_server import SseServer
from tests.kit.transport import (
    LEGACY,
    WAIT,
    Client,
    FakeTransport,
    Farm,
    Sent,
    but,
    call,
    never,
    principal,
    reply,
    server,
)

ALL: Object = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ASKS = ["elicitation", "sampling", "roots"]
YES: Object = {"action": "accept", "content": {"word": "yes"}}
ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"


def asking(
    name: str = "asks", arguments: Object | None = None, who: str = "bot", capabilities: Object = ALL, **changes: object
) -> Call:
    caller = Caller(Era.MODERN, "2026-07-28", capabilities=capabilities)
    params: Object = {"name": name, "arguments": arguments or {}}
    made = call(name, params=params, principal=principal(who), caller=caller)
    return replace(made, **changes)  # type: ignore[arg-type]  # reason: changes are Call's own fields.


def answered(made: Call, outcome: Outcome, answer: Value = None, **by_key: Value) -> Call:
    """Return the call gone on with: ``answer`` to every question, or the answers by key."""
    assert isinstance(outcome, InputRequired)
    responses: Object = dict(by_key) if answer is None else dict.fromkeys(outcome.requests, answer)
    return replace(made, input_responses=responses, request_state=outcome.state, round=made.round + 1)


def questions(outcome: Outcome) -> list[Value]:
    assert isinstance(outcome, InputRequired), outcome
    assert outcome.held
    return [decode_value(each) for each in outcome.requests.values()]


def text(outcome: Outcome) -> Value:
    """Return what the scripted server wrote as JSON text."""
    assert isinstance(outcome, Complete), outcome
    content = decode_value(outcome.result["content"])
    assert isinstance(content, list)
    assert isinstance(content[0], dict)
    said = content[0]["text"]
    assert isinstance(said, str)
    return decode_value(said.encode())


def structured(outcome: Outcome) -> Value:
    assert isinstance(outcome, Complete), outcome
    return decode_value(outcome.result["structuredContent"])


def lapses(into: list[Outcome]) -> Hooks:
    """Note the ends of calls whose client was away."""
    return Hooks(on_ended=lambda call, exchange, outcome: into.append(outcome))


@dataclass
class World:
    pool: Pool
    lapsed: list[Outcome]

    async def call(self, made: Call, exchange: Exchange | None = None) -> Outcome:
        async with asyncio.timeout(WAIT * 2):
            return await self.pool.call(made, exchange or Exchange())

    @property
    def parking(self) -> Parking:
        return self.pool._environment.parking

    @property
    def slot(self) -> Slot:
        """The first connection that belongs to somebody."""
        return next(iter(self.pool._members["a"]._slots))


@asynccontextmanager
async def process(*modes: str, **config: object) -> AsyncIterator[World]:
    """A pool with the scripted stdio server as ``a``."""
    async with guarded() as guardian:
        lapsed: list[Outcome] = []
        pool = Pool(PoolOptions(guardian, hooks=lapses(lapsed)))
        pool.apply({"a": scripted("--era", "legacy", *modes, **{"asks": ASKS, "protocol": "legacy", **config})})
        try:
            yield World(pool, lapsed)
        finally:
            await pool.aclose()
        assert len(pool._environment.parking) == 0


@asynccontextmanager
async def web(made: McpServer, **config: object) -> AsyncIterator[World]:
    """A pool with a scripted HTTP server as ``a``."""
    async with serving(made.script) as http, guarded() as guardian:
        lapsed: list[Outcome] = []
        pool = Pool(PoolOptions(guardian, hooks=lapses(lapsed)))
        pool.apply({"a": server(url=http.url, **{"asks": ASKS, "protocol": "legacy", **config})})
        try:
            yield World(pool, lapsed)
        finally:
            await pool.aclose()


@asynccontextmanager
async def fake(farm: Farm, **config: object) -> AsyncIterator[World]:
    """A pool with scripted transports as ``a``."""
    async with guarded() as guardian:
        lapsed: list[Outcome] = []
        pool = Pool(PoolOptions(guardian, make_transport=farm, hooks=lapses(lapsed)))
        pool.apply({"a": server(**{"asks": ASKS, "protocol": "legacy", **config})})
        try:
            yield World(pool, lapsed)
        finally:
            await pool.aclose()
        assert farm.live == []


def busy(farm: Farm) -> FakeTransport | None:
    """Return the transport on which calls are made; the other one serves the catalog."""
    return next((made for made in farm.made if made.of("tools/call")), None)


def curious(*methods: str) -> Farm:
    """Servers that ask for these at once in each call, and return how often they were answered."""

    async def work(sent: Sent) -> Reply:
        given = [sent.transport.ask(method) for method in methods]
        later = [each for each in given if isinstance(each, asyncio.Future)]
        await asyncio.gather(*later)
        return reply(content=[], structuredContent={"asked": len(later), "declined": len(given) - len(later)})

    return Farm(but(LEGACY, {"tools/call": work}))


# The way there and back.


async def test_a_question_over_stdio_parks_the_call_and_its_answer_lets_it_go_on() -> None:
    async with process() as world:
        made = asking(arguments={"rounds": [[ELICIT]]})
        exchange = Exchange()
        first = await world.call(made, exchange)
        assert questions(first) == [{"method": ELICIT, "params": {"of": "q-0"}}]
        assert exchange.dispatched
        again = Exchange()
        last = await world.call(answered(made, first, YES), again)
        assert text(last) == [[{"jsonrpc": "2.0", "id": "q-0", "result": YES}]]
        assert (again.dispatched, again.instance) == (True, exchange.instance)
        assert (len(world.parking), world.lapsed) == (0, [])


async def test_a_question_over_http_is_answered_in_a_post_of_the_same_session() -> None:
    made = McpServer("legacy", asks=(ELICIT, SAMPLE))
    async with web(made) as world:
        request = asking("echo", {"n": 1})
        first = await world.call(request)
        assert questions(first) == [{"method": ELICIT, "params": {"n": 1}}]
        second = await world.call(answered(request, first, YES))
        assert questions(second) == [{"method": SAMPLE, "params": {"n": 1}}]
        last = await world.call(answered(request, second, {"role": "assistant"}))
        given = [
            {"jsonrpc": "2.0", "id": "1-0", "result": YES},
            {"jsonrpc": "2.0", "id": "1-1", "result": {"role": "assistant"}},
        ]
        assert structured(last) == {"given": given, "of": {"n": 1}}
        await eventually(lambda: len(made.declared) == 2)
        assert ALL in made.declared


async def test_a_question_over_the_oldest_transport_is_answered_on_its_own_conversation() -> None:
    """2024-11-05 has one stream for everything, so calls take turns there as on a pipe."""

    async def curious_call(served: SseServer, message: Json) -> None:
        stream = served.streams[-1]
        question = {"jsonrpc": "2.0", "id": "q", "method": ELICIT, "params": {"n": 1}}
        await stream.chunk(b"event: message\ndata: " + json.dumps(question).encode() + b"\n\n")
        waiting.append((stream, message["id"]))

    async def curious_answer(served: SseServer, message: Json) -> None:
        stream, identifier = waiting.pop()
        result = {"jsonrpc": "2.0", "id": identifier, "result": {"content": [], "structuredContent": message["result"]}}
        await stream.chunk(b"event: message\ndata: " + json.dumps(result).encode() + b"\n\n")

    waiting: list[tuple[HttpExchange, object]] = []
    served = SseServer(handlers={"tools/call": curious_call, "": curious_answer})
    async with serving(served.script) as http, guarded() as guardian:
        pool = Pool(PoolOptions(guardian))
        pool.apply({"a": server(url=http.url, transport="sse", asks=ASKS, protocol="legacy")})
        try:
            await eventually(lambda: pool.hello("a"))
            world, made = World(pool, []), asking("echo")
            first = await world.call(made)
            assert questions(first) == [{"method": ELICIT, "params": {"n": 1}}]
            assert structured(await world.call(answered(made, first, YES))) == YES
        finally:
            await pool.aclose()


async def test_the_server_is_told_what_the_client_declared_within_asks() -> None:
    """S97: nothing is declared on the connection that serves the catalog, nor for a client without capabilities."""
    async with process(asks=["elicitation"]) as world:
        assert text(await world.call(asking("declared"))) == {"elicitation": {"form": {}, "url": {}}}
        assert text(await world.call(asking("declared", capabilities={"roots": {}}))) == {}
    async with process(park=False) as world:
        assert text(await world.call(asking("declared"))) == {}


async def test_several_questions_at_once_are_one_round_and_what_is_asked_afterwards_another() -> None:
    async def work(sent: Sent) -> Reply:
        for methods in ([ELICIT, SAMPLE, ROOTS], [ELICIT]):
            given = [sent.transport.ask(method) for method in methods]
            await asyncio.gather(*(each for each in given if isinstance(each, asyncio.Future)))
        return reply(content=[], structuredContent={"done": True})

    async with fake(Farm(but(LEGACY, {"tools/call": work}))) as world:
        made = asking()
        first = await world.call(made)
        assert questions(first) == [{"method": ELICIT}, {"method": SAMPLE}, {"method": ROOTS}]
        second = await world.call(answered(made, first, YES))
        assert questions(second) == [{"method": ELICIT}]
        assert structured(await world.call(answered(made, second, YES))) == {"done": True}


async def test_no_question_of_a_process_is_lost_in_however_many_rounds_it_comes() -> None:
    async with process() as world:
        made = asking(arguments={"rounds": [[ELICIT, SAMPLE, ROOTS], [ELICIT]]})
        outcome, asked = await world.call(made), 0
        for _ in range(4):
            if isinstance(outcome, InputRequired):
                asked += len(outcome.requests)
                outcome = await world.call(answered(made, outcome, YES))
        said = text(outcome)
        assert isinstance(said, list)
        assert (asked, [len(each) for each in said if isinstance(each, list)]) == (4, [3, 1])


async def test_a_question_waits_no_longer_than_a_moment_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions that come one by one, each within the grace of the last, do not hold up the first for ever."""
    monkeypatch.setattr(parking, "GRACE", 60.0)
    asked = asyncio.Event()

    async def work(sent: Sent) -> Reply:
        sent.transport.ask(ELICIT)
        await asked.wait()
        return await never(sent)

    async with fake(Farm(but(LEGACY, {"tools/call": work}))) as world:
        assert len(questions(await world.call(asking()))) == 1


async def test_a_server_that_asks_and_answers_in_one_breath_has_asked_nobody() -> None:
    async def work(sent: Sent) -> Reply:
        sent.transport.ask(ELICIT)
        return reply(content=[], structuredContent={"waited": False})

    async with fake(Farm(but(LEGACY, {"tools/call": work}))) as world:
        assert structured(await world.call(asking())) == {"waited": False}
        assert (len(world.parking), world.lapsed) == (0, [])


async def test_a_question_that_the_client_refuses_is_declined_and_the_call_goes_on() -> None:
    async with fake(curious(ELICIT, SAMPLE)) as world:
        made = asking()
        first = await world.call(made)
        assert isinstance(first, InputRequired)
        outcome = await world.call(answered(made, first, None, **dict.fromkeys(first.requests)))
        assert structured(outcome) == {"asked": 2, "declined": 0}
    assert decode_value(_value(declined(ELICIT, Roots()), "action")) == "cancel"
    assert decode_value(_value(declined(ROOTS, Roots()), "roots")) == []
    refusal = declined(SAMPLE, Roots())
    assert isinstance(refusal, ErrorObject)
    assert refusal.code == -32601


def _value(answer: object, key: str) -> bytes:
    assert isinstance(answer, dict)
    return bytes(answer[key])


@pytest.mark.parametrize("responses", [{}, {"other": YES}, {"ask-1": 7}, {"ask-1": "yes"}, {"ask-1": []}])
async def test_what_is_no_answer_is_asked_again_under_the_same_ticket(responses: Object) -> None:
    async with process() as world:
        made = asking()
        first = await world.call(made)
        again = await world.call(answered(made, first, None, **responses))
        assert again == first
        assert isinstance(await world.call(answered(made, again, YES)), Complete)


async def test_a_partial_answer_is_taken_and_the_rest_is_asked_again() -> None:
    async with fake(curious(ELICIT, SAMPLE, ROOTS)) as world:
        made = asking()
        first = await world.call(made)
        assert isinstance(first, InputRequired)
        second = await world.call(answered(made, first, None, **{"ask-1": YES}))
        assert isinstance(second, InputRequired)
        assert (list(second.requests), second.state) == (["ask-2", "ask-3"], first.state)
        no_roots: Object = {"roots": []}
        third = await world.call(answered(made, second, None, **{"ask-3": no_roots}))
        assert isinstance(third, InputRequired)
        assert (list(third.requests), third.state) == (["ask-2"], second.state)
        last = await world.call(answered(made, third, None, **{"ask-2": YES, "ask-3": YES}))
        assert structured(last) == {"asked": 3, "declined": 0}


# Tickets.


async def test_a_spent_ticket_gets_the_same_outcome_for_a_while() -> None:
    async with process("ledger=/dev/null") as world:
        made = asking(arguments={"rounds": [[ELICIT], [ELICIT]]})
        first = await world.call(made)
        second = await world.call(answered(made, first, YES))
        assert await world.call(answered(made, first, YES)) == second
        exchange, again, much_later = Exchange(), Exchange(), Exchange()
        last = await world.call(answered(made, second, YES), exchange)
        assert await world.call(answered(made, second, YES), again) == last
        assert (exchange.repeated, again.repeated) == (False, True)
        assert await world.call(answered(made, first, YES)) == second
        for ticket in world.parking.tickets.spent:
            world.parking.tickets.forget(ticket)
        gone = await world.call(answered(made, second, YES), much_later)
        assert isinstance(gone, Failure)
        assert (gone.reason, gone.may_have_run, gone.detail) == (Reason.UNAVAILABLE, True, "unknown_ticket")
        assert much_later.repeated
        assert "no longer waits for these answers" in gone.text


async def test_two_who_come_with_one_ticket_get_one_outcome_and_one_may_leave() -> None:
    release = asyncio.Event()

    async def work(sent: Sent) -> Reply:
        later = sent.transport.ask(ELICIT)
        assert isinstance(later, asyncio.Future)
        await later
        await release.wait()
        return reply(content=[], structuredContent={"done": True})

    async with fake(Farm(but(LEGACY, {"tools/call": work}))) as world:
        made = asking()
        first = await world.call(made)
        loop = asyncio.get_running_loop()
        exchanges = [Exchange(), Exchange()]
        one, two = (loop.create_task(world.call(answered(made, first, YES), each)) for each in exchanges)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        one.cancel()
        await asyncio.wait([one])
        release.set()
        assert structured(await two) == {"done": True}
        assert one.cancelled()
        # The one that stayed tells of the end, the other has none to tell of.
        assert [each.repeated for each in exchanges] == [True, False]


async def test_a_client_that_leaves_after_its_answer_cancels_the_call() -> None:
    async with process() as world:
        made = asking(arguments={"rounds": [[ELICIT]]})
        waiting = asking("sleep", {"seconds": 60})
        exchange = Exchange()
        task = asyncio.get_running_loop().create_task(world.call(waiting, exchange))
        await eventually(lambda: exchange.dispatched)
        task.cancel()
        await asyncio.wait([task])
        # The next call of the same connection waits until the server is past the cancellation.
        first = await world.call(made)
        assert isinstance(await world.call(answered(made, first, YES)), Complete)
        assert text(await world.call(asking("cancelled"))) != []


@pytest.mark.parametrize(
    "change",
    [
        {"principal": principal("other")},
        {"method": "prompts/get"},
        {"request_state": "parked-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"request_state": "1"},
        {"request_state": ""},
    ],
)
async def test_a_ticket_is_good_for_its_own_call_alone(change: dict[str, object]) -> None:
    """G063: whatever the client has, it cannot answer for somebody else."""
    async with process() as world:
        made = asking()
        first = await world.call(made)
        stolen = await world.call(replace(answered(made, first, YES), **change))  # type: ignore[arg-type]  # reason: fields of Call.
        assert isinstance(stolen, Failure)
        assert stolen.detail == "unknown_ticket"
        assert isinstance(await world.call(answered(made, first, YES)), Complete)


async def test_two_users_of_one_server_see_only_their_own_questions() -> None:
    """G063, S96."""
    async with process(isolation="shared") as world:
        mine, theirs = asking(arguments={"rounds": [[ELICIT], [SAMPLE]]}), asking(who="other")
        first, other = await asyncio.gather(world.call(mine), world.call(theirs))
        assert (len(questions(first)), len(questions(other))) == (1, 1)
        assert isinstance(await world.call(answered(theirs, other, YES)), Complete)
        second = await world.call(answered(mine, first, YES))
        assert questions(second) == [{"method": SAMPLE, "params": {"of": "q-1"}}]
        assert isinstance(await world.call(answered(mine, second, YES)), Complete)


# Whose question it is.


async def test_over_http_two_calls_of_one_connection_each_get_their_own_question() -> None:
    """S96: the stream tells, so that neither waits for the other."""
    made = McpServer("legacy", asks=(ELICIT,))
    async with web(made) as world:
        calls = [asking("echo", {"n": n}) for n in range(2)]
        outcomes = await asyncio.gather(*(world.call(each) for each in calls))
        assert [questions(each) for each in outcomes] == [[{"method": ELICIT, "params": {"n": n}}] for n in range(2)]
        for n in (1, 0):
            answer: Object = {"action": "accept", "content": {"word": str(n)}}
            said = structured(await world.call(answered(calls[n], outcomes[n], answer)))
            assert isinstance(said, dict)
            assert isinstance(said["given"], list)
            assert (said["of"], [each["result"] for each in said["given"] if isinstance(each, dict)]) == (
                {"n": n},
                [answer],
            )
        assert len(made.sessions) == 2


async def test_calls_on_one_pipe_take_turns_so_that_a_question_has_one_owner() -> None:
    release = asyncio.Event()

    async def work(sent: Sent) -> Reply:
        if len(sent.transport.of("tools/call")) == 1:
            await release.wait()
        return reply(content=[], structuredContent={"asked": isinstance(sent.transport.ask(ELICIT), asyncio.Future)})

    farm = Farm(but(LEGACY, {"tools/call": work}))
    async with fake(farm) as world:
        loop = asyncio.get_running_loop()
        one, two = (loop.create_task(world.call(asking())) for _ in range(2))
        await eventually(lambda: busy(farm))
        completion = await world.call(asking(method="completion/complete"))
        assert isinstance(completion, Complete)
        transport = busy(farm)
        assert transport is not None
        assert len(transport.of("tools/call")) == 1
        release.set()
        assert [structured(await each) for each in (one, two)] == [{"asked": True}] * 2
        assert len(transport.of("tools/call")) == 2


async def test_a_call_behind_one_that_waits_for_a_person_runs_on_a_second_process() -> None:
    """Its state is that of a fresh process; once the person has answered, calls go to the first one again."""
    async with process(idle_stop="300ms") as world:
        one, two = asking(arguments={"rounds": [[ELICIT]]}), asking(arguments={"rounds": [[SAMPLE]]})
        first, second = await world.call(one), await world.call(two)
        assert questions(second) == [{"method": SAMPLE, "params": {"of": "q-0"}}]
        assert len(questions(await world.call(two))) == 1
        assert world.pool.status()["a"].connections == 4
        answers, again = Exchange(), Exchange()
        assert isinstance(await world.call(answered(one, first, YES), answers), Complete)
        assert isinstance(await world.call(asking("echo"), again), Complete)
        assert answers.instance == again.instance
        assert isinstance(await world.call(answered(two, second, YES)), Complete)


async def test_calls_that_queue_behind_one_leave_when_it_begins_to_wait_for_a_person() -> None:
    release, asked = asyncio.Event(), itertools.count()

    async def work(sent: Sent) -> Reply:
        if next(asked) > 0:
            return reply(content=[], structuredContent={"by": farm.made.index(sent.transport)})
        await release.wait()
        later = sent.transport.ask(ELICIT)
        assert isinstance(later, asyncio.Future)
        await later
        return reply(content=[], structuredContent={"by": farm.made.index(sent.transport)})

    farm = Farm(but(LEGACY, {"tools/call": work}))
    async with fake(farm) as world:
        loop, made = asyncio.get_running_loop(), asking()
        one = loop.create_task(world.call(made))
        await eventually(lambda: busy(farm))
        others = [loop.create_task(world.call(asking())) for _ in range(3)]
        await eventually(lambda: len(world.slot.turns) == 3)
        release.set()
        first = await one
        assert [structured(await each) for each in others] == [{"by": 2}] * 3
        assert structured(await world.call(answered(made, first, YES))) == {"by": 1}
        assert structured(await world.call(asking())) == {"by": 1}


@pytest.mark.parametrize("config", [{"isolation": "shared"}, {"max_instances": 1}])
async def test_where_there_is_no_second_process_a_call_waits_its_turn(config: dict[str, object]) -> None:
    async with process(**config) as world:
        made = asking()
        first = await world.call(made)
        task = asyncio.get_running_loop().create_task(world.call(asking("echo")))
        completion = await world.call(asking(method="completion/complete"))
        assert isinstance(completion, Complete)
        assert not task.done()
        assert isinstance(await world.call(answered(made, first, YES)), Complete)
        assert isinstance(await task, Complete)


async def test_one_principal_has_only_so_many_processes_however_many_of_its_calls_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolation, "LANES", 2)
    farm = curious(ELICIT)
    async with fake(farm, max_instances=8, timeouts={"call": "200ms"}) as world:
        parked = [await world.call(asking()) for _ in range(2)]
        assert [len(questions(each)) for each in parked] == [1, 1]
        refused = await world.call(asking())
        assert isinstance(refused, Failure)
        assert refused.reason is Reason.OVERLOADED
        assert len(farm.made) == 3
        assert isinstance(await world.call(asking(who="other")), InputRequired)


async def test_a_call_that_waits_for_its_turn_ends_with_the_gateway() -> None:
    async with fake(curious(ELICIT), max_instances=1) as world:
        await world.call(asking())
        task = asyncio.get_running_loop().create_task(world.call(asking()))
        await eventually(lambda: world.pool.status()["a"].in_flight == 1)
        await world.pool.aclose()
        gone = await task
        assert isinstance(gone, Failure)
        assert (gone.reason, gone.may_have_run) == (Reason.UNAVAILABLE, False)


async def test_a_turn_that_does_not_come_is_refused_and_nothing_was_sent() -> None:
    async with process(timeouts={"call": "200ms"}, concurrency=1, max_instances=1) as world:
        made = asking()
        first = await world.call(made)
        exchange = Exchange()
        refused = await world.call(asking("echo"), exchange)
        assert isinstance(refused, Failure)
        assert (refused.reason, refused.may_have_run, exchange.dispatched) == (Reason.OVERLOADED, False, False)
        assert refused.text == (
            'Server "a" waits for the answer to a question of another of your calls; answer that one first. '
            "The call did not run. Try again later."
        )
        # The parked call has waited longer than a call may take, which is not held against it.
        assert isinstance(await world.call(answered(made, first, YES)), Complete)


async def test_a_question_outside_of_calls_is_declined_and_roots_are_the_last_known() -> None:
    """S96."""
    known: Object = {"roots": [{"uri": "file:///home"}]}
    farm = curious(ROOTS)
    async with fake(farm) as world:
        made = asking()
        first = await world.call(made)
        transport = busy(farm)
        assert transport is not None
        await world.call(answered(made, first, known))
        assert transport.ask(ROOTS) == {"roots": rawjson.raw(known["roots"])}
        assert transport.ask(ELICIT) == {"action": rawjson.raw("cancel")}
        refused = transport.ask(SAMPLE)
        assert isinstance(refused, ErrorObject)
        assert refused.code == -32601
        # Another principal has roots of its own.
        theirs = asking("declared", who="other")
        assert isinstance(await world.call(theirs), InputRequired)
        assert farm.made[-1] is not transport
        assert farm.made[-1].of("tools/call")


async def test_a_question_behind_a_cancelled_call_is_not_put_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """S96: until the server has answered a ping it may still be about the one that was cancelled."""
    monkeypatch.setattr(legacy, "_SETTLE", 0.05)
    asked: list[object] = []

    async def work(sent: Sent) -> Reply:
        if len(sent.transport.of("tools/call")) == 1:
            return await never(sent)
        asked.append(sent.transport.ask(ELICIT))
        return reply(content=[])

    pings = itertools.count()

    def ping(sent: Sent) -> Reply | Awaitable[Reply]:
        return never(sent) if next(pings) == 0 else reply()

    farm = Farm(but(LEGACY, {"tools/call": work, "ping": ping}))
    async with fake(farm) as world:
        task = asyncio.get_running_loop().create_task(world.call(asking()))
        await eventually(lambda: busy(farm))
        task.cancel()
        await asyncio.wait([task])
        assert isinstance(await world.call(asking()), Complete)
        assert not isinstance(asked[0], asyncio.Future)
        assert isinstance(await world.call(asking()), Complete)
        assert isinstance(asked[1], asyncio.Future)


async def test_what_asks_does_not_permit_is_refused_to_the_server_and_noted() -> None:
    """S97."""
    async with process(asks=["sampling"]) as world:
        exchange = Exchange()
        said = text(await world.call(asking(arguments={"rounds": [[ELICIT]]}), exchange))
        assert isinstance(said, list)
        assert "-32601" in str(said)
        assert exchange.notes == {"asks": "elicitation/create declined: asks does not permit it"}
    async with web(McpServer("legacy", asks=(ELICIT,)), asks=[]) as world:
        exchange = Exchange()
        assert "-32601" in str(structured(await world.call(asking("echo"), exchange)))
        assert exchange.notes == {"asks": "elicitation/create declined: asks does not permit it"}


# Ends.


async def test_a_client_that_never_returns_lets_the_call_be_cancelled_and_counted() -> None:
    async with process(timeouts={"asks": "100ms", "call": "5s"}) as world:
        made = asking()
        first = await world.call(made)
        await eventually(lambda: bool(world.lapsed) and len(world.parking) == 0)
        exchange = Exchange()
        late = await world.call(answered(made, first, YES), exchange)
        assert isinstance(late, Failure)
        assert (late.reason, late.may_have_run, exchange.repeated) == (Reason.TIMEOUT, True, True)
        assert "needed an answer of the client" in late.text
        assert world.lapsed == [replace(late, detail="the client never answered")]
        cancelled = text(await world.call(asking("cancelled")))
        assert isinstance(cancelled, list)
        assert len(cancelled) == 1


async def test_a_parked_call_that_is_given_up_is_cancelled_at_once() -> None:
    async with process() as world:
        made, exchange = asking(), Exchange()
        first = await world.call(made, exchange)
        exchange.abandon()
        again = Exchange()
        late = await world.call(answered(made, first, YES), again)
        assert isinstance(late, Failure)
        assert (late.reason, late.may_have_run) == (Reason.CANCELLED, True), late
        # Who gave it up tells of its end.
        assert (world.lapsed, again.repeated) == ([], True)
        cancelled = text(await world.call(asking("cancelled")))
        assert isinstance(cancelled, list)
        assert len(cancelled) == 1


async def test_a_server_that_ends_with_a_call_parked_on_it_fails_the_call() -> None:
    farm = curious(ELICIT)
    async with fake(farm) as world:
        made = asking()
        first = await world.call(made)
        transport = busy(farm)
        assert transport is not None
        transport.end()
        await eventually(lambda: bool(world.lapsed))
        exchange = Exchange()
        gone = await world.call(answered(made, first, YES), exchange)
        assert isinstance(gone, Failure)
        assert (gone.reason, gone.may_have_run, exchange.repeated) == (Reason.UNAVAILABLE, True, True)
        assert '"a"' in gone.text
        assert world.lapsed == [gone]


async def test_a_server_that_goes_on_without_an_answer_has_its_result_kept() -> None:
    """The log has the end when it comes, and whoever comes for it later has no part in that."""
    release = asyncio.Event()

    async def work(sent: Sent) -> Reply:
        later = sent.transport.ask(ELICIT)
        await release.wait()
        sent.transport.say("notifications/cancelled", requestId="q")
        assert isinstance(later, asyncio.Future)
        return reply(content=[], structuredContent={"waited": False})

    async with fake(Farm(but(LEGACY, {"tools/call": work}))) as world:
        made = asking()
        first = await world.call(made)
        assert questions(first) == [{"method": ELICIT}]
        release.set()
        await eventually(lambda: bool(world.lapsed))
        late = Exchange()
        assert structured(await world.call(answered(made, first, YES), late)) == {"waited": False}
        assert [structured(each) for each in world.lapsed] == [{"waited": False}]
        assert late.repeated


async def test_a_reload_lets_parked_calls_finish_on_their_old_connection() -> None:
    async with process() as world:
        made = asking()
        first = await world.call(made)
        world.pool.apply({"a": scripted("--era", "legacy", asks=ASKS, protocol="legacy", concurrency=7)})
        await eventually(lambda: world.pool._retiring)
        assert isinstance(await world.call(answered(made, first, YES)), Complete)
        await eventually(lambda: not world.pool._retiring)


async def test_a_parked_call_does_not_hold_up_the_end_of_the_gateway() -> None:
    async with process() as world:
        await world.call(asking())
        async with asyncio.timeout(WAIT):
            await world.pool.aclose()
        [end] = world.lapsed
        assert isinstance(end, Failure)
        assert end.reason is Reason.UNAVAILABLE


async def test_an_idle_connection_with_a_call_parked_on_it_is_in_use() -> None:
    async with process(idle_stop="50ms") as world:
        made = asking()
        first = await world.call(made)
        await asyncio.sleep(0.2)
        assert isinstance(await world.call(answered(made, first, YES)), Complete)


def reporting(parked: asyncio.Event, said: asyncio.Event) -> Farm:
    """Servers that report once a question is with the client, and after its answer."""

    async def work(sent: Sent) -> Reply:
        token = sent.meta["progressToken"]
        later = sent.transport.ask(ELICIT)
        assert isinstance(later, asyncio.Future)
        await parked.wait()
        sent.transport.say("notifications/progress", progressToken=token, progress=1)
        said.set()
        await later
        sent.transport.say("notifications/progress", progressToken=token, progress=2)
        return reply(content=[])

    return Farm(but(LEGACY, {"tools/call": work}))


async def test_progress_of_a_parked_call_reaches_a_client_that_stayed() -> None:
    async def ask(requests: object) -> Object:
        raise AssertionError

    parked, said = asyncio.Event(), asyncio.Event()
    async with fake(reporting(parked, said)) as world:
        client = Client()
        made, exchange = asking(progress_token="one"), client.exchange()
        exchange.ask = ask
        first = await world.call(made, exchange)
        parked.set()
        await said.wait()
        await world.call(answered(made, first, YES), exchange)
        assert [params["progress"] for _, params in client.heard] == [1, 2]


async def test_progress_of_a_parked_call_reaches_the_client_that_came_back() -> None:
    parked, said = asyncio.Event(), asyncio.Event()
    async with fake(reporting(parked, said)) as world:
        before, after = Client(), Client()
        made = asking(progress_token="one")
        first = await world.call(made, before.exchange())
        parked.set()
        await said.wait()
        await world.call(replace(answered(made, first, YES), progress_token="two"), after.exchange())
        assert before.heard == []
        assert after.heard == [("notifications/progress", {"progressToken": "two", "progress": 2})]


# Bounds.


async def test_a_principal_can_have_only_so_many_calls_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parking, "MAX_PER_PRINCIPAL", 2)
    made = McpServer("legacy", asks=(ELICIT,))
    async with web(made) as world:
        parked = [await world.call(asking("echo")) for _ in range(2)]
        assert len(world.parking) == 2
        third = structured(await world.call(asking("echo")))
        assert isinstance(third, dict)
        assert third["given"] == [{"jsonrpc": "2.0", "id": "3-0", "result": {"action": "cancel"}}]
        assert isinstance(await world.call(asking("echo", who="other")), InputRequired)
        assert isinstance(await world.call(answered(asking("echo"), parked[0], YES)), Complete)
        await eventually(lambda: len(world.parking) == 2)
        assert isinstance(await world.call(asking("echo")), InputRequired)


async def test_a_server_can_have_only_so_many_calls_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parking, "MAX_PER_SERVER", 1)
    async with web(McpServer("legacy", asks=(ELICIT,))) as world:
        assert isinstance(await world.call(asking("echo")), InputRequired)
        assert isinstance(await world.call(asking("echo", who="other")), Complete)


async def test_a_call_can_have_only_so_many_questions_open() -> None:
    given: list[object] = []

    async def work(sent: Sent) -> Reply:
        given.extend(sent.transport.ask(ELICIT) for _ in range(MAX_OPEN + 3))
        return await never(sent)

    async with fake(Farm(but(LEGACY, {"tools/call": work}))) as world:
        assert isinstance(await world.call(asking()), InputRequired)
        later: list[Later] = [each for each in given if isinstance(each, asyncio.Future)]
        assert (len(given), len(later)) == (MAX_OPEN + 3, MAX_OPEN)


@pytest.mark.parametrize(("name", "bound"), [("MAX_SPENT", 2), ("MAX_SPENT_BYTES", 200)])
async def test_only_so_many_spent_tickets_are_kept(name: str, bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, name, bound)
    async with process() as world:
        made = asking()
        spent = []
        for _ in range(4):
            spent.append(answered(made, await world.call(made), YES))
            assert isinstance(await world.call(spent[-1]), Complete)
        kept = [isinstance(await world.call(each), Complete) for each in spent]
        assert (kept[0], kept[-1]) == (False, True)
        assert len(world.parking.tickets.spent) <= 2
