"""Whose rules apply, and the modern ladder up to the method (S29, G067, G124, G136), as pure functions."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pytest

from gateway.endpoint import classify
from gateway.errors import RequestError
from gateway.protocol.jsonrpc import Request
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.versions import Era
from tests.kit.definitions import tool

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
META: Object = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
HEADERS = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "a__b"}


def call(meta: Value = META, name: Value = "a__b", method: str = "tools/call") -> Request:
    return Request(1, method, {"name": name, "_meta": meta})


@pytest.mark.parametrize(
    ("version", "params", "era"),
    [
        (None, {}, Era.LEGACY),
        ("2025-03-26", {}, Era.LEGACY),
        ("2025-11-25", {}, Era.LEGACY),
        ("2026-07-28", {}, Era.MODERN),
        ("1999-01-01", {}, Era.MODERN),
        ("2024-11-05", {}, Era.MODERN),
        ("", {}, Era.MODERN),
        (None, {"_meta": {VERSION_KEY: 7}}, Era.MODERN),
        ("2025-11-25", {"_meta": {CAPABILITIES_KEY: None}}, Era.MODERN),
        (None, {"_meta": {"progressToken": 1}}, Era.LEGACY),
        (None, {"_meta": "x"}, Era.LEGACY),
    ],
)
def test_an_era_is_told_by_meta_or_by_the_version_header(version: str | None, params: Object, era: Era) -> None:
    received = {} if version is None else {"mcp-protocol-version": version}
    assert classify.era_of(received, params) is era


def code_of(request: Request, received: Mapping[str, str] = HEADERS) -> int:
    try:
        classify.modern(request, received)
    except RequestError as error:
        return error.code
    return 0


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in HEADERS.items() if key != name}


@pytest.mark.parametrize(
    "meta",
    [
        {CAPABILITIES_KEY: {}},
        {VERSION_KEY: "2026-07-28"},
        {},
        None,
        "x",
        {VERSION_KEY: 20260728, CAPABILITIES_KEY: {}},
        {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: []},
        {**META, "io.modelcontextprotocol/clientInfo": "x"},
        {**META, "io.modelcontextprotocol/logLevel": "loud"},
        {**META, "progressToken": 1.5},
        {**META, "a": "x" * 5000},
    ],
)
def test_required_meta_comes_first(meta: Value) -> None:
    assert code_of(call(meta), {}) == -32602


@pytest.mark.parametrize(
    "received",
    [
        {},
        without("mcp-protocol-version"),
        without("mcp-method"),
        without("mcp-name"),
        HEADERS | {"mcp-protocol-version": "2025-11-25"},
        HEADERS | {"mcp-method": "TOOLS/CALL"},
        HEADERS | {"mcp-name": "A__B"},
        HEADERS | {"mcp-name": "a__delete"},
        HEADERS | {"mcp-name": "=?base64?YV9fYg?="},
        HEADERS | {"mcp-name": "=?base64?SGVs!!!bG8=?="},
        HEADERS | {"mcp-name": "=?base64?YV9fYh==?="},
        HEADERS | {"mcp-name": "=?BASE64?YV9fYg==?="},
    ],
)
def test_standard_headers_must_be_there_and_equal_the_body(received: dict[str, str]) -> None:
    assert code_of(call(), received) == -32020


@pytest.mark.parametrize("name", ["a__b", "  a__b\t", "=?base64?YV9fYg==?="])
def test_a_name_may_be_padded_or_encoded(name: str) -> None:
    assert code_of(call(), HEADERS | {"mcp-name": name}) == 0


@pytest.mark.parametrize("name", ["ünï", "=?base64?x?=", " x", "a\nb"])
def test_a_name_that_no_header_can_hold_is_compared_decoded(name: str) -> None:
    encoded = f"=?base64?{base64.b64encode(name.encode()).decode()}?="
    assert code_of(call(name=name), HEADERS | {"mcp-name": encoded}) == 0


def test_an_absent_body_value_is_no_mismatch() -> None:
    request = Request(1, "tools/call", {"_meta": META})
    assert code_of(request, without("mcp-name")) == 0


def test_the_version_comes_after_the_headers_and_names_what_is_supported() -> None:
    request = call({**META, VERSION_KEY: "2025-11-25"})
    with pytest.raises(RequestError) as caught:
        classify.modern(request, HEADERS | {"mcp-protocol-version": "2025-11-25"})
    assert caught.value.code == -32022
    assert caught.value.data == {
        "supported": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"],
        "requested": "2025-11-25",
    }


def test_a_long_version_is_cut_before_it_is_echoed() -> None:
    version = "9" * 4000
    with pytest.raises(RequestError) as caught:
        classify.modern(call({**META, VERSION_KEY: version}), HEADERS | {"mcp-protocol-version": version})
    assert caught.value.data is not None
    assert len(str(caught.value.data["requested"])) == classify.SHOWN


@pytest.mark.parametrize(
    "method", ["tools/nope", "a b", "initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/list"]
)
def test_a_method_of_another_era_or_of_none_is_not_found(method: str) -> None:
    assert code_of(call(method=method), HEADERS | {"mcp-method": method}) == -32601


def test_a_method_that_only_an_extension_can_have_goes_on_to_where_its_server_is_sought() -> None:
    row, _ = classify.modern(call(method="search/run"), HEADERS | {"mcp-method": "search/run"})
    assert (row.name, row.opaque) == ("search/run", True)


def test_a_good_request_gives_its_row_and_what_meta_said() -> None:
    row, told = classify.modern(call({**META, "own": 1, "progressToken": "t"}), HEADERS)
    assert (row.name, told.extra, told.progress_token) == ("tools/call", {"own": 1}, "t")


@pytest.mark.parametrize(
    ("era", "code", "status"),
    [(Era.MODERN, -32601, 404), (Era.MODERN, -32602, 400), (Era.LEGACY, -32601, 200), (Era.LEGACY, -32602, 200)],
)
def test_the_status_of_an_error_follows_from_code_and_era(era: Era, code: int, status: int) -> None:
    rejection = classify.fault(era, RequestError(code, "m", {"k": 1}), "7", "r").rejection
    assert (rejection.status, rejection.code, rejection.id, rejection.data) == (status, code, "7", {"k": 1})


def test_a_request_without_id_is_refused_in_both_eras() -> None:
    rejection = classify.without_id().rejection
    assert (rejection.status, rejection.code, rejection.id) == (400, -32600, None)


REGION = tool(
    "t",
    inputSchema={
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
        },
    },
)


@pytest.mark.parametrize(
    ("arguments", "received", "good"),
    [
        ({"region": "eu"}, {"mcp-param-region": "eu"}, True),
        ({"region": "eu"}, {}, False),
        ({"region": "eu"}, {"mcp-param-region": "us"}, False),
        ({"region": "eu"}, {"mcp-param-region": "=?base64?ZXU=?="}, True),
        ({"region": "eu"}, {"mcp-param-region": "=?base64?ZXU?="}, False),
        ({"region": None}, {}, True),
        ({}, {}, True),
        ({"count": 42}, {"mcp-param-count": "42.0"}, True),
        ({"count": 42}, {"mcp-param-count": "43"}, False),
        ({}, {"mcp-param-other": "x"}, True),
    ],
)
def test_mirrored_arguments_must_equal_the_body(arguments: Object, received: dict[str, str], good: bool) -> None:
    if good:
        classify.param_headers(REGION, arguments, received)
        return
    with pytest.raises(RequestError) as caught:
        classify.param_headers(REGION, arguments, received)
    assert caught.value.code == -32020


@pytest.mark.parametrize(
    "definition",
    [tool("t"), tool("t", inputSchema={"properties": {"a": {"type": "number", "x-mcp-header": "A"}}})],
    ids=["no annotation", "a broken annotation"],
)
def test_a_tool_that_mirrors_nothing_is_not_compared(definition: object) -> None:
    assert isinstance(definition, type(REGION))
    classify.param_headers(definition, {"a": 1}, {"mcp-param-a": "2"})
