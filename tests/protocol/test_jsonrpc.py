"""Envelopes: what a client's and a server's message may look like (S27, S28, S30, G043, G045, G066, G079)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocol import jsonrpc, rawjson
from gateway.protocol.codes import INVALID_REQUEST
from gateway.protocol.jsonrpc import (
    ErrorObject,
    Id,
    Invalid,
    Notification,
    Request,
    Response,
    ServerFailure,
    ServerMessage,
    ServerNotification,
    ServerRequest,
    ServerResult,
)
from gateway.protocol.rawjson import JsonError, Object, Value

IDS: list[Id] = [1, "1", 0, "", -5, 2**63 - 1, "x" * 128, "é\U0001f600", "null", "1.0"]


@pytest.mark.parametrize("identifier", IDS)
def test_a_request_keeps_its_id_and_the_type_of_it(identifier: Id) -> None:
    """G043: 1, "1", 0 and "" are four different ids and none of them is missing."""
    message = jsonrpc.parse({"jsonrpc": "2.0", "id": identifier, "method": "ping"})
    assert message == Request(identifier, "ping", {})
    assert isinstance(message, Request)
    assert type(message.id) is type(identifier)
    assert rawjson.decode_value(jsonrpc.encode_result(message.id, {})) == {
        "jsonrpc": "2.0",
        "id": identifier,
        "result": {},
    }


@pytest.mark.parametrize("identifier", [None, True, False, 1.5, 1.0, [], [1], {}, "x" * 129])
def test_an_id_that_may_not_be_one_is_refused_and_not_echoed(identifier: Value) -> None:
    """S28 and G045: also where the rest would be a request, a response or a notification."""
    rests: list[Object] = [{"method": "ping"}, {"result": {}}, {"error": {}}, {"method": "notifications/initialized"}]
    for rest in rests:
        with pytest.raises(Invalid) as caught:
            jsonrpc.parse({"jsonrpc": "2.0", "id": identifier, **rest})
        assert caught.value.id is None
        assert caught.value.code == INVALID_REQUEST
    assert not jsonrpc.valid_id(identifier)


def test_a_message_without_an_id_is_a_notification_whatever_its_method() -> None:
    """G066 and S30: who receives it sees a notification, so that it can never be run as a call."""
    message = jsonrpc.parse({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "a"}})
    assert message == Notification("tools/call", {"name": "a"})


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "a", [], [{"jsonrpc": "2.0", "id": 1, "method": "ping"}]])
def test_what_is_no_object_is_no_message(value: Value) -> None:
    with pytest.raises(Invalid, match="must be a JSON object"):
        jsonrpc.parse(value)


@pytest.mark.parametrize("version", ["1.0", "2", "2.00", " 2.0", 2, 2.0, None, ["2.0"]])
def test_another_version_of_json_rpc_is_refused(version: Value) -> None:
    with pytest.raises(Invalid) as caught:
        jsonrpc.parse({"jsonrpc": version, "id": 7, "method": "ping"})
    assert caught.value.id == 7


def test_a_missing_version_is_refused() -> None:
    with pytest.raises(Invalid, match="jsonrpc"):
        jsonrpc.parse({"id": 1, "method": "ping"})


@pytest.mark.parametrize("key", ["Method", "METHOD", "Id", "iD", "Jsonrpc", "Params", "param\u017f", "RESULT", "Error"])
def test_a_known_member_in_another_case_is_refused(key: str) -> None:
    """S27: a parser that ignores case would read a different message. U+017F folds to s."""
    with pytest.raises(Invalid, match="only by case") as caught:
        jsonrpc.parse({"jsonrpc": "2.0", "id": 1, "method": "tools/call", key: "x"})
    assert caught.value.id == 1


def test_unknown_members_of_an_envelope_are_left_behind() -> None:
    """S27: what is sent on is built from the known members alone."""
    message = jsonrpc.parse({"jsonrpc": "2.0", "id": 1, "method": "ping", "x": 1, "meta": {}, "idd": 2})
    assert message == Request(1, "ping", {})


@pytest.mark.parametrize("method", [None, 1, "", [], {}, True])
def test_a_method_is_a_string(method: Value) -> None:
    with pytest.raises(Invalid, match="method"):
        jsonrpc.parse({"jsonrpc": "2.0", "id": 1, "method": method})


@pytest.mark.parametrize("params", [None, [], [1], "a", 1, True])
def test_params_are_an_object(params: Value) -> None:
    with pytest.raises(Invalid, match="params") as caught:
        jsonrpc.parse({"jsonrpc": "2.0", "id": "a", "method": "ping", "params": params})
    assert caught.value.id == "a"


@pytest.mark.parametrize("extra", [{"result": {}}, {"error": {}}, {"result": None}, {"result": {}, "error": {}}])
def test_a_message_is_not_request_and_response_at_once(extra: dict[str, Value]) -> None:
    with pytest.raises(Invalid, match="must not have"):
        jsonrpc.parse({"jsonrpc": "2.0", "id": 1, "method": "ping", **extra})


def test_a_response_of_a_client_is_read() -> None:
    assert jsonrpc.parse({"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}) == Response(1, {"a": 1}, None)
    assert jsonrpc.parse({"jsonrpc": "2.0", "id": "", "error": {"code": 1}}) == Response("", None, {"code": 1})


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"result": {}, "error": {}},
        {"result": None},
        {"result": []},
        {"result": "a"},
        {"error": None},
        {"error": "bad"},
        {"error": []},
    ],
)
def test_a_response_holds_one_object(members: dict[str, Value]) -> None:
    with pytest.raises(Invalid) as caught:
        jsonrpc.parse({"jsonrpc": "2.0", "id": 3, **members})
    assert caught.value.id == 3


def test_a_message_of_nothing_but_a_version_is_refused() -> None:
    with pytest.raises(Invalid, match="needs"):
        jsonrpc.parse({"jsonrpc": "2.0"})


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ENVELOPES = st.dictionaries(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "Id", "x"]),
    st.sampled_from(["2.0", 1, "a"]) | JSON_VALUES,
)


@settings(max_examples=200, deadline=None)
@given(JSON_VALUES | ENVELOPES)
def test_any_value_is_a_message_or_invalid(value: Value) -> None:
    with suppress(Invalid):
        message = jsonrpc.parse(value)
        assert isinstance(message, (Request, Notification, Response))


def split(text: bytes) -> ServerMessage:
    return jsonrpc.split(text)


def result_of(text: bytes) -> tuple[Id, dict[str, bytes]]:
    message = split(text)
    assert isinstance(message, ServerResult)
    return message.id, {key: rawjson.raw_bytes(item) for key, item in message.result.items()}


def test_a_result_is_split_one_level_and_keeps_its_bytes() -> None:
    text = b'{"jsonrpc":"2.0","id":7,"result":{"content": [ 1.50 ],"x-future":{"b":1,"a":9007199254740993}}}\r'
    assert result_of(text) == (7, {"content": b"[ 1.50 ]", "x-future": b'{"b":1,"a":9007199254740993}'})


def test_line_separators_of_unicode_are_part_of_a_message() -> None:
    """G001 and G009: only the transport's line feed ends one; a carriage return is white space."""
    text = '{"jsonrpc":"2.0","id":1,\r"result":{"text":"a\u2028b\x85c\u2029"}}\r'.encode()
    assert result_of(text) == (1, {"text": '"a\u2028b\x85c\u2029"'.encode()})


