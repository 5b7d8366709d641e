"""``_meta``: what a request's says, what is consumed, what travels on (2026-07-28 basic/index §_meta, S70, G052)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocol import meta, rawjson
from gateway.protocol.meta import MetaError, RequestMeta
from gateway.protocol.rawjson import Object, Value

PARENT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"


def read(**keys: Value) -> RequestMeta:
    return meta.read({"_meta": dict(keys)})


def test_every_field_of_a_modern_request_is_read() -> None:
    told = meta.read(
        {
            "name": "a",
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
                "io.modelcontextprotocol/logLevel": "warning",
                "progressToken": 0,
                "traceparent": PARENT,
                "tracestate": "a=1,b=2",
                "baggage": "user=42",
                "com.example/trace": {"x": [1]},
                "plain": "y",
            },
        }
    )
    assert told == RequestMeta(
        version="2026-07-28",
        capabilities={"sampling": {}},
        client_info={"name": "c", "version": "1"},
        log_level="warning",
        progress_token=0,
        trace={"traceparent": PARENT, "tracestate": "a=1,b=2"},
        extra={"com.example/trace": {"x": [1]}, "plain": "y"},
    )


def test_a_request_without_meta_says_nothing() -> None:
    assert meta.read({}) == RequestMeta()
    assert meta.read({"_meta": {}}) == RequestMeta()


@pytest.mark.parametrize("value", [None, [], "a", 1, True])
def test_meta_is_an_object(value: Value) -> None:
    with pytest.raises(MetaError, match="must be an object"):
        meta.read({"_meta": value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (meta.PROTOCOL_VERSION, 20260728),
        (meta.PROTOCOL_VERSION, ["2026-07-28"]),
        (meta.CLIENT_INFO, "client"),
        (meta.CLIENT_CAPABILITIES, []),
        (meta.CLIENT_CAPABILITIES, True),
        (meta.LOG_LEVEL, 3),
        (meta.LOG_LEVEL, "verbose"),
        (meta.LOG_LEVEL, "Info"),
        (meta.PROGRESS_TOKEN, True),
        (meta.PROGRESS_TOKEN, 1.0),
        (meta.PROGRESS_TOKEN, []),
        (meta.PROGRESS_TOKEN, "x" * 257),
    ],
)
def test_a_known_key_of_another_type_is_refused_by_name(key: str, value: Value) -> None:
    with pytest.raises(MetaError, match=key):
        meta.read({"_meta": {key: value}})


@pytest.mark.parametrize("token", [0, 1, -1, "", "0", "x" * 256, 2**63 - 1])
def test_a_progress_token_keeps_its_type(token: int | str) -> None:
    told = read(progressToken=token)
    assert told.progress_token == token
    assert type(told.progress_token) is type(token)


@pytest.mark.parametrize("level", meta.LOG_LEVELS)
def test_the_levels_are_those_of_syslog(level: str) -> None:
    assert meta.read({"_meta": {meta.LOG_LEVEL: level}}).log_level == level
    assert meta.LOG_LEVELS.index("debug") < meta.LOG_LEVELS.index("emergency")


@pytest.mark.parametrize(
    "key",
    [
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/subscriptionId",
        "io.modelcontextprotocol/serverInfo",
        "io.modelcontextprotocol/related-task",
        "io.modelcontextprotocol/",
        "io.modelcontextprotocol/a/b\nc",
        "dev.mcp/",
        "dev.mcp/x",
        "org.modelcontextprotocol.api/x",
        "com.mcp.tools/x",
        "a-1.mcp.b-2.c/x",
        "progressToken",
        "traceparent",
        "tracestate",
        "baggage",
        "dev.mcp-gateway/instance",
        "dev.mcp-gateway/refusal",
        "dev.mcp-gateway/anything",
    ],
)
def test_reserved_keys_and_ours_do_not_travel(key: str) -> None:
    """S70. The gateway's own keys are not reserved by the specification, but nobody else may speak with them."""
    value: Value = {} if key.endswith(("Info", "Capabilities")) else "v"
    assert meta.read({"_meta": {key: value}}).extra == {}
    members = {key: rawjson.raw(value), "com.example/kept": rawjson.raw(1)}
    assert list(meta.strip_reserved(members)) == ["com.example/kept"]
    assert meta.strip_reserved(members, frozenset({key})) == members


