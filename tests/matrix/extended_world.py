"""The second server of the matrix: tasks, a view of MCP Apps, and an extension that no gateway knows.

``python -m tests.matrix.extended_world NAME ERA [PORT]`` serves over HTTP, without a port on its pipes. Beside
``cell_world``, so that what is tried there is a server without extensions. All of these servers have one view under the
same URI, and one extension of the same name; another extension each has alone.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any, Final, TypeAlias

from tests.conformance.deeds import Deed, Fault, Turn
from tests.conformance.over_http import serve
from tests.conformance.over_stdio import Pipes
from tests.conformance.tasking import Tasking

Json: TypeAlias = dict[str, Any]

APPS: Final = "io.modelcontextprotocol/ui"
PAGE: Final = "text/html;profile=mcp-app"
VIEW: Final = "ui://board/main.html"
SHARED: Final = "com.example/shared"
SEARCH: Final = "search/run"
FOUND: Final = "notifications/search/found"
SHOW: Final[Json] = {
    "name": "show",
    "inputSchema": {"type": "object", "properties": {}},
    "_meta": {"ui": {"resourceUri": VIEW}},
}


def extension(name: str) -> str:
    """Return the extension that only the server of this name has."""
    return f"com.example/{name}"


class ExtendedWorld(Tasking):
    """What one process offers."""

    def __init__(self, name: str, era: str) -> None:
        super().__init__(modern=era == "modern")
        self.name = name
        more: Json = {APPS: {}, SHARED: {}, extension(name): {}}
        extensions = {**self.capabilities.get("extensions", {}), **more}
        self.capabilities = {**self.capabilities, "resources": {}, "extensions": extensions}

    def tools(self) -> list[Json]:
        """Return those that run as tasks, and one that is shown with the view."""
        return [*super().tools(), SHOW]

    def answer(self, method: str, params: Json) -> Json | None:
        """Return what needs no work."""
        match method:
            case "resources/list":
                return {"resources": [{"uri": VIEW, "name": "board", "mimeType": PAGE}]}
            case "resources/templates/list":
                return {"resourceTemplates": []}
            case _:
                return super().answer(method, params)

    def deed(self, method: str) -> Deed | None:
        """Return how work is carried out."""
        own: dict[str, Deed] = {"resources/read": self._read, SEARCH: self._search, "tools/call": self._shown}
        return own.get(method) or super().deed(method)

    async def _read(self, turn: Turn) -> Json:
        if turn.params["uri"] != VIEW:
            raise Fault(-32602, "Resource not found", {"uri": turn.params["uri"]})
        return {"contents": [{"uri": VIEW, "mimeType": PAGE, "text": f"the board of {self.name}"}]}

    async def _search(self, turn: Turn) -> Json:
        """Tell what arrived, and by whom it was found."""
        await turn.notify(FOUND, {"hit": self.name})
        return {"server": self.name, "wanted": turn.params["wanted"], "capabilities": turn.capabilities}

    async def _shown(self, turn: Turn) -> Json:
        if turn.params.get("name") != SHOW["name"]:
            return await self._call(turn)
        return {"content": [{"type": "resource_link", "uri": VIEW, "name": "board"}]}


if __name__ == "__main__":
    world = ExtendedWorld(sys.argv[1], sys.argv[2])
    with suppress(KeyboardInterrupt):
        if len(sys.argv) > 3:
            asyncio.run(serve(world, sys.argv[2], int(sys.argv[3])))
        else:
            asyncio.run(Pipes(world, sys.argv[2]).run())
