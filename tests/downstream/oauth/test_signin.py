from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.config.servers import Server
from gateway.downstream.oauth import signin
from gateway.downstream.oauth.credentials import Credentials, Desk
from gateway.downstream.oauth.errors import ConsentNeeded
from gateway.downstream.oauth.token import Token
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object, Value
from gateway.tasks import TaskSet
from tests.kit.calls import call as a_call
from tests.kit.definitions import tool

DONE = Complete({})
ACCEPT: Object = {"action": "accept"}


def no_crash(name: str, error: BaseException) -> None:
    raise AssertionError(name) from error


def credentials(per: str = "principal") -> Credentials:
    server = Server.model_validate({"url": "http://127.0.0.1:1/mcp", "auth": {"authorization_code": {"per": per}}})
    return Credentials("a", server, Desk(), TaskSet(no_crash))


class Behind:
    """What is behind: wants a sign-in until the principal's bearer has a token."""

    def __init__(self, of: Credentials) -> None:
        self.of = of
        self.calls: list[Call] = []

    async def __call__(self, asked: Call) -> Outcome:
        self.calls.append(asked)
        if not self.of.bearer(asked.principal).has_token:
            raise ConsentNeeded("sign in", "ticket")
        return DONE


def questions(outcome: Outcome) -> tuple[dict[str, Value], str | None]:
    assert isinstance(outcome, InputRequired), outcome
    return {key: rawjson.peek(item) for key, item in outcome.requests.items()}, outcome.state


def answered(asked: Call, state: str | None, **answers: Value) -> Call:
    return replace(asked, request_state=state, input_responses=answers, round=asked.round + 1)


def with_code(code: str) -> Object:
    return {"action": "accept", "content": {signin.CODE: code}}


def params(question: Value) -> Object:
    assert isinstance(question, dict)
    found = question["params"]
    assert isinstance(found, dict)
    return found


async def test_a_call_waits_for_its_principal_to_sign_in_and_then_goes_on() -> None:
    own = credentials()
    server, asked = Behind(own), a_call()
    page, state = questions(await signin.call(own, asked, server))
    assert params(page[signin.PAGE])["mode"] == "url"
    second = answered(asked, state, **{signin.PAGE: ACCEPT})
    form, state = questions(await signin.call(own, second, server))
    assert params(form[signin.CODE])["mode"] == "form"
    assert len(server.calls) == 1, "the server hears nothing of it"
    code = await own.bearer(asked.principal).receive(Token("t", "i", "r"))
    third = answered(second, state, **{signin.CODE: with_code(code)})
    assert await signin.call(own, third, server) is DONE
    assert (server.calls[-1].request_state, server.calls[-1].input_responses) == (None, None)


async def test_a_wrong_code_is_asked_for_again_while_a_consent_waits() -> None:
    own = credentials()
    server, asked = Behind(own), a_call()
    await own.bearer(asked.principal).receive(Token("t", "i", "r"))
    wrong = with_code("AAAA-AAAA")
    state: str | None = "dev.mcp-gateway/sign-in:code"
    for _ in range(2):
        form, state = questions(await signin.call(own, answered(asked, state, **{signin.CODE: wrong}), server))
        assert "not the code" in str(params(form[signin.CODE])["message"])
    last = await signin.call(own, answered(asked, state, **{signin.CODE: wrong}), server)
    assert isinstance(last, Failure)
    assert server.calls == []


@pytest.mark.parametrize("answer", [None, {"action": "decline"}, {"action": "cancel"}, "yes"])
@pytest.mark.parametrize("key", [signin.PAGE, signin.CODE])
async def test_who_does_not_sign_in_is_told_what_to_do(key: str, answer: Value) -> None:
    own = credentials()
    server = Behind(own)
    step = "page" if key == signin.PAGE else "code"
    outcome = await signin.call(own, answered(a_call(), f"dev.mcp-gateway/sign-in:{step}", **{key: answer}), server)
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.may_have_run) == (Reason.UNAVAILABLE, False)
    assert "Call again" in outcome.text
    assert server.calls == []


async def test_a_sign_in_that_ends_in_the_middle_of_a_servers_own_questions_ends_the_call() -> None:
    own = credentials()
    outcome = await signin.call(own, replace(a_call(), request_state="the-servers", round=2), Behind(own))
    assert isinstance(outcome, Failure)
    assert "in the middle of the call" in outcome.text


async def test_where_an_operator_signs_in_callers_are_not_asked() -> None:
    own = credentials("server")

    async def send(asked: Call) -> Outcome:
        raise ConsentNeeded("an operator must", "ticket")

    with pytest.raises(ConsentNeeded):
        await signin.call(own, a_call(), send)


async def test_a_state_that_looks_like_ours_means_nothing_to_a_server_without_sign_ins() -> None:
    own = credentials("server")
    seen: list[Call] = []

    async def send(asked: Call) -> Outcome:
        seen.append(asked)
        return DONE

    odd = replace(a_call(), request_state="dev.mcp-gateway/sign-in:code", input_responses={})
    assert await signin.call(own, odd, send) is DONE
    assert seen == [odd]


def test_the_tool_to_sign_in_is_told_from_a_servers_own_of_that_name() -> None:
    asked = a_call(signin.TOOL)
    assert signin.is_tool(replace(asked, definition=signin.tool("a")))
    assert not signin.is_tool(asked)
    assert not signin.is_tool(replace(asked, definition=tool(signin.TOOL)))
    assert not signin.is_tool(a_call("other", definition=signin.tool("a")))
    assert signin.tool("b") != signin.tool("a")
