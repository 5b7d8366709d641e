"""From request to call: names looked up whole, known members only, hidden like unknown (S27, S60, G092)."""

from __future__ import annotations

import pytest

from gateway.endpoint.build import Asked, UnknownTarget, build, known
from gateway.errors import RequestError
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Kind
from gateway.model.principal import ANONYMOUS
from gateway.protocol import methods
from gateway.protocol.jsonrpc import Request
from gateway.protocol.meta import RequestMeta
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.versions import Era
from tests.kit.definitions import definition
from tests.kit.endpoint import NOTES, FakeMoment, moment

OTHER = (
    definition(Kind.RESOURCE, "note://one"),
    definition(Kind.RESOURCE, "log://x"),
    definition(Kind.TEMPLATE, "log://{d}"),
)


def built(method: str, params: Object, now: FakeMoment | None = None, era: Era = Era.MODERN) -> Call:
    told = RequestMeta(extra={"own": 1}, trace={"traceparent": "00-x"}, progress_token="p")
    asked = Asked(ANONYMOUS, Caller(era, "v"), told, "info")
    return build(now or moment(), Request("7", method, params), methods.METHODS[method], asked)


def failed(method: str, params: Object, now: FakeMoment | None = None, era: Era = Era.MODERN) -> RequestError:
    with pytest.raises(RequestError) as caught:
        built(method, params, now, era)
    return caught.value


def test_a_tool_call_names_the_servers_own_tool_and_keeps_the_exposed_name() -> None:
    call = built("tools/call", {"name": "notes__add", "arguments": {"a": 1}, "extra": 2, "_meta": {}})
    assert call.target == Target(Kind.TOOL, "notes", "add")
    assert call.params == {"name": "add", "arguments": {"a": 1}}
    assert (call.exposed, call.rpc_id, call.method) == ("notes__add", "7", "tools/call")
    assert (call.meta, call.trace, call.progress_token, call.log_level) == (
        {"own": 1},
        {"traceparent": "00-x"},
        "p",
        "info",
    )
    assert call.definition is NOTES[0]
    assert len(call.id) == 26


def test_absent_arguments_stay_absent() -> None:
    assert built("tools/call", {"name": "notes__add"}).params == {"name": "add"}


@pytest.mark.parametrize("arguments", [None, [], "x", 1, True])
@pytest.mark.parametrize(("method", "name"), [("tools/call", "notes__add"), ("prompts/get", "notes__greet")])
def test_arguments_that_are_no_object_are_invalid(method: str, name: str, arguments: Value) -> None:
    assert failed(method, {"name": name, "arguments": arguments}).code == -32602


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": 7}),
        ("tools/call", {"name": "notes__add", "Name": "x"}),
        ("tools/call", {"name": "notes__add", "ARGUMENTS": {}}),
        ("tools/call", {"name": "notes__add", "_META": {}}),
        ("resources/read", {"uri": None}),
        ("resources/read", {"URI": "note://one", "uri": "note://one"}),
        ("completion/complete", {}),
        ("completion/complete", {"ref": {"type": "ref/other"}, "argument": {"name": "a", "value": "b"}}),
        ("completion/complete", {"ref": {"type": "ref/prompt"}, "argument": {"name": "a", "value": "b"}}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "notes__greet"}, "argument": {"name": "a"}}),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "notes__greet"},
                "argument": {"name": "a", "value": "b"},
                "context": 1,
            },
        ),
    ],
)
def test_params_of_the_wrong_shape_are_invalid(method: str, params: Object) -> None:
    error = failed(method, params)
    assert (error.code, isinstance(error, UnknownTarget)) == (-32602, False)


@pytest.mark.parametrize(
    "name",
    [
        "nope",
        "notes__nope",
        "NOTES__ADD",
        "notes__add\n",
        "add",
        "",
        "ｎotes__add",
        "notes__",
        "notes__add\u200b",
        "x" * 500,
    ],
)
def test_a_name_that_is_not_exactly_one_is_unknown(name: str) -> None:
    """T09: by table, never by splitting or normalising."""
    error = failed("tools/call", {"name": name})
    assert isinstance(error, UnknownTarget)
    assert error.code == -32602
    assert error.message.startswith("Unknown tool: ")
    assert len(error.message) <= len("Unknown tool: ") + 128
    assert error.call.target == Target(Kind.TOOL, "", name)


