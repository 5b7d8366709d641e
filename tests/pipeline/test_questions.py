"""Which questions a client can be asked."""

from __future__ import annotations

import pytest

from gateway.errors import Reason
from gateway.model.call import Call, Caller
from gateway.model.outcome import Failure, InputRequired
from gateway.pipeline.questions import declined, is_url_error, judge, methods_of, of_url_error
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Object, Raw, Value
from gateway.protocol.versions import Era
from tests.kit.calls import call

ALL: Object = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
FORM: Object = {"message": "m", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}


def question(method: str, **params: Value) -> Raw:
    return rawjson.raw({"method": method, "params": params})


def url(value: Value) -> Raw:
    return question("elicitation/create", mode="url", message="m", url=value)


@pytest.mark.parametrize(
    ("asked", "declared"),
    [
        (question("elicitation/create", **FORM), {"elicitation": {}}),
        (question("elicitation/create", mode="form", **FORM), {"elicitation": {"form": {}}}),
        (url("https://mcp.example.com/connect?x=1"), {"elicitation": {"url": {}}}),
        (url("http://localhost:8080/connect"), ALL),
        (url("http://[::1]/connect"), ALL),
        (question("sampling/createMessage", messages=[]), {"sampling": {}}),
        (question("sampling/createMessage", messages=[], tools=[]), {"sampling": {"tools": {}}}),
        (rawjson.raw({"method": "roots/list"}), {"roots": {"listChanged": True}}),
    ],
)
def test_what_the_client_declared_goes_to_it_byte_for_byte(asked: Raw, declared: Object) -> None:
    """S97."""
    judged = judge({"k": asked}, declared)
    assert judged.open == {"k": asked}
    assert judged.open["k"] is asked
    assert (judged.answered, judged.notes) == ({}, ())


@pytest.mark.parametrize(
    ("asked", "declared", "instead"),
    [
        (question("elicitation/create", **FORM), {}, {"action": "cancel"}),
        (question("elicitation/create", **FORM), {"elicitation": True}, {"action": "cancel"}),
        (question("elicitation/create", **FORM), {"elicitation": {"url": {}}}, {"action": "cancel"}),
        (question("elicitation/create", mode="voice"), ALL, {"action": "cancel"}),
        (url("https://a.example"), {"elicitation": {}}, {"action": "cancel"}),
        (question("sampling/createMessage", messages=[]), {"elicitation": {}}, None),
        (question("sampling/createMessage", tools=[]), {"sampling": {}}, None),
        (question("roots/list"), {"roots": []}, None),
        (question("tools/call"), ALL, None),
        (rawjson.raw({"method": 7}), ALL, None),
        (rawjson.raw([]), ALL, None),
    ],
)
def test_what_the_client_cannot_take_is_declined_in_its_place(asked: Raw, declared: Object, instead: Value) -> None:
    """S97."""
    judged = judge({"k": asked}, declared)
    assert judged.open == {}
    assert judged.answered == {"k": instead}
    assert len(judged.notes) == 1


@pytest.mark.parametrize(
    "value",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "http://evil.example/",
        "https://user@evil.example/",
        "https://user:pass@evil.example/",
        "https:///path",
        "https://a.example/ b",
        "https://a.example/\n",
        "https://[::1/",
        "//evil.example",
        "",
        None,
        7,
    ],
)
def test_nobody_is_sent_to_a_url_that_is_not_safe(value: Value) -> None:
    """S100."""
    judged = judge({"k": url(value)}, ALL)
    assert judged.open == {}
    assert judged.notes == ("elicitation/create declined: the URL is neither https nor loopback",)


@pytest.mark.parametrize("name", ["password", "apiKey", "api-key", "API_KEY", "otp", "userPIN", "clientSecret"])
def test_a_form_that_asks_for_a_secret_is_flagged(name: str) -> None:
    """S100: the question still goes to the client, and the record says what it was."""
    schema: Object = {"type": "object", "properties": {name: {"type": "string"}, "city": {"type": "string"}}}
    judged = judge({"k": question("elicitation/create", requestedSchema=schema)}, ALL)
    assert list(judged.open) == ["k"]
    assert judged.notes == (f"elicitation/create asks for {name}",)


@pytest.mark.parametrize("name", ["shopping", "opinion", "spinner", "passenger", "keyboard"])
def test_a_field_that_only_sounds_like_a_secret_is_not_flagged(name: str) -> None:
    schema: Object = {"type": "object", "properties": {name: {"type": "string"}}}
    assert judge({"k": question("elicitation/create", requestedSchema=schema)}, ALL).notes == ()


def test_questions_are_sorted_one_by_one() -> None:
    judged = judge({"a": question("roots/list"), "b": question("elicitation/create", **FORM)}, {"elicitation": {}})
    assert (list(judged.open), judged.answered) == (["b"], {"a": None})


def test_only_elicitation_has_a_word_for_no_answer() -> None:
    assert declined("elicitation/create") == {"action": "cancel"}
    assert declined("sampling/createMessage") is None
    assert methods_of([question("roots/list"), question("elicitation/create"), question("roots/list")]) == (
        "elicitation/create, roots/list"
    )


def url_error(*elicitations: Value) -> Failure:
    data = rawjson.raw({"elicitations": list(elicitations)})
    return Failure(Reason.PROTOCOL_ERROR, "", error=ErrorObject(-32042, "first open a page", data))


def caller(era: Era = Era.MODERN, capabilities: Object = ALL) -> Caller:
    return Caller(era, "v", capabilities=capabilities)


PAGE: Object = {"mode": "url", "elicitationId": "e1", "url": "https://a.example/", "message": "m"}


def test_a_page_that_a_legacy_server_wants_opened_first_is_a_question_to_a_modern_client() -> None:
    outcome = of_url_error(call(caller=caller()), url_error(PAGE), ["elicitation"])
    assert isinstance(outcome, InputRequired)
    assert outcome.state is None
    asked = {key: rawjson.decode_value(item) for key, item in outcome.requests.items()}
    assert asked == {"url-1": {"method": "elicitation/create", "params": PAGE}}
    opened = call(caller=caller(), input_responses={"url-1": {"action": "accept"}})
    assert isinstance(of_url_error(opened, url_error(PAGE), ["elicitation"]), InputRequired)


@pytest.mark.parametrize(
    ("asked", "failure", "asks"),
    [
        (call(caller=caller(Era.LEGACY)), url_error(PAGE), ["elicitation"]),
        (call(caller=caller()), url_error(PAGE), ["sampling"]),
        (call(caller=caller(capabilities={"elicitation": {}})), url_error(PAGE), ["elicitation"]),
        (call(caller=caller()), url_error(PAGE, {**PAGE, "url": "http://evil.example/"}), ["elicitation"]),
        (call(caller=caller()), url_error(), ["elicitation"]),
        (call(caller=caller()), url_error(7), ["elicitation"]),
        (call(caller=caller(), input_responses={"url-1": {"action": "decline"}}), url_error(PAGE), ["elicitation"]),
    ],
)
def test_else_the_error_stays_what_it_is(asked: Call, failure: Failure, asks: list[str]) -> None:
    assert is_url_error(failure)
    assert of_url_error(asked, failure, asks) is failure


def test_other_failures_are_no_questions() -> None:
    assert not is_url_error(Failure(Reason.TIMEOUT, ""))
    assert not is_url_error(Failure(Reason.PROTOCOL_ERROR, "", error=ErrorObject(-32000, "no")))
