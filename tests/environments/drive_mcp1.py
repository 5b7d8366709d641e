"""Runs inside the environment of the Python SDK 1.x: commands as JSON lines on stdin, results on stdout.

    drive_mcp1.py URL legacy [KEY]

In place of URL a JSON array is a command, to be started and spoken to over its pipes.

The session stays open between commands, so a test sees whether it survives a refusal.
"""

from __future__ import annotations

import asyncio
import json
import sys

import httpx
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    TextContent,
)
from pydantic import AnyUrl, BaseModel


def show(value: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def raw(result: BaseModel) -> object:
    return result.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def command(session: ClientSession, order: dict[str, object]) -> BaseModel:
    name, arguments = str(order.get("name")), order.get("arguments")
    match order["do"]:
        case "tools":
            return await session.list_tools()
        case "prompts":
            return await session.list_prompts()
        case "resources":
            return await session.list_resources()
        case "templates":
            return await session.list_resource_templates()
        case "call":
            return await session.call_tool(name, arguments)
        case "prompt":
            return await session.get_prompt(name, arguments)
        case "read":
            return await session.read_resource(AnyUrl(str(order["uri"])))
    raise ValueError(f"no such command: {order}")


async def elicited(context: object, params: ElicitRequestParams) -> ElicitResult:
    """Answer every form with the same number of guests."""
    return ElicitResult(action="accept", content={"guests": 4})


async def sampled(context: object, params: CreateMessageRequestParams) -> CreateMessageResult:
    """Answer as a model would that repeats what it is told."""
    asked = params.messages[-1].content
    words = asked.text if isinstance(asked, TextContent) else ""
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text=f"soup ({words})"), model="m")


async def serve(read: object, write: object) -> None:
    async with ClientSession(read, write, elicitation_callback=elicited, sampling_callback=sampled) as session:
        show({"ok": raw(await session.initialize())})
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                show({"ok": raw(await command(session, json.loads(line)))})
            except McpError as error:
                show({"error": raw(error.error)})


async def main(url: str, key: str | None) -> None:
    if url.startswith("["):
        program, *arguments = json.loads(url)
        async with stdio_client(StdioServerParameters(command=program, args=arguments)) as (read, write):
            await serve(read, write)
        return
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx.AsyncClient(headers=headers, timeout=30) as client,
        streamable_http_client(url, http_client=client) as (read, write, _),
    ):
        await serve(read, write)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else None))
