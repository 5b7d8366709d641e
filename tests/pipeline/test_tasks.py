"""A task's questions, judged each time its client looks at it."""

from __future__ import annotations

from dataclasses import replace

from gateway.errors import Reason
from gateway.model.call import Call, TaskRef
from gateway.model.outcome import Complete, Failure, Outcome
from gateway.pipeline.interceptor import Passage
from gateway.pipeline.tasks import TaskQuestions
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object, Value
from tests.kit.calls import call, passage, read, result

FORM: Value = {"method": "elicitation/create", "params": {"mode": "form", "message": "m"}}
PAGE: Value = {"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://a.example"}}
TOOLS: Value = {"method": "sampling/createMessage", "params": {"tools": []}}


class Server:
    """Answers a look with a state, and an update with whatever the test says."""

    def __init__(self, state: Complete, update: Outcome | None = None) -> None:
        self.state = state
        self.update = update or result(resultType="complete")
        self.calls: list[Call] = []

    async def __call__(self, call: Call, passage: Passage) -> Outcome:
        self.calls.append(call)
        return self.state if call.method == "tasks/get" else self.update


def look(capabilities: Object, method: str = "tasks/get") -> Call:
    made = call(method=method, params={"taskId": "own"}, task=TaskRef("own", "sealed"))
    return replace(made, caller=replace(made.caller, capabilities=capabilities))


def waiting(questions: Value) -> Complete:
    return result(taskId="own", status="input_required", inputRequests=questions)


async def test_questions_that_a_client_can_take_are_shown_to_it() -> None:
    server = Server(waiting({"a": FORM}))
    outcome = await TaskQuestions()(look({"elicitation": {}}), passage(), server)
    assert isinstance(outcome, Complete)
    assert read(outcome.result, "inputRequests") == {"a": FORM}
    assert [each.method for each in server.calls] == ["tasks/get"]


async def test_a_question_that_it_cannot_take_is_answered_by_an_update() -> None:
    """S100."""
    server, way = Server(waiting({"a": FORM, "b": PAGE})), passage()
    outcome = await TaskQuestions()(look({"elicitation": {}}), way, server)
    assert isinstance(outcome, Complete)
    assert read(outcome.result, "inputRequests") == {"a": FORM}
    assert [each.method for each in server.calls] == ["tasks/get", "tasks/update"]
    assert server.calls[1].params == {"taskId": "own", "inputResponses": {"b": {"action": "cancel"}}}
    assert "declined" in way.exchange.notes["asks"]


async def test_a_question_without_a_word_for_no_ends_the_look() -> None:
    server = Server(waiting({"a": TOOLS}))
    outcome = await TaskQuestions()(look({"sampling": {}}), passage(), server)
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.may_have_run) == (Reason.CANCELLED, True)
    assert len(server.calls) == 1


async def test_an_update_that_fails_is_what_the_client_hears() -> None:
    gone = Failure(Reason.UNAVAILABLE, "gone")
    outcome = await TaskQuestions()(look({"elicitation": {}}), passage(), Server(waiting({"b": PAGE}), gone))
    assert outcome is gone


async def test_questions_that_cannot_be_read_are_the_servers_fault() -> None:
    outcome = await TaskQuestions()(look({"elicitation": {}}), passage(), Server(waiting([1])))
    assert isinstance(outcome, Failure)
    assert outcome.reason is Reason.PROTOCOL_ERROR


async def test_everything_else_passes_by_identity() -> None:
    state = result(taskId="own", status="working")
    assert await TaskQuestions()(look({}), passage(), Server(state)) is state
    other = Complete({"status": rawjson.raw("input_required"), "inputRequests": rawjson.raw({"a": FORM})})
    assert await TaskQuestions()(look({}, "tasks/cancel"), passage(), Server(state, other)) is other
    failed = Failure(Reason.TIMEOUT, "late")
    assert await TaskQuestions()(look({}, "tools/call"), passage(), Server(state, failed)) is failed