@pytest.mark.parametrize(
    "key",
    [
        "com.example.mcp/x",
        "com.example/x",
        "mcp/x",
        "modelcontextprotocol/x",
        "io.mcpx/x",
        "io.modelcontextprotocol",
        "io..mcp/x",
        "1o.mcp/x",
        "x/io.mcp/y",
        "dev.mcp-gateway",
        "dev.mcp-gateways/x",
        "progress-token",
        "",
    ],
)
def test_all_other_keys_travel(key: str) -> None:
    """G052: ``com.example.mcp/`` is not reserved, its second label is ``example``."""
    assert meta.read({"_meta": {key: [1]}}).extra == {key: [1]}
    assert meta.strip_reserved({key: rawjson.raw(1)}) == {key: rawjson.raw(1)}


@pytest.mark.parametrize(
    "key",
    [
        "io.modelcontextprotocol/protocolversion",
        "IO.ModelContextProtocol/clientCapabilities",
        "progresstoken",
        "ProgressToken",
        "TraceParent",
        "Dev.MCP-Gateway/instance",
        "progre\u017f\u017ftoken",
    ],
)
def test_a_known_key_in_another_case_is_refused(key: str) -> None:
    """S27: a receiver that ignores case would take it for the known one."""
    with pytest.raises(MetaError, match="only by case"):
        meta.read({"_meta": {key: "x"}})


def test_sixteen_keys_of_a_client_travel_and_seventeen_do_not() -> None:
    keys: Object = {f"com.example/{n}": n for n in range(16)}
    reserved: Object = {f"io.modelcontextprotocol/{n}": n for n in range(50)}
    assert meta.read({"_meta": keys | reserved}).extra == keys
    with pytest.raises(MetaError, match="16 keys"):
        meta.read({"_meta": keys | {"one more": 1}})


