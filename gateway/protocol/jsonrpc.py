"""JSON-RPC 2.0 envelopes as MCP uses them, in both directions.

From clients: ``parse`` judges a decoded value. From servers: ``split`` looks one level deep and leaves
results and params as bytes. 1, "1", 0 and "" are four different ids and come back exactly as they were sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.protocol import rawjson
from gateway.protocol.codes import INVALID_REQUEST
from gateway.protocol.rawjson import JsonError, Members, Object, Raw, Value

Id: TypeAlias = int | str
MAX_ID_LENGTH = 128
MAX_SERVER_ARRAY = 1000
"""Messages in one array of a server."""

_KEYS = ("jsonrpc", "id", "method", "params", "result", "error")
_FOLDED = {key.casefold() for key in _KEYS}


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a client, decoded; ``params`` is an empty object where there was none."""

    id: Id
    method: str
    params: Object = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification of a client, decoded."""

    method: str
    params: Object = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrorObject:
    """The ``error`` member. ``data`` is kept as bytes, since only its maker knows what is in it."""

    code: int
    message: str
    data: Raw | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A client's answer to a request of ours (legacy era only)."""

    id: Id
    result: Object | None
    error: Object | None


Message: TypeAlias = Request | Notification | Response


class Invalid(ValueError):
    """A value that is JSON but no JSON-RPC message; ``id`` is set where a valid one could be read."""

    code = INVALID_REQUEST

    def __init__(self, message: str, identifier: Id | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.id = identifier


def valid_id(value: object) -> bool:
    """Tell whether a value may be an id: an integer, or a string of at most 128 characters."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, str) and len(value) <= MAX_ID_LENGTH)


def parse(value: Value) -> Message:
    """Judge one decoded message of a client.

    Raises:
        Invalid: not an object, wrong ``jsonrpc``, id null, boolean, fractional or too long, a known member in
            another spelling of case, a method that is no string, params that are no object, or both of
            ``result`` and ``error``.
    """
    if not isinstance(value, dict):
        raise Invalid("A message must be a JSON object")
    identifier = value.get("id")
    known = identifier if isinstance(identifier, (int, str)) and valid_id(identifier) else None
    for key in value:
        if key not in _KEYS and key.casefold() in _FOLDED:
            raise Invalid("A member differs from a known one only by case", known)
    if value.get("jsonrpc") != "2.0":
        raise Invalid('"jsonrpc" must be "2.0"', known)
    if "id" in value and known is None:
        raise Invalid('"id" must be an integer or a string of at most 128 characters')
    if "method" not in value:
        return _response(value, known)
    method, params = value["method"], value.get("params", {})
    if not isinstance(method, str) or not method:
        raise Invalid('"method" must be a string', known)
    if "result" in value or "error" in value:
        raise Invalid("A request must not have a result or an error", known)
    if not isinstance(params, dict):
        raise Invalid('"params" must be an object', known)
    if known is None:
        return Notification(method, params)
    return Request(known, method, params)


def _response(value: Object, identifier: Id | None) -> Response:
    if identifier is None:
        raise Invalid('A message needs a "method" or an "id" with a result')
    result, error = value.get("result"), value.get("error")
    if ("result" in value) == ("error" in value):
        raise Invalid("A response needs either a result or an error", identifier)
    if "result" in value and not isinstance(result, dict):
        raise Invalid('"result" must be an object', identifier)
    if "error" in value and not isinstance(error, dict):
        raise Invalid('"error" must be an object', identifier)
    if isinstance(result, dict):
        return Response(identifier, result, None)
    return Response(identifier, None, error if isinstance(error, dict) else {})


@dataclass(frozen=True, slots=True)
class ServerResult:
    """A server's result, split one level."""

    id: Id
    result: Members


@dataclass(frozen=True, slots=True)
class ServerFailure:
    """A server's error answer; ``id`` is None where the server could not tell the request's."""

    id: Id | None
    error: ErrorObject


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request that a legacy server sends to its client."""

    id: Id
    method: str
    params: Members


@dataclass(frozen=True, slots=True)
class ServerNotification:
    """A server's notification, params split one level."""

    method: str
    params: Members


ServerMessage: TypeAlias = ServerResult | ServerFailure | ServerRequest | ServerNotification


def split(line: bytes | Raw) -> ServerMessage:
    """Split a message of a server one level, without reading what is inside its result or params.

    Raises:
        JsonError: not UTF-8, not a JSON object.
        Invalid: an object that is no JSON-RPC message.
    """
    members = rawjson.decode_members(line)
    identifier = _read_id(members.get("id"))
    if "method" in members:
        method = rawjson.peek(members["method"])
        if not isinstance(method, str):
            raise Invalid("method is no string", identifier)
        params = _object(members["params"], "params", identifier) if _present(members.get("params")) else {}
        if "id" not in members:
            return ServerNotification(method, params)
        if identifier is None:
            raise Invalid("request with an unusable id")
        return ServerRequest(identifier, method, params)
    has_result, has_error = _present(members.get("result")), _present(members.get("error"))
    if has_result == has_error:
        raise Invalid("neither a result nor an error, or both", identifier)
    if has_error:
        return ServerFailure(identifier, read_error(members["error"], identifier))
    if identifier is None:
        raise Invalid("result without a usable id")
    return ServerResult(identifier, _object(members["result"], "result", identifier))


def parts(data: bytes) -> list[bytes]:
    """Take an array of a server apart into its messages (2025-03-26 basic §Batching); anything else is one message.

    An array that is broken, too long or without any object comes back whole, for ``split`` to refuse.
    """
    if data[:64].lstrip(b" \t\r\n")[:1] != b"[":
        return [data]
    try:
        items = [rawjson.raw_bytes(item) for item in rawjson.decode_items(data)]
    except JsonError:
        return [data]
    messages = len(items) <= MAX_SERVER_ARRAY and any(item.startswith(b"{") for item in items)
    return items if messages else [data]


def claimed_id(line: bytes) -> Id | None:
    """Read which call an answer belongs to that ``split`` refused for ``not_utf8`` or ``lone_surrogate``.

    So that this call fails at once instead of waiting for ever; None where it cannot be told.
    """
    try:
        message = split(rawjson.repaired(line))
    except Invalid as error:
        return error.id
    except JsonError:
        return None
    return message.id if isinstance(message, (ServerResult, ServerFailure)) else None


def read_error(item: Raw, identifier: Id | None = None) -> ErrorObject:
    """Read an ``error`` member of a server.

    Raises:
        Invalid: no object, or without an integer code.
    """
    members = _object(item, "error", identifier)
    code = rawjson.peek(members.get("code"))
    message = rawjson.peek(members.get("message"))
    if not isinstance(code, int) or isinstance(code, bool):
        raise Invalid("error without an integer code", identifier)
    return ErrorObject(code, message if isinstance(message, str) else "", members.get("data"))


def _read_id(item: Raw | None) -> Id | None:
    value = rawjson.peek(item)
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def _object(item: Raw, name: str, identifier: Id | None) -> Members:
    try:
        return rawjson.decode_members(item)
    except JsonError:
        raise Invalid(f"{name} is no object", identifier) from None


def _present(item: Raw | None) -> bool:
    return item is not None and not rawjson.is_text(item, b"null")


def encode_request(identifier: Id, method: str, params: object | None) -> bytes:
    """Write a request; without params when they are None."""
    head: dict[str, object] = {"jsonrpc": "2.0", "id": identifier, "method": method}
    return rawjson.encode(head if params is None else head | {"params": params})


def encode_notification(method: str, params: object | None) -> bytes:
    """Write a notification; without params when they are None."""
    head: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    return rawjson.encode(head if params is None else head | {"params": params})


def encode_result(identifier: Id, result: object) -> bytes:
    """Write a result answer; raw members are copied."""
    return rawjson.encode({"jsonrpc": "2.0", "id": identifier, "result": result})


def encode_error(identifier: Id | None, error: ErrorObject) -> bytes:
    """Write an error answer; ``id`` is null where the request's could not be read (JSON-RPC 2.0 §5)."""
    body: dict[str, object] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return rawjson.encode({"jsonrpc": "2.0", "id": identifier, "error": body})
