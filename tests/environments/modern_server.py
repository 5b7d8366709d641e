"""A server that speaks only 2026-07-28, written with the Python SDK 2.x; runs inside that environment.

modern_server.py [--port N]      streamable HTTP on 127.0.0.1:N/mcp, else stdio
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Annotated, Any

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
)
from pydantic import BaseModel, Field


class Place(BaseModel):
    """A place, with nested parts, so that definitions carry ``$defs``."""

    name: str
    position: Position
    tags: list[str] = []


class Position(BaseModel):
    latitude: Annotated[float, Field(ge=-90, le=90)]
    longitude: Annotated[float, Field(ge=-180, le=180)]


async def modern_only(context: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Refuse the handshake of the legacy era, naming what is spoken instead (versioning §Backward Compatibility)."""
    if context.method == "initialize":
        data = {"supported": ["2026-07-28"], "requested": str((context.params or {}).get("protocolVersion"))}
        raise MCPError(code=-32022, message="Unsupported protocol version", data=data)
    return await call_next(context)


server = MCPServer("modern-only", version="3.2.1", instructions="Speaks 2026-07-28 only.", middleware=[modern_only])


@server.tool(title="Add", annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@server.tool(meta={"example.com/owner": "maps", "example.com/level": 3})
def describe(place: Place) -> Place:
    """Return the place it was given."""
    return place


@server.tool()
async def wait(seconds: Annotated[float, Field(ge=0, le=60)], ctx: Context[Any, Any]) -> str:
    """Wait, telling the progress ten times."""
    for step in range(10):
        await ctx.report_progress(step, 10)
        await asyncio.sleep(seconds / 10)
    return "waited"


def _guests() -> ElicitRequest:
    schema = {"type": "object", "properties": {"guests": {"type": "integer"}}, "required": ["guests"]}
    return ElicitRequest(params=ElicitRequestFormParams(message="How many guests?", requested_schema=schema))


def _dish(words: str) -> CreateMessageRequest:
    question = SamplingMessage(role="user", content=TextContent(type="text", text=words))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[question], max_tokens=20))


def _text(answer: CreateMessageResult) -> str:
    return answer.content.text if isinstance(answer.content, TextContent) else ""


@server.tool()
def book(place: str, ctx: Context[Any, Any]) -> str | InputRequiredResult:
    """Book a table, for as many guests as the client says when asked."""
    answer = (ctx.input_responses or {}).get("guests")
    if not isinstance(answer, ElicitResult):
        return InputRequiredResult(input_requests={"guests": _guests()}, request_state=place)
    return f"{answer.action}: {(answer.content or {}).get('guests')} at {ctx.request_state}"


@server.tool()
def suggest(ctx: Context[Any, Any]) -> str | InputRequiredResult:
    """Have the client's model suggest a dish."""
    answer = (ctx.input_responses or {}).get("dish")
    if not isinstance(answer, CreateMessageResult):
        return InputRequiredResult(input_requests={"dish": _dish("Suggest a dish.")})
    return _text(answer)


@server.tool()
def evening(place: str, ctx: Context[Any, Any]) -> str | InputRequiredResult:
    """Book a table and then have a dish suggested for as many guests."""
    answers = ctx.input_responses or {}
    match answers.get("guests"), answers.get("dish"):
        case _, CreateMessageResult() as dish:
            return f"{ctx.request_state} at {place}, {_text(dish)}"
        case ElicitResult() as booked, _:
            state = f"{booked.action}: {(booked.content or {}).get('guests')}"
            return InputRequiredResult(input_requests={"dish": _dish(state)}, request_state=state)
        case _:
            return InputRequiredResult(input_requests={"guests": _guests()})


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("this tool always fails")


@server.resource("place://home", title="Home", mime_type="text/plain")
def home() -> str:
    """Where one lives."""
    return "Home, sweet home."


@server.resource("place://{name}/note")
def note(name: str) -> str:
    """A note on a place."""
    return f"A note on {name}."


@server.prompt(title="Plan a trip")
def trip(place: str) -> str:
    """Ask for a plan."""
    return f"Plan a trip to {place}."


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    if options.port is None:
        server.run("stdio")
    else:
        server.run("streamable-http", port=options.port)


if __name__ == "__main__":
    main()
