"""An HTTP MCP server that repeats whatever it was sent, credentials and all, in every kind of bad answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tests.kit.http_server import Exchange, Json, McpServer

HOW: tuple[str, ...] = ("error", "tool", "html", "refused", "limited", "redirect", "header", "garbage", "truncated")
"""What the argument ``how`` of its tool makes it answer with; anything else gets an ordinary result."""

Said: TypeAlias = str


@dataclass
class Echoing(McpServer):
    """``broken`` answers every request like that, the handshake too."""

    broken: bool = False

    async def script(self, exchange: Exchange) -> None:
        if self.broken and exchange.method == "POST":
            await exchange.error(-32000, f"cannot serve {everything(exchange)}", data={"sent": everything(exchange)})
            return
        await super().script(exchange)

    async def _call(self, exchange: Exchange, params: Json) -> None:
        said, how = everything(exchange), params.get("arguments", {}).get("how")
        match how:
            case "error":
                await exchange.error(-32000, f"refused {said}", data={"sent": [said]})
            case "tool":
                done: Json = {"resultType": "complete"} if self.era == "modern" else {}
                await exchange.result({**done, "content": [{"type": "text", "text": said}], "isError": True})
            case "html":
                await exchange.answer(500, f"<pre>{said}</pre>".encode(), "text/html")
            case "refused" | "limited":
                status = 401 if how == "refused" else 429
                head = {"WWW-Authenticate": f'Bearer error="invalid_token", error_description="{plain(said)}"'}
                await exchange.answer(status, said.encode(), "text/plain", head)
            case "redirect":
                await exchange.answer(302, head={"Location": f"http://127.0.0.1:1/{plain(said)}"})
            case "header":
                await exchange.answer(400, b"", head={"X-Sent": plain(said)})
            case "garbage":
                await exchange.answer(200, f"{{{said}".encode(), "application/json")
            case "truncated":
                await exchange.raw(f"HTTP/1.1 {plain(said)}\r\n\r\n".encode())
                exchange.close()
            case _:
                await super()._call(exchange, params)


def everything(exchange: Exchange) -> Said:
    """Return target and headers, in the order in which they came."""
    return "\n".join([exchange.target, *(f"{name}: {value}" for name, value in exchange.headers.items())])


def plain(text: str) -> str:
    """Write a text as a header value."""
    return text.replace("\n", " ").replace('"', "'")