def test_four_kibibytes_of_a_client_travel_and_one_byte_more_does_not() -> None:
    room = 4096 - len('{"a":""}')
    assert read(a="x" * room).extra == {"a": "x" * room}
    assert read(a="é" * (room // 2)).extra == {"a": "é" * (room // 2)}
    with pytest.raises(MetaError, match="4096 bytes"):
        read(a="x" * (room + 1))


@pytest.mark.parametrize(
    "parent",
    [
        None,
        1,
        "",
        PARENT.upper(),
        PARENT + "\n",
        PARENT + "-extra",
        PARENT.replace("00-", "ff-", 1),
        "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
    ],
)
def test_a_malformed_trace_context_is_dropped_whole(parent: Value) -> None:
    assert read(traceparent=parent, tracestate="a=1").trace == {}


@pytest.mark.parametrize("state", [None, 1, "a" * 513, "é", "a\tb", "a\r\nX: y"])
def test_a_malformed_trace_state_is_dropped_alone(state: Value) -> None:
    assert read(traceparent=PARENT, tracestate=state).trace == {"traceparent": PARENT}


def test_a_trace_state_without_a_parent_is_dropped() -> None:
    assert read(tracestate="a=1").trace == {}


@pytest.mark.parametrize(
    ("params", "modern"),
    [
        ({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}, True),
        ({"_meta": {"io.modelcontextprotocol/clientCapabilities": {}}}, True),
        ({"_meta": {"io.modelcontextprotocol/protocolVersion": None}}, True),
        ({"_meta": {"io.modelcontextprotocol/clientInfo": {}, "progressToken": 1}}, False),
        ({"_meta": {"io.modelcontextprotocol/protocolversion": "2026-07-28"}}, False),
        ({"_meta": {}}, False),
        ({"_meta": None}, False),
        ({"_meta": ["io.modelcontextprotocol/protocolVersion"]}, False),
        ({}, False),
        ({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}, False),
    ],
)
def test_version_or_capabilities_mark_a_modern_request(params: Object, modern: bool) -> None:
    assert meta.is_modern(params) is modern


KEYS = st.text(max_size=12) | st.sampled_from([meta.PROTOCOL_VERSION, meta.LOG_LEVEL, "progressToken", "traceparent"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(KEYS, SCALARS | st.lists(SCALARS) | st.dictionaries(KEYS, SCALARS)))
def test_any_meta_is_read_or_refused(value: Object) -> None:
    with suppress(MetaError):
        told = meta.read({"_meta": value})
        assert set(told.extra) <= set(value)


def test_a_server_cannot_speak_for_the_gateway() -> None:
    spoofed = b'{"a":1,"_meta":{"dev.mcp-gateway/refusal":{},"k": [ ],"dev.mcp\\u002dgateway/instance":{}}}'
    assert rawjson.encode(meta.without_ours(rawjson.decode_members(spoofed))) == b'{"a":1,"_meta":{"k":[ ]}}'


@pytest.mark.parametrize(
    "text", [b'{"a":1}', b'{"_meta":{"dev.mcp-gateways/x":1}}', b'{"_meta":null}', b'{"_meta":[]}']
)
def test_a_result_that_does_not_claim_to_be_ours_stays_the_same(text: bytes) -> None:
    result = rawjson.decode_members(text)
    assert meta.without_ours(result) is result


def test_additions_join_what_the_server_said() -> None:
    result = rawjson.decode_members(b'{"a":1,"_meta":{"k": [ 1 ],"x":1},"b":2}')
    merged = meta.merge(result, {"x": 2, "y": {"z": None}})
    assert rawjson.encode(merged) == b'{"a":1,"_meta":{"k":[ 1 ],"x":2,"y":{"z":null}},"b":2}'
    assert rawjson.encode(result) == b'{"a":1,"_meta":{"k": [ 1 ],"x":1},"b":2}'


@pytest.mark.parametrize("own", [b"null", b"[]", b'"a"', b"1"])
def test_additions_replace_a_meta_that_is_no_object(own: bytes) -> None:
    merged = meta.merge({"_meta": rawjson.Raw(own)}, {"x": 1})
    assert rawjson.encode(merged) == b'{"_meta":{"x":1}}'


def test_additions_make_a_meta_where_there_is_none() -> None:
    assert rawjson.encode(meta.merge({}, {"x": 1})) == b'{"_meta":{"x":1}}'


@pytest.mark.parametrize(
    ("own", "kept"),
    [
        (None, None),
        ({"progressToken": 1}, None),
        ({"io.modelcontextprotocol/subscriptionId": 1, "own": 2}, {"own": 2}),
        (7, None),
    ],
)
def test_what_belongs_to_a_servers_hop_goes_and_the_rest_of_the_members_stays(own: Value, kept: Value) -> None:
    members = {"data": rawjson.raw(1)} | ({} if own is None else {"_meta": rawjson.raw(own)})
    left = {key: rawjson.decode_value(item) for key, item in meta.without_reserved(members).items()}
    assert left == {"data": 1} | ({} if kept is None else {"_meta": kept})


@pytest.mark.parametrize(
    ("level", "asked", "logged"),
    [
        ("info", "info", True),
        ("emergency", "debug", True),
        ("debug", "info", False),
        ("info", None, False),
        ("loud", "debug", False),
        (None, "debug", False),
    ],
)
def test_a_log_message_is_for_those_who_asked_from_its_level_or_a_lower_one(
    level: object, asked: object, logged: bool
) -> None:
    assert meta.is_logged(level, asked) is logged
