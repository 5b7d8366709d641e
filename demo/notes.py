"""A small MCP server that keeps notes, for the demonstration: standard library only, over stdio.

Two of them with the same tool names and other notes show why a gateway tells instances apart.
It speaks both eras on one pipe: ``initialize`` (2025-11-25 and earlier) and requests that carry
their version in ``_meta`` (2026-07-28). It knows nothing of the gateway.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO, Final

from notebook import MAX_NOTES, Note, Notebook, ToolError
from notetools import TOOLS, Json, check

VERSION: Final = "1.0.0"
MODERN: Final = "2026-07-28"
LEGACY: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MAX_LINE: Final = 1_000_000

META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

CAPABILITIES: Final[Json] = {"tools": {}, "prompts": {}, "resources": {"listChanged": True}, "completions": {}}
INSTRUCTIONS: Final = "Notes of one dataset. Call whoami to learn which."


class RpcError(Exception):
    """Ends a request with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message} | ({"data": data} if data else {})


class UnknownResource(Exception):
    """A URI that names no note; each era has its own code for it."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri


PROMPT: Final[Json] = {
    "name": "summarize",
    "title": "Summarize notes",
    "description": "Ask for a summary of the notes with one tag, or of all.",
    "arguments": [{"name": "tag", "description": "Only notes with this tag.", "required": False}],
}
TEMPLATE: Final[Json] = {
    "uriTemplate": "note://{id}",
    "name": "note",
    "title": "A note",
    "description": "One note as plain text.",
    "mimeType": "text/plain",
}
CACHEABLE: Final = frozenset(
    {"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}
)


class Server:
    """One conversation over a pipe, one message at a time."""

    def __init__(self, notebook: Notebook, out: BinaryIO) -> None:
        self._notebook = notebook
        self._out = out
        self._legacy = False
        self._listening: set[str | int] = set()
        self._methods: dict[str, Callable[[Json], Json]] = {
            "tools/list": lambda params: {"tools": list(TOOLS)},
            "tools/call": self._call,
            "prompts/list": lambda params: {"prompts": [PROMPT]},
            "prompts/get": self._prompt,
            "resources/list": lambda params: {"resources": [self._resource(note) for note in self._notebook]},
            "resources/templates/list": lambda params: {"resourceTemplates": [TEMPLATE]},
            "resources/read": self._read,
            "completion/complete": self._complete,
        }
        self._tools: dict[str, Callable[[Json], Json]] = {
            "add_note": self._add_note,
            "list_notes": self._list_notes,
            "search_notes": self._search_notes,
            "read_note": lambda arguments: asdict(self._note(arguments)),
            "delete_note": self._delete_note,
            "whoami": lambda arguments: {"dataset": self._notebook.dataset, "notes": len(self._notebook)},
        }

    @property
    def _info(self) -> Json:
        return {"name": "notes", "title": f"Notes ({self._notebook.dataset})", "version": VERSION}

    def serve(self, lines: BinaryIO) -> None:
        """Answer messages until the pipe ends."""
        while line := lines.readline(MAX_LINE):
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                self._send({"id": None, "error": {"code": -32700, "message": "Parse error"}})
                continue
            if isinstance(message, dict) and isinstance(message.get("method"), str):
                self._receive(message)

    def _send(self, message: Json) -> None:
        self._out.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._out.flush()

    def _receive(self, message: Json) -> None:
        method, request_id = str(message["method"]), message.get("id")
        params = message.get("params", {})
        if not isinstance(params, dict):
            params = {}
        if request_id is None:
            if method == "notifications/cancelled":
                self._listening.discard(params.get("requestId", ""))
            return
        if not isinstance(request_id, (str, int)):
            self._send({"id": None, "error": {"code": -32600, "message": "An id is a string or an integer."}})
            return
        try:
            result = self._answer(method, params, request_id)
        except RpcError as error:
            self._send({"id": request_id, "error": error.error})
            return
        if result is not None:
            self._send({"id": request_id, "result": result})

    def _answer(self, method: str, params: Json, request_id: str | int) -> Json | None:
        """Serve a request in the era it belongs to; None for a stream that stays open."""
        meta = params.get("_meta", {})
        if not isinstance(meta, dict):
            raise RpcError(-32602, "_meta must be an object")
        if META_VERSION not in meta and META_CAPABILITIES not in meta:
            if method == "initialize":
                return self._initialize(params)
            if self._legacy:
                return self._legacy_answer(method, params)
        if META_VERSION not in meta or META_CAPABILITIES not in meta:
            raise RpcError(-32602, f"_meta must hold {META_VERSION} and {META_CAPABILITIES}")
        if meta[META_VERSION] != MODERN:
            data: Json = {"supported": [MODERN, *LEGACY], "requested": meta[META_VERSION]}
            raise RpcError(-32022, "Unsupported protocol version", data)
        if method == "subscriptions/listen":
            self._listen(params, request_id)
            return None
        return self._modern_answer(method, params)

    def _initialize(self, params: Json) -> Json:
        self._legacy = True
        asked = str(params.get("protocolVersion"))
        return {
            "protocolVersion": asked if asked in LEGACY else LEGACY[0],
            "capabilities": CAPABILITIES,
            "serverInfo": self._info,
            "instructions": INSTRUCTIONS,
        }

    def _legacy_answer(self, method: str, params: Json) -> Json:
        if method == "ping":
            return {}
        try:
            return self._handle(method, params)
        except UnknownResource as error:
            raise RpcError(-32002, "Resource not found", {"uri": error.uri}) from None

    def _modern_answer(self, method: str, params: Json) -> Json:
        try:
            if method == "server/discover":
                result: Json = {
                    "supportedVersions": [MODERN, *LEGACY],
                    "capabilities": CAPABILITIES,
                    "instructions": INSTRUCTIONS,
                }
            else:
                result = self._handle(method, params)
        except UnknownResource as error:
            raise RpcError(-32602, "Resource not found", {"uri": error.uri}) from None
        hints: Json = {"ttlMs": 0 if "resources" in method else 300_000, "cacheScope": "public"}
        return {
            "resultType": "complete",
            **result,
            **(hints if method in CACHEABLE else {}),
            "_meta": {META_SERVER_INFO: self._info},
        }

    def _handle(self, method: str, params: Json) -> Json:
        handler = self._methods.get(method)
        if handler is None:
            raise RpcError(-32601, "Method not found")
        return handler(params)

    # Changes (2026-07-28 patterns/subscriptions; before that, a notification to the whole pipe).

    def _listen(self, params: Json, request_id: str | int) -> None:
        asked = params.get("notifications")
        wanted = isinstance(asked, dict) and asked.get("resourcesListChanged") is True
        agreed: Json = {"resourcesListChanged": True} if wanted else {}
        self._notify(
            "notifications/subscriptions/acknowledged",
            {"notifications": agreed, "_meta": {META_SUBSCRIPTION: request_id}},
        )
        if wanted and len(self._listening) < 100:
            self._listening.add(request_id)

    def _notify(self, method: str, params: Json) -> None:
        self._send({"method": method, "params": params} if params else {"method": method})

    def _changed(self) -> None:
        if self._legacy:
            self._notify("notifications/resources/list_changed", {})
        for subscription in self._listening:
            self._notify("notifications/resources/list_changed", {"_meta": {META_SUBSCRIPTION: subscription}})

    # Tools.

    def _call(self, params: Json) -> Json:
        name, arguments = params.get("name"), params.get("arguments", {})
        schema = next((tool["inputSchema"] for tool in TOOLS if tool["name"] == name), None)
        if not isinstance(name, str) or not isinstance(schema, dict):
            raise RpcError(-32602, f"Unknown tool: {str(name)[:128]}")
        if not isinstance(arguments, dict):
            raise RpcError(-32602, "arguments must be an object")
        try:
            check(arguments, schema)
            structured = self._tools[name](arguments)
        except ToolError as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        text = json.dumps(structured, ensure_ascii=False)
        return {"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": False}

    def _note(self, arguments: Json) -> Note:
        note = self._notebook.get(str(arguments["id"]))
        if note is None:
            raise ToolError(f"There is no note {arguments['id']} in {self._notebook.dataset}. list_notes shows all.")
        return note

    def _add_note(self, arguments: Json) -> Json:
        tags = arguments.get("tags", [])
        assert isinstance(tags, list)
        note = self._notebook.add(str(arguments["title"]), str(arguments["text"]), tuple(tags))
        self._changed()
        return asdict(note)

    def _list_notes(self, arguments: Json) -> Json:
        tag = arguments.get("tag")
        return self._found([note for note in self._notebook if tag is None or tag in note.tags])

    def _search_notes(self, arguments: Json) -> Json:
        words = str(arguments["query"]).casefold().split()
        limit = arguments.get("limit", 20)
        assert isinstance(limit, int)
        texts = ((note, f"{note.title} {note.text}".casefold()) for note in self._notebook)
        return self._found([note for note, text in texts if all(word in text for word in words)], limit)

    def _found(self, notes: list[Note], limit: int = MAX_NOTES) -> Json:
        return {"notes": [asdict(note) for note in notes[:limit]], "total": len(notes)}

    def _delete_note(self, arguments: Json) -> Json:
        note = self._note(arguments)
        self._notebook.delete(note.id)
        self._changed()
        return {"deleted": note.id}

    # Prompts, resources, completion.

    def _prompt(self, params: Json) -> Json:
        if params.get("name") != PROMPT["name"]:
            raise RpcError(-32602, f"Unknown prompt: {str(params.get('name'))[:128]}")
        arguments = params.get("arguments", {})
        tag = arguments.get("tag") if isinstance(arguments, dict) else None
        notes = [note for note in self._notebook if not tag or tag in note.tags]
        body = "\n\n".join(f"# {note.title}\n{note.text}" for note in notes) or "(no notes)"
        text = f"Summarize these notes from {self._notebook.dataset}:\n\n{body}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}

    def _resource(self, note: Note) -> Json:
        return {"uri": f"note://{note.id}", "name": note.id, "title": note.title, "mimeType": "text/plain"}

    def _read(self, params: Json) -> Json:
        uri = str(params.get("uri"))[:256]
        note = self._notebook.get(uri.removeprefix("note://")) if uri.startswith("note://") else None
        if note is None:
            raise UnknownResource(uri)
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"{note.title}\n\n{note.text}"}]}

    def _complete(self, params: Json) -> Json:
        ref, argument = params.get("ref"), params.get("argument")
        if not isinstance(ref, dict) or not isinstance(argument, dict):
            raise RpcError(-32602, "ref and argument must be objects")
        if ref.get("type") == "ref/prompt" and ref.get("name") == PROMPT["name"]:
            values = self._notebook.tags()
        elif ref.get("type") == "ref/resource" and ref.get("uri") == TEMPLATE["uriTemplate"]:
            values = [note.id for note in self._notebook]
        else:
            raise RpcError(-32602, "Unknown reference")
        matching = [value for value in values if value.startswith(str(argument.get("value", "")))]
        completion = {"values": matching[:100], "total": len(matching), "hasMore": len(matching) > 100}
        return {"completion": completion}


def main() -> None:
    """Serve one dataset until the pipe ends."""
    parser = argparse.ArgumentParser(description="A notes server over stdio.")
    parser.add_argument("--dataset", required=True, help="what whoami answers")
    parser.add_argument("--file", required=True, type=Path, help="JSON file that keeps the notes")
    parser.add_argument("--seed", type=Path, help="notes to begin with when the file is not there yet")
    options = parser.parse_args()
    if options.seed is not None and not options.file.exists():
        options.file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(options.seed, options.file)
    sys.stderr.write(f"notes: serving {options.dataset}\n")
    Server(Notebook(options.dataset, options.file), sys.stdout.buffer).serve(sys.stdin.buffer)


if __name__ == "__main__":
    main()
