"""Runs inside the environment of the Python SDK 1.x: signs in with OAuth, then commands as ``drive_mcp1`` takes them.

    drive_sign_in_mcp1.py URL legacy

``{"open": URL}`` on stdout asks for a browser; ``{"came": URL}`` on stdin says where it was led.
"""

from __future__ import annotations

import asyncio
import json
import sys
from urllib.parse import parse_qs, urlsplit

import httpx
from mcp import ClientSession, McpError
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken


class Memory:
    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def show(value: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def opened(url: str) -> None:
    show({"open": url})


async def came() -> tuple[str, str | None]:
    line = await asyncio.to_thread(sys.stdin.readline)
    query = parse_qs(urlsplit(json.loads(line)["came"]).query)
    if "code" not in query:
        raise RuntimeError(f"the sign-in failed: {query}")
    return query["code"][0], query["state"][0]


async def main(url: str) -> None:
    metadata = OAuthClientMetadata(
        client_name="sdk 1.x",
        redirect_uris=["http://localhost:9/back"],
        grant_types=["authorization_code"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    memory = Memory()
    auth = OAuthClientProvider(url, metadata, memory, opened, came)
    async with (
        httpx.AsyncClient(auth=auth, timeout=30) as client,
        streamable_http_client(url, http_client=client) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        show({"ok": {"scope": memory.tokens.scope if memory.tokens else None}})
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)
            try:
                if order["do"] == "tools":
                    result = await session.list_tools()
                else:
                    result = await session.call_tool(order["name"], order.get("arguments"))
                show({"ok": result.model_dump(mode="json", by_alias=True, exclude_unset=True)})
            except McpError as error:
                show({"error": error.error.model_dump(mode="json")})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
