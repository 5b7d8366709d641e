"""A call goes through its server's questions: asked here, declined here, or handed to a client that comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from gateway.audit.keys import AuditKey
from gateway.errors import Reason
from gateway.model.call import Call, Caller
from gateway.model.exchange import Exchange, InstanceFacts
from gateway.model.outcome import Failure, InputRequired, Outcome
from gateway.pipeline.account import Account
from gateway.pipeline.interceptor import Passage
from gateway.pipeline.questions import MAX_QUESTIONS
from gateway.pipeline.rounds import MAX_ROUNDS, Rounds, Terms
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Object, Raw
from gateway.protocol.versions import Era
from tests.kit.calls import OK, MemoryLog, call
from tests.kit.definitions import stdio

ELICIT = rawjson.raw({"method": "elicitation/create", "params": {"message": "m", "requestedSchema": {}}})
SAMPLE = rawjson.raw({"method": "sampling/createMessage", "params": {"messages": []}})
YES: Object = {"action": "accept", "content": {}}
CAPABILITIES: Object = {"elicitation": {}}


class Server:
    """Gives its outcomes one after the other, the last one for ever; keeps what it was called with."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.first = outcomes[0]
        self._outcomes = list(outcomes)
        self.calls: list[Call] = []

    async def __call__(self, call: Call, passage: Passage) -> Outcome:
        self.calls.append(call)
        return self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]


class Client:
    """Answers every question with the same; keeps what it was asked."""

    def __init__(self, answer: Object | None) -> None:
        self._answer = answer
        self.asked: list[Sequence[str]] = []

    async def __call__(self, questions: dict[str, Raw]) -> Object:
        self.asked.append(list(questions))
        return dict.fromkeys(questions, self._answer)


async def silent(questions: dict[str, Raw]) -> Object:
    await asyncio.Event().wait()
    return {}


def step(log: MemoryLog, patience: float = 5.0) -> Rounds:
    account = Account(log, AuditKey.of(b"k" * 32), "shape", "d" * 64)
    return Rounds(account, lambda server: Terms(patience, frozenset({"elicitation"})), lambda server: "recorded", 0.001)


def legacy(capabilities: Object | None = None) -> Call:
    declared = CAPABILITIES if capabilities is None else capabilities
    return call(caller=Caller(Era.LEGACY, "2025-11-25", capabilities=declared))


def modern(capabilities: Object | None = None) -> Call:
    declared = CAPABILITIES if capabilities is None else capabilities
    return call(caller=Caller(Era.MODERN, "2026-07-28", capabilities=declared))


async def test_a_client_that_can_be_asked_is_asked_and_the_call_goes_on() -> None:
    log, client = MemoryLog(), Client(YES)
    server = Server(InputRequired({"a": ELICIT, "b": ELICIT}, "s1"), InputRequired({"c": ELICIT}, "s2"), OK)
    way = Passage(Exchange(ask=client, instance=InstanceFacts("a", "stdio", "i", "f")))

    assert await step(log)(legacy(), way, server) is OK

    assert client.asked == [["a", "b"], ["c"]]
    assert [each.request_state for each in server.calls] == [None, "s1", "s2"]
    assert server.calls[1].input_responses == {"a": YES, "b": YES}
    assert server.calls[2].input_responses == {"c": YES}
    assert [each.round for each in server.calls] == [1, 2, 3]
    assert {each.id for each in server.calls} == {call().id}
    assert log.events == ["call.round", "call.round"]
    assert [entry["round"] for entry in log.entries] == [{"number": n, "held": True} for n in (1, 2)]
    downstream = log.entries[0]["downstream"]
    assert isinstance(downstream, dict)
    assert downstream["pin"] == "recorded"


async def test_questions_are_the_outcome_for_a_client_that_comes_back() -> None:
    log, server = MemoryLog(), Server(InputRequired({"a": ELICIT}, "s", held=True))
    outcome = await step(log)(modern(), Passage(Exchange()), server)
    assert outcome == InputRequired({"a": ELICIT}, "s", held=True)
    assert log.events == []


async def test_a_state_without_questions_is_the_outcome_for_a_client_that_comes_back() -> None:
    outcome = await step(MemoryLog())(modern(), Passage(Exchange()), Server(InputRequired({}, "s")))
    assert outcome == InputRequired({}, "s")


