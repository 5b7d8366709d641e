"""Outcomes as answers: results, refusals a model can read, errors with the status of their era (G104, S81)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.endpoint import reply
from gateway.endpoint.rejection import Rejection
from gateway.endpoint.reply import Answer
from gateway.errors import Reason
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.model.principal import ANONYMOUS
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject, Id
from gateway.protocol.versions import Era
from tests.kit.endpoint import moment


def asked(era: Era, method: str = "tools/call", identifier: Id = 1) -> Call:
    return Call("id", identifier, method, {}, Target(Kind.TOOL, "notes", "add"), ANONYMOUS, Caller(era, "v"))


def answered(outcome: Outcome, call: Call) -> tuple[int, dict[str, Any]]:
    answer = reply.of_outcome(moment(), call, Exchange(), outcome)
    message: dict[str, Any] = json.loads(answer.body)
    assert message["jsonrpc"] == "2.0"
    assert message["id"] == call.rpc_id
    assert type(message["id"]) is type(call.rpc_id)
    return answer.status, message


@pytest.mark.parametrize("identifier", [1, "1", 0, "", -5, "x" * 128])
def test_a_result_has_the_id_of_its_request_with_its_type(identifier: Id) -> None:
    """G043."""
    call = asked(Era.LEGACY, identifier=identifier)
    assert answered(Complete({"content": rawjson.raw([])}), call)[1]["result"] == {"content": []}


LIMITED = Failure(Reason.RATE_LIMITED, "Too much. It did not run. Wait.", retry_after_ms=250)


def test_a_refused_tool_call_is_a_result_in_both_eras() -> None:
    facts = {"reason": "rate_limited", "mayHaveRun": False, "retryAfterMs": 250}
    for era in Era:
        status, message = answered(LIMITED, asked(era))
        result = message["result"]
        assert (status, result["isError"]) == (200, True)
        assert result["content"] == [{"type": "text", "text": LIMITED.text}]
        assert result["_meta"]["dev.mcp-gateway/refusal"] == facts
        assert result.get("resultType") == ("complete" if era is Era.MODERN else None)


@pytest.mark.parametrize("era", Era)
@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.RATE_LIMITED, -31001),
        (Reason.UNAVAILABLE, -31002),
        (Reason.TIMEOUT, -31003),
        (Reason.PROTOCOL_ERROR, -31004),
        (Reason.TOO_LARGE, -31005),
        (Reason.AUDIT_UNAVAILABLE, -31006),
        (Reason.OVERLOADED, -31007),
        (Reason.DENIED, -31008),
    ],
)
def test_any_other_refusal_is_an_error_with_status_200(era: Era, reason: Reason, code: int) -> None:
    status, message = answered(Failure(reason, "text"), asked(era, "resources/read"))
    assert status == 200
    told = {"source": "gateway", "reason": reason.value, "mayHaveRun": False}
    assert message["error"] == {"code": code, "message": "text", "data": told}


@pytest.mark.parametrize("era", Era)
@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
def test_missing_scopes_are_a_challenge_that_names_all_of_them(era: Era, method: str) -> None:
    failure = Failure(Reason.DENIED, "text", scopes=frozenset({"crm.write", "crm.read"}))
    answer = reply.of_outcome(moment(), asked(era, method), Exchange(), failure)
    challenge = 'Bearer realm="mcp", error="insufficient_scope", scope="crm.read crm.write"'
    assert (answer.status, answer.headers) == (403, {"WWW-Authenticate": challenge})
    assert json.loads(answer.body)["error"]["code"] == -31008


def test_an_error_says_when_to_try_again() -> None:
    message = answered(LIMITED, asked(Era.MODERN, "prompts/get"))[1]
    assert message["error"]["data"]["retryAfterMs"] == 250


@pytest.mark.parametrize(
    ("era", "code", "status"),
    [
        (Era.MODERN, -32602, 400),
        (Era.MODERN, -32601, 404),
        (Era.MODERN, -7, 200),
        (Era.LEGACY, -32602, 200),
        (Era.LEGACY, -32601, 200),
    ],
)
def test_a_servers_error_passes_with_the_status_of_its_code(era: Era, code: int, status: int) -> None:
    error = ErrorObject(code, "m", rawjson.raw({"k": 1}))
    got, message = answered(Failure(Reason.PROTOCOL_ERROR, "", error=error), asked(era))
    assert (got, message["error"]) == (status, {"code": code, "message": "m", "data": {"k": 1}})


def test_a_servers_complaint_about_our_hop_is_a_refusal() -> None:
    message = answered(Failure(Reason.PROTOCOL_ERROR, "", error=ErrorObject(-32020, "m")), asked(Era.MODERN))[1]
    assert message["result"]["_meta"]["dev.mcp-gateway/refusal"]["reason"] == "protocol_error"


@pytest.mark.parametrize("outcome", [InputRequired({}, None), Started({})])
def test_what_no_client_was_offered_is_a_protocol_error(outcome: Outcome) -> None:
    facts = answered(outcome, asked(Era.MODERN))[1]["result"]["_meta"]["dev.mcp-gateway/refusal"]
    assert facts == {"reason": "protocol_error", "mayHaveRun": True}


def test_a_response_has_the_safe_headers_and_those_of_its_request() -> None:
    response = reply.respond(Answer(b"{}", 400, {"X-A": "1"}), {"Vary": "Origin"})
    assert (response.status, response.content_type, response.body) == (400, "application/json", b"{}")
    assert {response.headers[name] for name in ("X-A", "Vary", "Cache-Control")} == {"1", "Origin", "no-store"}


def test_an_answer_without_body_has_no_content_type() -> None:
    response = reply.respond(Answer(b"", 202), {})
    assert (response.status, response.body, "Content-Type" in response.headers) == (202, None, False)


def test_a_rejection_may_close_the_connection() -> None:
    assert reply.rejected(Rejection(400, -32600, "m", "r", close=True), {}).keep_alive is False
    assert reply.rejected(Rejection(404, None, "", "r", headers={"Allow": "GET"}), {}).headers["Allow"] == "GET"


@pytest.mark.parametrize(("era", "status"), [(Era.MODERN, 400), (Era.LEGACY, 200)])
def test_what_is_held_back_is_answered_like_an_unknown_name(era: Era, status: int) -> None:
    """S60, S137."""
    call = Call("id", 7, "tools/call", {}, Target(Kind.TOOL, "notes", "add"), ANONYMOUS, Caller(era, "v"), "n__add")
    hidden = Failure(Reason.DENIED, "", hidden=True, detail="changed since it was approved")
    assert answered(hidden, call) == (
        status,
        {"jsonrpc": "2.0", "id": 7, "error": {"code": -32602, "message": "Unknown tool: n__add"}},
    )