@pytest.mark.parametrize("identifier", [*IDS, 2**70, -(2**70), "x" * 500])
def test_ids_of_servers_come_back_as_they_are(identifier: Id) -> None:
    text = rawjson.encode({"jsonrpc": "2.0", "id": identifier, "method": "ping"})
    message = split(text)
    assert message == ServerRequest(identifier, "ping", {})
    assert isinstance(message, ServerRequest)
    assert jsonrpc.encode_result(message.id, {}) == rawjson.encode({"jsonrpc": "2.0", "id": identifier, "result": {}})


@pytest.mark.parametrize(
    "identifier", [b"null", b"true", b"1.0", b"1.5", b"[1]", b"{}", b"9" * 5000, b"[" * 900 + b"]" * 900]
)
def test_an_unusable_id_of_a_server_makes_its_message_invalid(identifier: bytes) -> None:
    """G045. No error may carry an id that was never sent."""
    for rest in (b'"method":"ping"', b'"result":{}'):
        with pytest.raises(Invalid) as caught:
            split(b'{"jsonrpc":"2.0","id":%s,%s}' % (identifier, rest))
        assert caught.value.id is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"method":"notifications/x"}', ServerNotification("notifications/x", {})),
        (b'{"method":"notifications/x","params":null}', ServerNotification("notifications/x", {})),
        (b'{"id":"a","method":"roots/list","params":{}}', ServerRequest("a", "roots/list", {})),
        (b'{"id":1,"error":{"code":-32601,"message":"m"}}', ServerFailure(1, ErrorObject(-32601, "m"))),
        (b'{"id":null,"error":{"code":-32700,"message":"m"}}', ServerFailure(None, ErrorObject(-32700, "m"))),
        (b'{"error":{"code":1}}', ServerFailure(None, ErrorObject(1, ""))),
        (b'{"id":1,"error":{"code":1,"message":5}}', ServerFailure(1, ErrorObject(1, ""))),
        (b'{"id":1,"result":null,"error":{"code":1,"message":"m"}}', ServerFailure(1, ErrorObject(1, "m"))),
        (b'{"id":1,"error":null,"result":{}}', ServerResult(1, {})),
        (b'{"id":1,"error":{"code":1180591620717411303424}}', ServerFailure(1, ErrorObject(2**70, ""))),
    ],
)
def test_sloppy_but_clear_messages_of_servers_are_understood(text: bytes, message: ServerMessage) -> None:
    assert split(text) == message