async def test_a_state_without_questions_is_tried_again_for_a_client_that_does_not() -> None:
    client = Client(YES)
    server = Server(InputRequired({}, "s1"), InputRequired({}, "s2"), OK)
    assert await step(MemoryLog())(legacy(), Passage(Exchange(ask=client)), server) is OK
    assert [(each.request_state, each.input_responses) for each in server.calls[1:]] == [("s1", {}), ("s2", {})]
    assert client.asked == []


async def test_what_the_client_cannot_take_is_declined_and_the_call_goes_on() -> None:
    """S97."""
    server, way = Server(InputRequired({"a": ELICIT}, "s"), OK), Passage(Exchange())
    assert await step(MemoryLog())(modern({}), way, server) is OK
    assert server.calls[1].input_responses == {"a": {"action": "cancel"}}
    assert way.exchange.notes["asks"] == "elicitation/create declined: the client cannot take it"


async def test_a_client_that_takes_some_gets_those_and_the_rest_is_remembered() -> None:
    server = Server(InputRequired({"a": ELICIT, "b": SAMPLE}, "s", held=True))
    outcome = await step(MemoryLog())(modern(), Passage(Exchange()), server)
    assert outcome == InputRequired({"a": ELICIT}, "s", held=True, answered={"b": None})


async def test_nobody_is_asked_in_vain_where_one_answer_can_have_no_substitute() -> None:
    """The server may not ask this at all; an answer of null is none (mrtr §InputResponses)."""
    for caller in (modern(), legacy()):
        server, client = Server(InputRequired({"a": ELICIT, "b": SAMPLE}, "s")), Client(YES)
        outcome = await step(MemoryLog())(caller, Passage(Exchange(ask=client)), server)
        assert isinstance(outcome, Failure)
        assert (outcome.reason, outcome.may_have_run) == (Reason.CANCELLED, True)
        assert "(sampling/createMessage)" in outcome.text
        assert (client.asked, len(server.calls)) == ([], 1)


async def test_without_a_stream_a_legacy_client_is_asked_nothing() -> None:
    server = Server(InputRequired({"a": ELICIT}, "s"), OK)
    assert await step(MemoryLog())(legacy(), Passage(Exchange()), server) is OK
    assert server.calls[1].input_responses == {"a": {"action": "cancel"}}


async def test_a_refused_answer_reaches_a_server_whose_request_is_open() -> None:
    server = Server(InputRequired({"a": SAMPLE}, "s", held=True), OK)
    way = Passage(Exchange(ask=Client(None)))
    assert await step(MemoryLog())(legacy({"sampling": {}}), way, server) is OK
    assert server.calls[1].input_responses == {"a": None}


async def test_a_refused_answer_that_has_no_words_ends_the_call() -> None:
    server = Server(InputRequired({"a": SAMPLE}, "s"), OK)
    way = Passage(Exchange(ask=Client(None)))
    outcome = await step(MemoryLog())(legacy({"sampling": {}}), way, server)
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.may_have_run) == (Reason.CANCELLED, True)
    assert "sampling/createMessage" in outcome.text
    assert len(server.calls) == 1


async def test_people_are_waited_for_only_as_long_as_configured() -> None:
    server = Server(InputRequired({"a": ELICIT}, "s"))
    outcome = await step(MemoryLog(), 0.01)(legacy(), Passage(Exchange(ask=silent)), server)
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.may_have_run) == (Reason.TIMEOUT, True)


async def test_an_open_request_is_given_up_when_nobody_will_answer_it() -> None:
    given_up: list[str] = []
    server = Server(InputRequired({"a": ELICIT}, "s", held=True))
    way = Passage(Exchange(ask=silent, abandon=lambda: given_up.append("late")))
    assert isinstance(await step(MemoryLog(), 0.01)(legacy(), way, server), Failure)
    assert given_up == ["late"]

    asked = asyncio.Event()

    async def asking(questions: dict[str, Raw]) -> Object:
        asked.set()
        return await silent(questions)

    way = Passage(Exchange(ask=asking, abandon=lambda: given_up.append("cancelled")))
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(step(MemoryLog())(legacy(), way, server))
        await asked.wait()
        task.cancel()
    assert given_up == ["late", "cancelled"]


async def test_an_open_request_waits_on_for_a_client_that_comes_back() -> None:
    given_up: list[str] = []
    way = Passage(Exchange(abandon=lambda: given_up.append("x")))
    await step(MemoryLog())(modern(), way, Server(InputRequired({"a": ELICIT}, "s", held=True)))
    assert given_up == []


