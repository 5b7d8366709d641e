"""``_meta`` and headers of modern requests (S47, S70, S129)."""

from __future__ import annotations

import pytest

from gateway import __version__
from gateway.downstream.requests import (
    ParamHeaders,
    answers,
    call_meta,
    list_meta,
    modern_meta,
    param_annotations,
    standard_headers,
)
from gateway.model.call import Caller
from gateway.model.catalog import Definition, Kind
from gateway.protocol.headers import HeaderError
from gateway.protocol.rawjson import Object, encode
from gateway.protocol.versions import Era
from tests.kit.transport import TRACE, call

P = "io.modelcontextprotocol/"


def tool(schema: object) -> Definition:
    return Definition.parse(Kind.TOOL, encode({"name": "t", "inputSchema": schema}))


def test_meta_is_ours_whoever_the_client_is() -> None:
    made = call(
        caller=Caller(Era.MODERN, "2026-07-28", capabilities={"sampling": {}, "roots": {}}, info={"name": "evil"}),
        meta={"com.example/x": 1, P + "protocolVersion": "1900-01-01"},
        trace=TRACE,
        log_level="info",
    )
    assert modern_meta(made, "g1", ("roots",)) == {
        "com.example/x": 1,
        **TRACE,
        "progressToken": "g1",
        P + "protocolVersion": "2026-07-28",
        P + "clientInfo": {"name": "aiohttp-mcp-gateway", "version": __version__},
        P + "clientCapabilities": {"roots": {}},
        P + "logLevel": "info",
    }


def test_without_asks_no_capability_is_declared() -> None:
    made = call(caller=Caller(Era.MODERN, "2026-07-28", capabilities={"sampling": {}}))
    assert modern_meta(made, None, ())[P + "clientCapabilities"] == {}


def test_the_next_round_of_a_call_carries_what_it_has_to_and_no_more() -> None:
    """G137."""
    assert answers(call()) == {}
    assert answers(call(request_state="")) == {"requestState": ""}
    given: Object = {"k": {"action": "accept"}}
    assert answers(call(input_responses=given)) == {"inputResponses": given}


def test_legacy_meta_is_empty_without_a_reason() -> None:
    assert call_meta(call(), None) == {}
    assert call_meta(call(), "g1") == {"progressToken": "g1"}


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "städte"}, "=?base64?c3TDpGR0ZQ==?="),
        ("prompts/get", {"name": "p"}, "p"),
        ("resources/read", {"uri": "file:///x"}, "file:///x"),
        ("completion/complete", {"ref": {}}, None),
        ("tools/list", {}, None),
    ],
)
def test_standard_headers_mirror_the_body(method: str, params: Object, name: str | None) -> None:
    expected = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    assert standard_headers(method, params) == expected | ({} if name is None else {"Mcp-Name": name})


def test_param_headers_come_from_the_arguments() -> None:
    definition = tool({"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})
    rendered = ParamHeaders()
    for region, header in (("us-west1", "us-west1"), ("a\r\nX: y", "=?base64?YQ0KWDogeQ==?=")):
        made = call(params={"name": "t", "arguments": {"region": region}}, definition=definition)
        assert rendered.render(made) == {"Mcp-Param-Region": header}
    assert rendered.render(call(definition=definition)) == {}


def test_an_invalid_annotation_is_reported_and_renders_nothing() -> None:
    definition = tool({"properties": {"x": {"type": "number", "x-mcp-header": "X"}}})
    with pytest.raises(HeaderError):
        param_annotations(definition)
    assert ParamHeaders().render(call(definition=definition)) == {}


def test_only_tools_have_param_headers() -> None:
    definition = tool({"properties": {"x": {"type": "string", "x-mcp-header": "X"}}})
    made = call(method="prompts/get", params={"name": "p", "arguments": {"x": "1"}}, definition=definition)
    assert ParamHeaders().render(made) == {}
    assert param_annotations(Definition.parse(Kind.PROMPT, b'{"name":"p"}')) == ()


def test_the_memory_of_annotations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.downstream.requests._MAX_KNOWN", 2)
    rendered = ParamHeaders()
    for number in range(10):
        definition = tool({"properties": {f"x{number}": {"type": "integer", "x-mcp-header": f"X{number}"}}})
        made = call(params={"name": "t", "arguments": {f"x{number}": number}}, definition=definition)
        assert rendered.render(made) == {f"Mcp-Param-X{number}": str(number)}
        assert len(rendered._known) <= 2


def test_lists_are_asked_for_with_what_some_client_may_be_asked_for() -> None:
    declared = list_meta(("roots",))["io.modelcontextprotocol/clientCapabilities"]
    assert isinstance(declared, dict)
    assert declared.keys() == {"roots", "extensions"}
