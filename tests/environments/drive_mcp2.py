"""Runs inside the environment of the Python SDK 2.x: commands as JSON lines on stdin, results on stdout.

    drive_mcp2.py URL legacy|modern|auto [KEY]

In place of URL a JSON array is a command, to be started and spoken to over its pipes.

The client stays open between commands, so a test sees whether it survives a refusal.
"""

from __future__ import annotations

import asyncio
import json
import sys

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    TextContent,
)
from pydantic import BaseModel

MODES = {"legacy": "legacy", "modern": "2026-07-28", "auto": "auto"}


def show(value: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def raw(result: BaseModel) -> object:
    return result.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def command(client: Client, order: dict[str, object]) -> BaseModel:
    name, arguments = str(order.get("name")), order.get("arguments")
    match order["do"]:
        case "tools":
            return await client.list_tools()
        case "prompts":
            return await client.list_prompts()
        case "resources":
            return await client.list_resources()
        case "templates":
            return await client.list_resource_templates()
        case "call":
            return await client.call_tool(name, arguments)
        case "prompt":
            return await client.get_prompt(name, arguments)
        case "read":
            return await client.read_resource(str(order["uri"]))
    raise ValueError(f"no such command: {order}")


async def elicited(context: object, params: ElicitRequestParams) -> ElicitResult:
    """Answer every form with the same number of guests."""
    return ElicitResult(action="accept", content={"guests": 4})


async def sampled(context: object, params: CreateMessageRequestParams) -> CreateMessageResult:
    """Answer as a model would that repeats what it is told."""
    asked = params.messages[-1].content
    words = asked.text if isinstance(asked, TextContent) else ""
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text=f"soup ({words})"), model="m")


def transport(url: str, http: httpx2.AsyncClient) -> object:
    if url.startswith("["):
        program, *arguments = json.loads(url)
        return stdio_client(StdioServerParameters(command=program, args=arguments))
    return streamable_http_client(url, http_client=http)


async def main(url: str, mode: str, key: str | None) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(
            transport(url, http),
            mode=MODES[mode],
            elicitation_callback=elicited,
            sampling_callback=sampled,
        ) as client,
    ):
        show({"ok": {"protocolVersion": client.protocol_version}})
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                show({"ok": raw(await command(client, json.loads(line)))})
            except MCPError as error:
                show({"error": raw(error.error)})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None))
