"""Servers' own errors for either era (G094, G140; contract: Servers' own errors)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.endpoint import faults
from gateway.errors import Reason
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Kind
from gateway.model.outcome import Failure
from gateway.model.principal import ANONYMOUS
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era

READ, CALL = "resources/read", "tools/call"


def asked(era: Era, method: str = CALL, capabilities: Object | None = None) -> Call:
    caller = Caller(era, "v", capabilities=capabilities or {})
    return Call("id", 1, method, {}, Target(Kind.TOOL, "notes", "add"), ANONYMOUS, caller, "x://y")


def shown(era: Era, code: int, method: str = CALL, server: str = "legacy", data: object = None) -> tuple[int, object]:
    raw = None if data is None else rawjson.raw(data)
    error = faults.of_server(asked(era, method), ErrorObject(code, "m", raw), server)
    assert isinstance(error, ErrorObject)
    assert error.message == "m"
    return error.code, None if error.data is None else json.loads(rawjson.raw_bytes(error.data))


@pytest.mark.parametrize("era", Era)
@pytest.mark.parametrize("code", [-32601, -32602, -32603, -1, 5, -32000, -32010, -31999])
def test_codes_with_a_meaning_of_their_own_pass_with_message_and_data(era: Era, code: int) -> None:
    assert shown(era, code, data={"k": [1]}) == (code, {"k": [1]})


@pytest.mark.parametrize(
    ("data", "expected"),
    [(None, {"uri": "x://y"}), ({"k": 1}, {"k": 1, "uri": "x://y"}), ([1], {"uri": "x://y"})],
)
def test_a_legacy_missing_resource_has_the_modern_code_and_names_the_uri(data: object, expected: object) -> None:
    assert shown(Era.MODERN, -32002, READ, data=data) == (-32602, expected)


@pytest.mark.parametrize(("server", "code"), [("modern", -32002), ("legacy", -32602), ("", -32602)])
def test_a_modern_missing_resource_has_the_legacy_code(server: str, code: int) -> None:
    assert shown(Era.LEGACY, -32602, READ, server, {"uri": "x"}) == (code, {"uri": "x"})
    assert shown(Era.LEGACY, -32602, CALL, server)[0] == -32602


@pytest.mark.parametrize("code", [-32023, -32050, -32099, -32042, -32002])
def test_codes_modern_clients_must_not_see_are_wrapped_whole(code: int) -> None:
    expected = {
        "source": "gateway",
        "reason": "protocol_error",
        "server": {"code": code, "message": "m", "data": {"k": 1}},
    }
    assert shown(Era.MODERN, code, data={"k": 1}) == (-31004, expected)
    assert shown(Era.LEGACY, code, data={"k": 1}) == (code, {"k": 1})


def test_an_error_without_data_is_wrapped_without() -> None:
    assert shown(Era.MODERN, -32050) == (
        -31004,
        {"source": "gateway", "reason": "protocol_error", "server": {"code": -32050, "message": "m"}},
    )


@pytest.mark.parametrize("era", Era)
@pytest.mark.parametrize("code", [-32020, -32022])
def test_complaints_about_our_hop_are_ours(era: Era, code: int) -> None:
    failure = faults.of_server(asked(era), ErrorObject(code, "secret"), "modern")
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.may_have_run) == (Reason.PROTOCOL_ERROR, False)
    assert "secret" not in failure.text


@pytest.mark.parametrize(
    ("declared", "required", "relayed"),
    [
        ({}, {"requiredCapabilities": {"elicitation": {}}}, True),
        ({"elicitation": {}}, {"requiredCapabilities": {"elicitation": {}}}, False),
        ({"elicitation": {}}, {"requiredCapabilities": {"elicitation": {}, "sampling": {}}}, True),
        ({"elicitation": {}}, {"requiredCapabilities": ["elicitation"]}, True),
        ({"elicitation": {}}, None, True),
        ({"elicitation": {}}, "x", True),
    ],
)
def test_a_missing_capability_is_relayed_only_if_the_client_lacks_it(
    declared: Object, required: object, relayed: bool
) -> None:
    data = None if required is None else rawjson.raw(required)
    error = ErrorObject(-32021, "m", data)
    found = faults.of_server(asked(Era.MODERN, capabilities=declared), error, "modern")
    if relayed:
        assert found is error
    else:
        assert isinstance(found, Failure)
        assert found.reason is Reason.DENIED
        assert "asks" in found.text


def test_unreadable_data_is_no_capability() -> None:
    error = ErrorObject(-32021, "m", rawjson.Raw(b"{"))
    assert faults.of_server(asked(Era.MODERN), error, "modern") is error


@pytest.mark.parametrize(
    ("kind", "era", "code", "message", "data"),
    [
        (Kind.TOOL, Era.MODERN, -32602, "Unknown tool: x://y", None),
        (Kind.PROMPT, Era.LEGACY, -32602, "Unknown prompt: x://y", None),
        (Kind.RESOURCE, Era.MODERN, -32602, "Resource not found", {"uri": "x://y"}),
        (Kind.TEMPLATE, Era.LEGACY, -32002, "Resource not found", {"uri": "x://y"}),
    ],
)
def test_what_is_unknown_hidden_or_held_back_has_one_answer(
    kind: Kind, era: Era, code: int, message: str, data: object
) -> None:
    """S60."""
    error = faults.unknown(replace(asked(era), target=Target(kind, "notes", "own")))
    assert (error.code, error.message) == (code, message)
    assert (None if error.data is None else json.loads(rawjson.raw_bytes(error.data))) == data


@pytest.mark.parametrize("extension", ["io.modelcontextprotocol/oauth-client-credentials", "com.example/search"])
def test_an_extension_that_the_client_has_and_the_gateway_keeps_back_is_the_gateways_fault(extension: str) -> None:
    needed = rawjson.raw({"requiredCapabilities": {"extensions": {extension: {}}}})
    error = ErrorObject(-32021, "m", needed)
    assert faults.of_server(asked(Era.MODERN), error, "modern") is error
    declared: Object = {"extensions": {extension: {}}}
    fitted = faults.of_server(asked(Era.MODERN, capabilities=declared), error, "modern")
    if extension.startswith("com."):
        assert fitted is error
    else:
        assert isinstance(fitted, Failure)
        assert (fitted.reason, extension in fitted.text) == (Reason.DENIED, True)
