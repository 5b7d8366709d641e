"""Answers ``search_tools`` and ``describe_tool``: lists in another form, under the same rules as lists.

A tool that is hidden from its caller is not found, and described no more than one that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.endpoint import fit, listing, on_demand
from gateway.endpoint.build import Asked, UnknownTarget, draft_of
from gateway.endpoint.listing import Reader, encoded
from gateway.endpoint.on_demand import Describe, Search
from gateway.endpoint.services import Moment
from gateway.model.call import Call, Target
from gateway.model.catalog import Kind, Route
from gateway.protocol import methods, rawjson
from gateway.protocol.jsonrpc import Request
from gateway.protocol.rawjson import Members, Object, Raw, Value
from gateway.protocol.versions import Era
from gateway.telemetry.text import printable

DESCRIPTION: int = 300
"""Characters of a description in a list of hits; all of it is for ``describe_tool``."""


@dataclass(frozen=True, slots=True)
class Found:
    """An answer of the gateway's own: ``draft`` and ``items`` are what the audit log samples of it."""

    members: Members
    draft: Call
    items: int


async def answer(moment: Moment, request: Request, asked: Asked) -> Found | None:
    """Answer a call that the view itself answers; None for all others.

    Raises:
        RequestError: its arguments do not fit.
        UnknownTarget: the tool to describe is unknown, hidden or held back, all alike.
    """
    if request.method != methods.TOOLS_CALL or not on_demand.applies(moment.config, asked.caller.view):
        return None
    reader = Reader(asked.principal, asked.caller)
    # To the log it is what it is: a list that was served.
    draft = replace(draft_of(request, asked), method=methods.TOOLS_LIST)
    match on_demand.question(request.params):
        case Search() as search:
            members, items = await _hits(moment, reader, search)
        case Describe(name):
            members, items = _description(moment, reader, draft_of(request, asked), name), 1
        case None:
            return None
    return Found(fit.own_result(members) if asked.caller.era is Era.MODERN else members, draft, items)


async def _hits(moment: Moment, reader: Reader, search: Search) -> tuple[Members, int]:
    routes = await moment.find(search.query, search.limit, reader.principal, reader.caller.view)
    tools: list[Value] = [_hit(route) for route in routes]
    body: Object = {"tools": tools}
    text = rawjson.encode(body).decode() if tools else _nothing(moment, reader)
    return encoded({"content": [{"type": "text", "text": text}], "structuredContent": body}), len(tools)


def _hit(route: Route) -> Object:
    members = route.definition.members
    title, description = rawjson.peek(members.get("title")), rawjson.peek(members.get("description"))
    hit: Object = {"name": route.exposed, "server": route.server}
    if isinstance(title, str):
        hit["title"] = title[:DESCRIPTION]
    short = description if isinstance(description, str) else ""
    hit["description"] = short if len(short) <= DESCRIPTION else short[: DESCRIPTION - 1] + "…"
    return hit


def _nothing(moment: Moment, reader: Reader) -> str:
    """Say what there is, so that the next words are better ones."""
    listed = moment.listed(Kind.TOOL, reader.principal, reader.caller.view)
    servers = list(dict.fromkeys(printable(route.server, 64) for route in listed))
    if not servers:
        return "No tool is available here."
    named = ", ".join(servers[:50]) + (", …" if len(servers) > 50 else "")
    return f"No tool fits these words. There are {len(listed)} tools, of these servers: {named}. Try other words."


def _description(moment: Moment, reader: Reader, draft: Call, name: str) -> Members:
    """Return a definition as the whole list would show it."""
    route = moment.resolve(Kind.TOOL, name, reader.principal, reader.caller.view)
    if route is None:
        raise UnknownTarget(replace(draft, target=Target(Kind.TOOL, "", name), exposed=name))
    definition = listing.wire_of(moment, route, reader)
    return encoded({"content": [{"type": "text", "text": definition.decode()}]}) | {
        "structuredContent": Raw(definition)
    }
