"""What tracing is to the rest of the gateway: a request is a span, which tells the next hop where it belongs.

Knows neither the library that makes spans (``telemetry/traces.py``) nor where they go. Attribute names are those of the
OpenTelemetry conventions for MCP (semantic-conventions ``gen-ai/mcp``); what they lack begins with ``mcp_gateway.``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

from gateway.protocol import methods
from gateway.telemetry.text import printable

METHOD: Final = "mcp.method.name"
VERSION: Final = "mcp.protocol.version"
SESSION: Final = "mcp.session.id"
RESOURCE: Final = "mcp.resource.uri"
TOOL: Final = "gen_ai.tool.name"
PROMPT: Final = "gen_ai.prompt.name"
OPERATION: Final = "gen_ai.operation.name"
EXECUTE_TOOL: Final = "execute_tool"
RPC_ID: Final = "jsonrpc.request.id"
RPC_CODE: Final = "rpc.response.status_code"
ERROR: Final = "error.type"
TRANSPORT: Final = "network.transport"
PROTOCOL: Final = "network.protocol.name"
CLIENT_ADDRESS: Final = "client.address"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
SERVER: Final = "mcp_gateway.server"
CLIENT: Final = "mcp_gateway.client.id"
VIEW: Final = "mcp_gateway.view"
CALL: Final = "mcp_gateway.call_id"
ROUND: Final = "mcp_gateway.round"
OUTCOME: Final = "mcp_gateway.outcome"
DEFINITION: Final = "mcp_gateway.tool.definition_sha256"

MAX_FACT: Final = 256
"""Characters of one attribute."""
OTHER: Final = "_OTHER"
"""What there is no word for: an error of our own, a method of an extension, which is a client's text."""
_NAMED: Final = frozenset({methods.TOOLS_CALL, methods.PROMPTS_GET})

Fact: TypeAlias = str | int
Facts: TypeAlias = Mapping[str, Fact]
Carrier: TypeAlias = Mapping[str, str]
"""A trace context as it travels: ``traceparent`` and perhaps ``tracestate``, both already checked; empty for none."""


class Side(StrEnum):
    """Which end of a request a span is: ours as the server of a client, or ours as the client of a server."""

    SERVER = "server"
    CLIENT = "client"


class Span(Protocol):
    """One request while it runs. After ``end`` nothing is taken any more."""

    @property
    def carrier(self) -> dict[str, str]:
        """What the next hop is told, so that its span becomes a child of this one."""

    def name(self, name: str) -> None:
        """Call the span something else."""

    def note(self, facts: Facts) -> None:
        """Add attributes; texts are escaped and cut."""

    def link(self, carrier: Carrier) -> None:
        """Say that it belongs together with a span that is not its parent."""

    def end(self, error: str = "") -> None:
        """End it, as failed where ``error`` says with what."""


class Tracer(Protocol):
    """Makes spans. Where ``on`` is not set nothing is begun."""

    @property
    def on(self) -> bool:
        """Whether there is anybody to tell of spans."""

    def begin(self, side: Side, name: str, parent: Carrier, facts: Facts) -> Span:
        """Begin a span below a parent; an empty one begins a trace."""

    def pseudonym(self, secret: str) -> str:
        """Return what stands for a secret, such as the id of a session (S153)."""


class Off:
    """Traces nothing."""

    on: Final = False

    def begin(self, side: Side, name: str, parent: Carrier, facts: Facts) -> Span:
        """Nobody asks."""
        raise RuntimeError("a span was begun without tracing")

    def pseudonym(self, secret: str) -> str:
        """Nobody asks."""
        return ""


OFF: Final = Off()


def title(method: str, target: str) -> str:
    """Return a span's name; resources stay out of it, as there may be any number of them (conventions §Spans).

    So do methods that nobody here knows. ``target`` is the name of a tool or prompt that is there, "" for none.
    """
    if method not in methods.METHODS:
        return OTHER
    return printable(f"{method} {target}", MAX_FACT) if target and method in _NAMED else printable(method, MAX_FACT)


def about(method: str, target: str) -> dict[str, Fact]:
    """Return the attributes of what a request names: a tool, a prompt or a resource."""
    if not target:
        return {}
    if method == methods.TOOLS_CALL:
        return {TOOL: target, OPERATION: EXECUTE_TOOL}
    if method == methods.PROMPTS_GET:
        return {PROMPT: target}
    row = methods.METHODS.get(method)
    return {RESOURCE: without_secrets(target)} if row is not None and row.target == "uri" else {}


def named(method: str, params: Mapping[str, object]) -> str:
    """Return what a request names, "" for nothing."""
    row = methods.METHODS.get(method)
    value = params.get(row.target) if row is not None and row.target in ("name", "uri") else None
    return value if isinstance(value, str) else ""


def without_secrets(uri: str) -> str:
    """Leave out where a URI holds passwords and tokens: userinfo, query and fragment."""
    plain = uri.partition("#")[0].partition("?")[0]
    scheme, mark, rest = plain.partition("://")
    if not mark:
        return plain
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def exemplar(carrier: Carrier) -> dict[str, str] | None:
    """Return the labels by which a measurement leads to a span; None where that one is not recorded."""
    parts = carrier.get("traceparent", "").split("-")
    if len(parts) != 4 or not int(parts[3], 16) & 1:
        return None
    return {"trace_id": parts[1], "span_id": parts[2]}


def fitting(facts: Facts) -> dict[str, Fact]:
    """Make attributes safe to send: texts escaped and cut."""
    return {key: printable(value, MAX_FACT) if isinstance(value, str) else value for key, value in facts.items()}
