"""A server of the era before 2026-07-28, written with the Python SDK 1.x; runs inside that environment.

legacy_server.py [--port N]      streamable HTTP on 127.0.0.1:N/mcp, else stdio
"""

from __future__ import annotations

import argparse
from typing import Any

from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

server = FastMCP("legacy-only")


class Guests(BaseModel):
    """What a booking asks for."""

    guests: int


async def _guests(ctx: Context[Any, Any, Any]) -> str:
    answer = await ctx.elicit(message="How many guests?", schema=Guests)
    return f"{answer.action}: {answer.data.guests if answer.action == 'accept' else None}"


async def _dish(ctx: Context[Any, Any, Any], words: str, related: str | None = None) -> str:
    """Ask the model. Without ``related`` the library says over HTTP not with which call, but on a stream of its own."""
    question = SamplingMessage(role="user", content=TextContent(type="text", text=words))
    answer = await ctx.session.create_message([question], max_tokens=20, related_request_id=related)
    return answer.content.text if isinstance(answer.content, TextContent) else ""


@server.tool()
async def book(place: str, ctx: Context[Any, Any, Any]) -> str:
    """Book a table, for as many guests as the client says when asked."""
    return f"{await _guests(ctx)} at {place}"


@server.tool()
async def suggest(ctx: Context[Any, Any, Any]) -> str:
    """Have the client's model suggest a dish."""
    return await _dish(ctx, "Suggest a dish.")


@server.tool()
async def evening(place: str, ctx: Context[Any, Any, Any]) -> str:
    """Book a table and then have a dish suggested for as many guests."""
    booked = await _guests(ctx)
    return f"{booked} at {place}, {await _dish(ctx, booked, ctx.request_id)}"


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    if options.port is None:
        server.run("stdio")
    else:
        server.settings.port = options.port
        server.run("streamable-http")


if __name__ == "__main__":
    main()
