"""Requests in the modern era: ``_meta`` and headers, both rebuilt by us, the headers from the body (S47, S70).

Pure; the legacy dialect shares only what both eras have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.downstream.dialect import CLIENT_INFO
from gateway.model.call import Call
from gateway.model.catalog import Definition
from gateway.protocol import capabilities, headers, meta, methods, rawjson
from gateway.protocol.headers import HeaderError, ParamHeader
from gateway.protocol.rawjson import JsonError, Object, Value
from gateway.protocol.versions import MODERN, Era

_MAX_KNOWN: Final = 4096


def base_meta(version: str = MODERN) -> Object:
    """Return the ``_meta`` of a request of our own: no client behind it, so no capabilities (basic/index §_meta)."""
    return {
        meta.PROTOCOL_VERSION: version,
        meta.CLIENT_INFO: dict(CLIENT_INFO),
        meta.CLIENT_CAPABILITIES: {},
    }


def list_meta(asks: Iterable[str] = ()) -> Object:
    """Return the ``_meta`` of discovery and lists: like any of our own, with what a server's answer may depend on.

    Tools that ask are left out by some for a client that cannot be asked, so ``asks`` is what some client may be; so
    are apps for one that does not declare them (MCP Apps §Server Behavior).
    """
    declared = capabilities.whole(asks) | {capabilities.EXTENSIONS: dict(capabilities.GATEWAY_UI)}
    return base_meta() | {meta.CLIENT_CAPABILITIES: declared}


def call_meta(call: Call, token: str | None) -> Object:
    """Return what travels in ``_meta`` in both eras: the client's own keys, the trace, our progress token."""
    progress: Object = {} if token is None else {meta.PROGRESS_TOKEN: token}
    return {**call.meta, **call.trace, **progress}


def modern_meta(call: Call, token: str | None, asks: tuple[str, ...]) -> Object:
    """Return the whole ``_meta`` of a modern call: ours beats the client's."""
    level: Object = {} if call.log_level is None else {meta.LOG_LEVEL: call.log_level}
    declared = capabilities.to_server(call.caller.capabilities, asks, call.caller.era, Era.MODERN)
    return call_meta(call, token) | base_meta() | {meta.CLIENT_CAPABILITIES: declared} | level


def answers(call: Call) -> Object:
    """Return the members that make a request the next round of a call (basic/patterns/mrtr §Client Requirements)."""
    given: Object = {}
    if call.input_responses is not None:
        given[methods.INPUT_RESPONSES] = call.input_responses
    if call.request_state is not None:
        given[methods.REQUEST_STATE] = call.request_state
    return given


def standard_headers(method: str, params: Mapping[str, Value], version: str = MODERN) -> dict[str, str]:
    """Mirror a body in the standard headers (streamable-http §Standard Request Headers)."""
    mirrored = {headers.VERSION: version, headers.METHOD: method}
    row = methods.METHODS.get(method)
    name = params.get(row.target) if row is not None and row.target is not None else None
    return mirrored | {headers.NAME: headers.encode_value(name)} if isinstance(name, str) else mirrored


def param_annotations(definition: Definition) -> tuple[ParamHeader, ...]:
    """Read the ``x-mcp-header`` annotations of a tool (streamable-http §Schema Extension).

    Raises:
        HeaderError: the definition is invalid for HTTP: such a tool must not be listed.
    """
    schema = definition.members.get("inputSchema")
    if schema is None:
        return ()
    try:
        return headers.param_headers(rawjson.decode_value(schema))
    except JsonError:
        raise HeaderError("inputSchema cannot be read") from None


class ParamHeaders:
    """Renders ``Mcp-Param-*`` headers; remembers each definition's annotations, up to a bound."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[ParamHeader, ...]] = {}

    def render(self, call: Call) -> dict[str, str]:
        """Return the headers for a call; none for what is no tool or has an invalid definition."""
        definition = call.definition
        if call.method != methods.TOOLS_CALL or definition is None:
            return {}
        known = self._known.get(definition.digest)
        if known is None:
            try:
                known = param_annotations(definition)
            except HeaderError:
                known = ()
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[definition.digest] = known
        return headers.render(call.params.get("arguments"), known)
