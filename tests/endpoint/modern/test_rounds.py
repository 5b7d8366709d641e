"""A modern client's rounds: what it is asked, the state that it keeps, and the request that comes back with it."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.endpoint.modern.rounds import LIFETIME, MAX_STATE, StateRejected, asking, resumed
from gateway.errors import RequestError
from gateway.model.call import Call, Target
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange, InstanceFacts
from gateway.model.outcome import InputRequired
from gateway.model.principal import Principal
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object
from gateway.state.sealing import Sealer
from tests.kit.calls import call as made
from tests.kit.endpoint import moment

QUESTION: Object = {"method": "elicitation/create", "params": {"mode": "form", "message": "m", "x-own": [1.50]}}
YES: Object = {"action": "accept", "content": {"a": 1}}


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def call(**changes: object) -> Call:
    return made("add", "notes", {"z": 1.5, "a": [True]}, **changes)


def result(sealer: Sealer, asked: InputRequired, asker: Call | None = None) -> dict[str, Any]:
    exchange = Exchange(instance=InstanceFacts("notes", "stdio", "pid:1", "f00d", pin="ok"))
    answer = asking(sealer, moment(), asker or call(), exchange, asked)
    assert answer.status == 200
    found: dict[str, Any] = json.loads(answer.body)["result"]
    return found


def ask(requests: Object | None = None, state: str | None = "own state") -> InputRequired:
    items = {"k": QUESTION} if requests is None else requests
    return InputRequired({key: rawjson.raw(item) for key, item in items.items()}, state)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sealer(clock: Clock) -> Sealer:
    return Sealer([b"k" * 32], clock)


def test_the_questions_go_out_as_they_came_with_a_state_of_ours(sealer: Sealer) -> None:
    found = result(sealer, ask())
    assert found["resultType"] == "input_required"
    assert found["inputRequests"] == {"k": QUESTION}
    assert "own state" not in base64.urlsafe_b64decode(found["requestState"] + "==").decode("latin-1")
    assert found["_meta"]["dev.mcp-gateway/instance"] == {"server": "notes", "fingerprint": "f00d", "pin": "ok"}
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "aiohttp-mcp-gateway"


def test_without_questions_there_is_only_a_state(sealer: Sealer) -> None:
    assert "inputRequests" not in result(sealer, ask({}))


@pytest.mark.parametrize("state", ["own state", "", None])
def test_the_server_gets_exactly_what_it_gave(sealer: Sealer, state: str | None) -> None:
    """G137: also where it gave nothing."""
    token = result(sealer, ask(state=state))["requestState"]
    fresh = call(id="01BX5ZZKBKACTAV9WEVGEMMVRZ", rpc_id=2)
    again = resumed(sealer, fresh, {"requestState": token, "inputResponses": {"k": YES}})
    assert again == replace(fresh, id=call().id, round=2, request_state=state, input_responses={"k": YES})


def test_what_the_gateway_answered_itself_is_added_and_cannot_be_changed(sealer: Sealer) -> None:
    asked = replace(ask(), answered={"other": None})
    token = result(sealer, asked)["requestState"]
    again = resumed(sealer, call(), {"requestState": token, "inputResponses": {"k": YES, "other": YES}})
    assert again.input_responses == {"k": YES, "other": None}


def test_rounds_are_counted_through(sealer: Sealer) -> None:
    token = result(sealer, ask(), call(round=4))["requestState"]
    assert resumed(sealer, call(), {"requestState": token}).round == 5


def test_an_answer_that_is_no_object_is_none(sealer: Sealer) -> None:
    token = result(sealer, ask())["requestState"]
    given: Object = {"k": None, "l": 7, "m": "x", "n": []}
    assert resumed(sealer, call(), {"requestState": token, "inputResponses": given}).input_responses == {}


def test_answers_without_a_state_travel_with_a_new_call(sealer: Sealer) -> None:
    new = resumed(sealer, call(), {"inputResponses": {"k": YES, "l": 7}})

    assert new == replace(call(), input_responses={"k": YES})
    assert new.round == 1
    assert resumed(sealer, call(), {}) == call()


@pytest.mark.parametrize("given", [7, None, [], "x"])
def test_answers_that_are_no_object_are_refused(sealer: Sealer, given: Any) -> None:
    with pytest.raises(RequestError) as caught:
        resumed(sealer, call(), {"inputResponses": given})
    assert caught.value.code == -32602


def flipped(token: str) -> list[str]:
    """Return the token with one bit changed, at every position."""
    data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    changed = [bytes([*data[:at], data[at] ^ 1, *data[at + 1 :]]) for at in range(len(data))]
    return [base64.urlsafe_b64encode(each).decode().rstrip("=") for each in changed]


def test_a_state_with_any_bit_changed_is_rejected(sealer: Sealer) -> None:
    """S98."""
    for token in flipped(result(sealer, ask())["requestState"]):
        with pytest.raises(StateRejected):
            resumed(sealer, call(), {"requestState": token})


CALLER = call().caller


@pytest.mark.parametrize(
    "other",
    [
        call(principal=Principal("key:eve", "key", "eve")),
        call(caller=replace(CALLER, view="v")),
        call(target=Target(Kind.TOOL, "other", "add")),
        call(target=Target(Kind.TOOL, "notes", "region")),
        call(target=Target(Kind.PROMPT, "notes", "add")),
        call(method="prompts/get"),
        call(params={"name": "add", "arguments": {"z": 1.5, "a": [False]}}),
        call(params={"name": "add"}),
    ],
)
def test_a_state_of_anything_else_is_rejected(sealer: Sealer, other: Call) -> None:
    """S98: another principal, view, server, tool, method, other arguments: all alike."""
    token = result(sealer, ask())["requestState"]
    with pytest.raises(StateRejected) as caught:
        resumed(sealer, other, {"requestState": token})
    assert (caught.value.code, caught.value.message) == (-32602, "Invalid or expired requestState")


def test_the_order_of_arguments_does_not_matter(sealer: Sealer) -> None:
    token = result(sealer, ask())["requestState"]
    same = call(params={"arguments": {"a": [True], "z": 1.5}, "name": "add"})
    assert resumed(sealer, same, {"requestState": token}).round == 2


def test_a_state_is_good_for_ten_minutes_and_with_one_gateway(sealer: Sealer, clock: Clock) -> None:
    """S98."""
    token = result(sealer, ask())["requestState"]
    with pytest.raises(StateRejected):
        resumed(Sealer([b"x" * 32], clock), call(), {"requestState": token})
    clock.now += LIFETIME - 1
    assert resumed(sealer, call(), {"requestState": token}).round == 2
    clock.now += 2
    with pytest.raises(StateRejected):
        resumed(sealer, call(), {"requestState": token})


@pytest.mark.parametrize("token", ["", "x", "ü", 7, None, {}, "A" * 3_000_000])
def test_what_is_no_state_at_all_is_rejected(sealer: Sealer, token: Any) -> None:
    with pytest.raises(StateRejected):
        resumed(sealer, call(), {"requestState": token})


def test_a_key_that_was_rotated_out_of_front_still_opens(clock: Clock) -> None:
    """S98."""
    token = result(Sealer([b"k" * 32], clock), ask())["requestState"]
    assert resumed(Sealer([b"n" * 32, b"k" * 32], clock), call(), {"requestState": token}).round == 2


def test_a_state_too_large_to_come_back_ends_the_call(sealer: Sealer) -> None:
    found = result(sealer, ask(state="x" * MAX_STATE))
    assert found["_meta"]["dev.mcp-gateway/refusal"]["reason"] == "too_large"
    assert "requestState" in result(sealer, ask(state="x" * (MAX_STATE - 200)))


def test_reserved_meta_of_a_question_stays_on_the_servers_hop(sealer: Sealer) -> None:
    params: Object = {"message": "m", "_meta": {"progressToken": 1, "example.com/x": 2}}
    found = result(sealer, ask({"k": {"method": "elicitation/create", "params": params}}))
    assert found["inputRequests"]["k"]["params"]["_meta"] == {"example.com/x": 2}