def test_data_of_an_error_keeps_its_bytes() -> None:
    message = split(b'{"id":1,"error":{"code":-1,"message":"m","data":{"b": 1.0,"a":null}}}')
    assert isinstance(message, ServerFailure)
    assert message.error.data is not None
    assert rawjson.raw_bytes(message.error.data) == b'{"b": 1.0,"a":null}'
    assert jsonrpc.encode_error("x", message.error) == (
        b'{"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"m","data":{"b": 1.0,"a":null}}}'
    )


@pytest.mark.parametrize(
    "rest",
    [
        b'"result":{},"error":{"code":1,"message":"m"}',
        b'"result":null',
        b'"result":null,"error":null',
        b'"x":1',
        b'"result":[]',
        b'"result":"a"',
        b'"result":5',
        b'"error":"bad"',
        b'"error":[]',
        b'"error":{}',
        b'"error":{"code":"-32601"}',
        b'"error":{"code":-32601.0}',
        b'"error":{"code":true}',
        b'"error":{"code":null}',
        b'"error":{"code":%s}' % (b"9" * 5000),
        b'"method":null',
        b'"method":["a"]',
        b'"method":"ping","params":[]',
        b'"method":"ping","params":"a"',
    ],
)
def test_a_malformed_message_of_a_server_names_the_call_it_belongs_to(rest: bytes) -> None:
    """G079: only that call fails."""
    with pytest.raises(Invalid) as caught:
        split(b'{"jsonrpc":"2.0","id":7,%s}' % rest)
    assert caught.value.id == 7


@pytest.mark.parametrize(
    "text", [b"null", b"[]", b'[{"id":1}]', b'"a"', b"1", b"", b"\xff", b'{"a":"\xc3("}', b"Server started"]
)
def test_a_line_that_is_no_object_is_no_message(text: bytes) -> None:
    with pytest.raises(JsonError):
        split(text)