def test_hidden_and_unknown_names_have_the_same_answer() -> None:
    """S60."""
    hidden = moment()
    hidden.hides = lambda principal, target: target.name in ("add", "greet") or target.name.startswith("note://")
    asked: list[tuple[str, Object]] = [
        ("tools/call", {"name": "notes__add"}),
        ("prompts/get", {"name": "notes__greet"}),
        ("resources/read", {"uri": "note://one"}),
    ]
    for method, params in asked:
        plain = moment(lists={"notes": ()})
        for era in Era:
            here, there = failed(method, params, hidden, era), failed(method, params, plain, era)
            assert (here.code, here.message, here.data) == (there.code, there.message, there.data)


def test_a_name_is_escaped_where_it_is_shown() -> None:
    assert failed("prompts/get", {"name": "a\n\x1b[31m"}).message == "Unknown prompt: a\\n\\x1b[31m"


def test_a_resource_is_found_by_its_uri() -> None:
    call = built("resources/read", {"uri": "note://one"})
    assert (call.target, call.exposed) == (Target(Kind.RESOURCE, "notes", "note://one"), "note://one")
    assert call.definition is NOTES[3]


def test_a_resource_of_a_template_has_no_definition() -> None:
    call = built("resources/read", {"uri": "note://2"})
    assert (call.target.name, call.definition) == ("note://2", None)


def test_a_resource_may_be_named_with_its_server() -> None:
    call = built("resources/read", {"uri": "notes+note://one"})
    assert (call.params, call.exposed) == ({"uri": "note://one"}, "notes+note://one")


@pytest.mark.parametrize(("era", "code"), [(Era.MODERN, -32602), (Era.LEGACY, -32002)])
def test_an_unknown_resource_has_the_code_of_its_era(era: Era, code: int) -> None:
    """G140."""
    error = failed("resources/read", {"uri": "x://y"}, era=era)
    assert (error.code, error.message, error.data) == (code, "Resource not found", {"uri": "x://y"})


def test_a_uri_of_several_servers_asks_for_the_server() -> None:
    now = moment(lists={"notes": NOTES, "other": OTHER})
    error = failed("resources/read", {"uri": "note://one"}, now)
    assert (error.code, error.data) == (-32602, {"uri": "note://one", "servers": ["notes", "other"]})
    assert built("resources/read", {"uri": "other+note://one"}, now).target.server == "other"


ARGUMENT: Object = {"name": "a", "value": "b"}


def test_a_completion_of_a_prompt_goes_to_its_server_under_its_own_name() -> None:
    params: Object = {
        "ref": {"type": "ref/prompt", "name": "notes__greet", "title": "T", "x": 1},
        "argument": {**ARGUMENT, "x": 1},
        "context": {"arguments": {"c": "d"}, "x": 1},
    }
    call = built("completion/complete", params)
    assert call.target == Target(Kind.PROMPT, "notes", "greet")
    assert call.params == {
        "ref": {"type": "ref/prompt", "name": "greet"},
        "argument": ARGUMENT,
        "context": {"arguments": {"c": "d"}},
    }


@pytest.mark.parametrize("uri", ["log://{d}", "other+log://{d}"])
def test_a_completion_of_a_template_is_found_by_its_text(uri: str) -> None:
    now = moment(lists={"notes": NOTES, "other": OTHER})
    call = built("completion/complete", {"ref": {"type": "ref/resource", "uri": uri}, "argument": ARGUMENT}, now)
    assert call.target == Target(Kind.TEMPLATE, "other", "log://{d}")
    assert call.params["ref"] == {"type": "ref/resource", "uri": "log://{d}"}


def test_a_completion_of_a_resource_is_found_like_a_read() -> None:
    call = built("completion/complete", {"ref": {"type": "ref/resource", "uri": "note://one"}, "argument": ARGUMENT})
    assert call.target == Target(Kind.RESOURCE, "notes", "note://one")


def test_a_completion_of_something_unknown_is_unknown() -> None:
    error = failed("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": ARGUMENT})
    assert isinstance(error, UnknownTarget)


def test_members_of_rounds_and_tasks_are_no_part_of_what_is_sent_on() -> None:
    more: Object = {"requestState": "x", "inputResponses": {}, "task": {}}
    for era in Era:
        call = built("tools/call", {"name": "notes__add", **more}, era=era)
        assert call.params == {"name": "add"}
        assert (call.round, call.request_state, call.input_responses) == (1, None, None)


def test_only_known_members_are_kept() -> None:
    assert known({"a": 1, "b": 2, "_meta": {}}, ("a", "c")) == {"a": 1}
