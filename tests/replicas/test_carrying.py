"""Calls and outcomes as letters: what arrives is what was sent, and nothing else is taken for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.errors import Reason
from gateway.model.call import Beyond, Call, Caller, Target, TaskRef
from gateway.model.catalog import Definition, Kind
from gateway.model.exchange import Exchange, InstanceFacts
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.model.principal import Principal
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import JsonError, Members
from gateway.protocol.versions import Era
from gateway.replicas import carrying
from tests.kit.transport import call, members

WHOLE = Call(
    id="01ARZ3NDEKTSV4RRFFQ69G5FAV",
    rpc_id="seven",
    method="tools/call",
    params={"name": "n", "arguments": {"big": 10**30, "float": 1.0, "text": "ü\u2028", "list": [None, True, {}]}},
    target=Target(Kind.TOOL, "server", "n", {"readOnlyHint": True}),
    principal=Principal(
        "sub:i/s",
        "jwt",
        "label",
        frozenset({"g"}),
        frozenset({"a", "b"}),
        {"dept": ["x"]},
        "cred",
        1.5,
        "terms",
        "secret-token",
    ),
    caller=Caller(Era.LEGACY, "2025-11-25", "10.0.0.1", "session", {"elicitation": {}}, {"name": "c"}, "view"),
    exposed="server__n",
    definition=Definition(Kind.TOOL, "n", members(name="n", inputSchema={}), "digest", {"title": "t"}, ("ui://a",)),
    meta={"own": 1},
    trace={"traceparent": "00-a-b-01"},
    progress_token=3,
    log_level="info",
    input_responses={"one": {"action": "accept"}, "two": None},
    request_state="parked-x",
    round=3,
    task=TaskRef("t", "shown", "pid:1#1", "0123456789ab"),
)
FACTS = InstanceFacts("server", "stdio", "pid:1#1", "f00d", "Product/1", "ok", "0123456789ab")


def travelled(said: object) -> Members:
    return rawjson.decode_members(rawjson.encode(said))


@pytest.mark.parametrize(
    "made",
    [WHOLE, call(), replace(call(), target=Target(Beyond.METHOD, "server", "x/y"), params={"any": [1]})],
    ids=["everything", "little", "extension"],
)
def test_a_call_arrives_as_it_was(made: Call) -> None:
    refusals = {"one": ErrorObject(-1, "no", rawjson.raw({"why": 1})), "two": ErrorObject(-2, "never")}
    read = carrying.read_call(travelled(carrying.of_call(made, Exchange(refusals=refusals))))
    # The definition's members are texts, which are no values to compare.
    assert rawjson.encode(read.call.definition) == rawjson.encode(made.definition)
    assert replace(read.call, definition=None) == replace(made, definition=None)
    assert {key: (error.code, error.message) for key, error in read.refusals.items()} == {
        "one": (-1, "no"),
        "two": (-2, "never"),
    }
    assert read.refusals["two"].data is None


OUTCOMES: list[Outcome] = [
    Complete(members(content=[{"type": "text", "text": "ü"}], structuredContent={"big": 10**30})),
    Started(members(task={"taskId": "t"})),
    InputRequired(members(one={"method": "elicitation/create"}), "state", True, {"two": None}, members(own=1)),
    InputRequired({}, None),
    Failure(Reason.TIMEOUT, "text", True, 5, None, "detail", frozenset({"s"}), True, "approval"),
    Failure(Reason.PROTOCOL_ERROR, "text", error=ErrorObject(-32000, "no", rawjson.raw({"n": [1]}))),
    Failure(Reason.PROTOCOL_ERROR, "text", error=ErrorObject(-32000, "no")),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_an_outcome_arrives_as_it_was(outcome: Outcome) -> None:
    read = carrying.read_outcome(travelled(carrying.of_outcome(outcome)))
    assert type(read) is type(outcome)
    assert rawjson.encode(read) == rawjson.encode(outcome)


def test_how_a_call_went_is_told_to_the_replica_that_asked() -> None:
    there, here = Exchange(repeated=True, instance=FACTS, notes={"asks": "x"}), Exchange(notes={"own": "y"})
    there.mark_dispatched()
    carrying.note_exchange(travelled(carrying.of_exchange(there)), here)
    assert (here.repeated, here.dispatched, here.instance) == (True, True, FACTS)
    assert here.notes == {"own": "y", "asks": "x"}


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"call": 1, "refusals": {}},
        {"call": {}, "refusals": {}},
        {"call": rawjson.raw(WHOLE)},
        {"call": rawjson.Raw(rawjson.encode(WHOLE).replace(b'"kind":"tool"', b'"kind":"other"')), "refusals": {}},
        {"call": rawjson.Raw(rawjson.encode(WHOLE).replace(b'"round":3', b'"round":"3"')), "refusals": {}},
        {"call": rawjson.Raw(rawjson.encode(WHOLE).replace(b'"meta":{"own":1}', b'"meta":[]')), "refusals": {}},
    ],
)
def test_what_is_no_call_is_not_taken_for_one(said: object) -> None:
    with pytest.raises(JsonError):
        carrying.read_call(travelled(said))


@pytest.mark.parametrize("said", [{}, {"sort": "other", "outcome": {}}, {"sort": "complete", "outcome": {"result": 1}}])
def test_what_is_no_outcome_is_not_taken_for_one(said: object) -> None:
    with pytest.raises(JsonError):
        carrying.read_outcome(travelled(said))
    with pytest.raises(JsonError):
        carrying.note_exchange(travelled(said), Exchange())
