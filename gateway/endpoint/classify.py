"""Rows 11 to 14 and 17 of the checks: whose rules a request is judged by, and whether it keeps them. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.endpoint.rejection import Rejected, Rejection
from gateway.errors import RequestError
from gateway.model.catalog import Definition
from gateway.protocol import codes, headers, meta, methods, rawjson, versions
from gateway.protocol.jsonrpc import Id, Request
from gateway.protocol.meta import MetaError, RequestMeta
from gateway.protocol.methods import Method
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.versions import Era
from gateway.telemetry.text import printable

METHOD_NOT_FOUND = "Method not found"
SHOWN = 128
"""Characters of a client's own name or version that a text may echo."""


def era_of(received: Mapping[str, str], params: Object) -> Era:
    """Tell whose rules apply: modern are a mark in ``_meta`` and a version header that no handshake agrees on."""
    version = received.get(headers.VERSION.lower())
    if meta.is_modern(params) or (version is not None and version not in versions.CLIENT_LEGACY):
        return Era.MODERN
    return Era.LEGACY


def legacy_header(received: Mapping[str, str]) -> bool:
    """Tell whether the version header alone leaves a request without a body to the legacy era."""
    return era_of(received, {}) is Era.LEGACY


def fault(era: Era, error: RequestError, identifier: Id | None, reason: str) -> Rejected:
    """Turn an error about a parsed request into its answer; the status follows from code and era."""
    status = codes.http_status(error.code, era)
    return Rejected(Rejection(status, error.code, error.message, reason, identifier, error.data))


def without_id() -> Rejected:
    """Return the answer to a request method that came without an id: it is never run (S30, G066)."""
    message = "Invalid request: this method needs an id"
    return Rejected(Rejection(400, codes.INVALID_REQUEST, message, "request_without_id"))


def modern(request: Request, received: Mapping[str, str]) -> tuple[Method, RequestMeta]:
    """Apply the modern ladder up to the method.

    Raises:
        RequestError: −32602 for ``_meta``, −32020 for headers, −32022 for the version, −32601 for the method.
    """
    if request.method == methods.INITIALIZE:
        # Marked modern it can only be a mistake, which its client should be able to read (basic/versioning).
        raise RequestError(codes.METHOD_NOT_FOUND, "Method not found", {"supported": list(versions.SUPPORTED)})
    told = _required_meta(request.params)
    _standard_headers(request, told, received)
    if told.version != versions.MODERN:
        data: Object = {"supported": list(versions.SUPPORTED), "requested": printable(told.version or "", SHOWN)}
        raise RequestError(codes.UNSUPPORTED_VERSION, "Unsupported protocol version", dict(data))
    return method_of(request.method, Era.MODERN), told


def method_of(name: str, era: Era) -> Method:
    """Return the row of a method; whether one of an extension leads anywhere is found out with its target.

    Raises:
        RequestError: −32601.
    """
    row = methods.lookup(name, era) or methods.of_extension(name)
    if row is None:
        raise RequestError(codes.METHOD_NOT_FOUND, METHOD_NOT_FOUND)
    return row


def read_meta(params: Object) -> RequestMeta:
    """Read ``_meta``.

    Raises:
        RequestError: −32602.
    """
    try:
        return meta.read(params)
    except MetaError as error:
        raise RequestError(codes.INVALID_PARAMS, f"Invalid params: {error}") from None


def _required_meta(params: Object) -> RequestMeta:
    told = read_meta(params)
    for key, value in ((meta.PROTOCOL_VERSION, told.version), (meta.CLIENT_CAPABILITIES, told.capabilities)):
        if value is None:
            raise RequestError(codes.INVALID_PARAMS, f"Invalid params: _meta needs {key}")
    return told


def _standard_headers(request: Request, told: RequestMeta, received: Mapping[str, str]) -> None:
    """Compare what is mirrored in headers with the body (2026-07-28 streamable-http §Server Validation)."""
    _equal(headers.VERSION, received, told.version)
    _equal(headers.METHOD, received, request.method)
    row = methods.lookup(request.method, Era.MODERN)
    if row is None or row.target is None:
        return
    named = request.params.get(row.target)
    if isinstance(named, str):
        _equal(headers.NAME, received, named, encoded=True)


def _equal(name: str, received: Mapping[str, str], expected: str | None, *, encoded: bool = False) -> None:
    value = received.get(name.lower())
    if value is None:
        raise RequestError(codes.HEADER_MISMATCH, f"Header mismatch: {name} is missing")
    try:
        actual = headers.decode_value(value) if encoded else value
    except headers.HeaderError as error:
        raise RequestError(codes.HEADER_MISMATCH, f"Header mismatch: {name} {error}") from None
    if actual != expected:
        raise RequestError(codes.HEADER_MISMATCH, f"Header mismatch: {name} does not match the body")


def param_headers(definition: Definition, arguments: Value, received: Mapping[str, str]) -> None:
    """Compare ``Mcp-Param-*`` with the arguments of a visible tool (row 17).

    Raises:
        RequestError: −32020.
    """
    schema = definition.members.get("inputSchema")
    if schema is None or b"x-mcp-header" not in rawjson.raw_bytes(schema):
        return
    try:
        annotated = headers.param_headers(rawjson.decode_value(schema))
    except headers.HeaderError:
        # A definition no client can mirror: dropped by clients, and nothing to compare with for those that keep it.
        return
    try:
        headers.check(arguments, annotated, received)
    except headers.HeaderError as error:
        raise RequestError(codes.HEADER_MISMATCH, f"Header mismatch: {error}") from None