async def test_a_server_that_never_stops_asking_is_stopped() -> None:
    client, server = Client(YES), Server(InputRequired({"a": ELICIT}, "s"))
    outcome = await step(MemoryLog())(legacy(), Passage(Exchange(ask=client)), server)
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.may_have_run) == (Reason.PROTOCOL_ERROR, True)
    assert len(client.asked) == MAX_ROUNDS


async def test_too_many_questions_at_once_are_not_asked() -> None:
    asked = {str(number): ELICIT for number in range(MAX_QUESTIONS + 1)}
    outcome = await step(MemoryLog())(modern(), Passage(Exchange()), Server(InputRequired(asked, "s")))
    assert isinstance(outcome, Failure)
    assert outcome.reason is Reason.PROTOCOL_ERROR


async def test_nobody_is_asked_what_cannot_be_recorded() -> None:
    """S158."""
    log, client = MemoryLog(), Client(YES)
    log.full = True
    outcome = await step(log)(legacy(), Passage(Exchange(ask=client)), Server(InputRequired({"a": ELICIT}, "s")))
    assert isinstance(outcome, Failure)
    assert outcome.reason is Reason.AUDIT_UNAVAILABLE
    assert client.asked == []


async def test_a_page_that_a_legacy_server_wants_opened_is_asked_of_a_modern_client() -> None:
    page: Object = {"mode": "url", "url": "https://a.example/", "message": "m"}
    error = ErrorObject(-32042, "open it", rawjson.raw({"elicitations": [page]}))
    server = Server(Failure(Reason.PROTOCOL_ERROR, "", error=error))
    outcome = await step(MemoryLog())(modern({"elicitation": {"url": {}}}), Passage(Exchange()), server)
    assert isinstance(outcome, InputRequired)
    assert await step(MemoryLog())(legacy(), Passage(Exchange()), server) is server.first


async def test_rounds_of_earlier_requests_are_counted_on() -> None:
    server = Server(InputRequired({"a": ELICIT}, "s"), OK)
    asked = replace(modern({}), round=4)
    way = Passage(Exchange(), rounds=4)
    assert await step(MemoryLog())(asked, way, server) is OK
    assert server.calls[1].round == 5
    assert way.rounds == 5


def test_the_terms_of_a_server_are_in_its_config() -> None:
    server = stdio(asks=["roots"])
    assert Terms.of(server) == Terms(600.0, frozenset({"roots"}))


async def test_a_call_that_no_server_answers_needs_no_terms_of_one() -> None:
    def unknown(server: str) -> Terms:
        raise KeyError(server)

    account = Account(MemoryLog(), AuditKey.of(b"k" * 32), "shape", "d" * 64)
    rounds = Rounds(account, unknown, lambda server: "recorded", 0.001)

    assert await rounds(legacy(), Passage(Exchange()), Server(OK)) is OK


async def test_people_who_were_waited_for_before_leave_less_time() -> None:
    class Silent:
        async def __call__(self, requests: dict[str, rawjson.Raw]) -> rawjson.Object:
            await asyncio.sleep(60)
            return {}

    way = Passage(Exchange(ask=Silent()), waited=5.0)
    async with asyncio.timeout(2):
        outcome = await step(MemoryLog(), 5.0)(legacy(), way, Server(InputRequired({"a": ELICIT}, "s")))
    assert isinstance(outcome, Failure)
    assert outcome.reason is Reason.TIMEOUT


async def test_a_call_that_is_refused_on_its_way_back_is_given_up() -> None:
    """S139: its client's only request ends with the refusal, and nobody comes for the call that its server holds."""
    given_up: list[bool] = []
    refusal = Failure(Reason.DENIED, "", hidden=True)
    way = Passage(Exchange(ask=Client(YES), abandon=lambda: given_up.append(True)))
    server = Server(InputRequired({"a": ELICIT}, "s", held=True), refusal)
    assert await step(MemoryLog())(legacy(), way, server) is refusal
    assert given_up == [True]
    fine = Passage(Exchange(ask=Client(YES), abandon=lambda: given_up.append(True)))
    assert await step(MemoryLog())(legacy(), fine, Server(InputRequired({"a": ELICIT}, "s", held=True), OK)) is OK
    assert given_up == [True]