@pytest.mark.parametrize("depth", [100, 900, 100_000])
def test_a_hostile_depth_ends_in_a_result_or_a_documented_error(depth: int) -> None:
    text = b'{"id":1,"result":{"a":' + b"[" * depth + b"]" * depth + b"}}"
    try:
        identifier, members = result_of(text)
    except JsonError:
        return
    assert (identifier, len(members["a"])) == (1, 2 * depth)


SERVER_BYTES = st.lists(
    st.sampled_from(
        [
            *(
                b"{",
                b"}",
                b"[",
                b"]",
                b":",
                b",",
                b'"id"',
                b'"result"',
                b'"error"',
                b'"method"',
                b'"params"',
                b'"code"',
            ),
            *(b"1", b"null", b'"a"', b"true", b"\xff", b"\\", b"-", b" "),
        ]
    ),
    max_size=25,
).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(SERVER_BYTES | ENVELOPES.map(rawjson.encode) | JSON_VALUES.map(rawjson.encode) | st.binary(max_size=40))
def test_any_bytes_of_a_server_are_a_message_or_a_documented_error(text: bytes) -> None:
    with suppress(JsonError, Invalid):
        message = split(text)
        assert isinstance(message, (ServerResult, ServerFailure, ServerRequest, ServerNotification))


@pytest.mark.parametrize(
    ("line", "identifier"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"text":"a\xc3("}}', 7),
        (b'{"jsonrpc":"2.0","result":{"id":8,"text":"\\ud800"},"id":"7"}', "7"),
        (b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"\\udc00"}}', 7),
        (b'{"jsonrpc":"2.0","id":7,"result":["\\ud800"]}', 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\xff"}}', None),
        (b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"\xff"}}', None),
        (b'{"jsonrpc":"2.0","id":7,"result":{"text":"\xff"}', None),
        (b"\xff\xfe starting up", None),
    ],
)
def test_an_answer_with_broken_text_can_be_told_to_its_call(line: bytes, identifier: Id | None) -> None:
    """G010: that call errors, the link lives."""
    with pytest.raises(JsonError):
        split(line)
    assert jsonrpc.claimed_id(line) == identifier


def test_an_error_member_can_be_read_by_itself() -> None:
    assert jsonrpc.read_error(rawjson.Raw(b'{"code":-32000,"message":"m"}')) == ErrorObject(-32000, "m")
    with pytest.raises(Invalid, match="no object") as caught:
        jsonrpc.read_error(rawjson.Raw(b"null"))
    assert caught.value.id is None


def test_what_we_send_has_the_members_of_its_kind_alone() -> None:
    assert jsonrpc.encode_request(1, "ping", None) == b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    assert jsonrpc.encode_request("a", "m", {"x": rawjson.Raw(b"[ ]")}) == (
        b'{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":[ ]}}'
    )
    assert jsonrpc.encode_notification("n", None) == b'{"jsonrpc":"2.0","method":"n"}'
    assert jsonrpc.encode_notification("n", {}) == b'{"jsonrpc":"2.0","method":"n","params":{}}'
    assert jsonrpc.encode_error(None, ErrorObject(-32700, "Parse error")) == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'[{"a": 1},{"b":[2]}]', [b'{"a": 1}', b'{"b":[2]}']),
        (b'  \n[ {"a":1} ]', [b'{"a":1}']),
        (b'{"a":[1]}', [b'{"a":[1]}']),
        (b"[]", [b"[]"]),
        (b"[1", [b"[1"]),
        (b"[1,[{}]]", [b"[1,[{}]]"]),
        (b'[1,{"a":1}]', [b"1", b'{"a":1}']),
        (b"", [b""]),
        (b"[" + b",".join([b"{}"] * (jsonrpc.MAX_SERVER_ARRAY + 1)) + b"]", None),
    ],
)
def test_an_array_of_a_server_is_taken_apart_and_everything_else_is_one_message(
    text: bytes, expected: list[bytes] | None
) -> None:
    """2025-03-26 basic §Batching."""
    assert jsonrpc.parts(text) == (expected if expected is not None else [text])
