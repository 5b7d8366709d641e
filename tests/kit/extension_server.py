"""A scripted stdio MCP server with extensions, standard library only: ``python -I -S extension_server.py OPTIONS``.

``--era modern|legacy``; ``--name NAME``; ``--extensions JSON`` are what it declares; ``--unlisted`` leaves its view out
of its resources. It has MCP Apps for clients that declare them, a method ``search/run``, and tools that tell what
arrived, carry trace context, and withdraw or complete their own questions.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

MODERN, LEGACY = "2026-07-28", "2025-11-25"
META = "io.modelcontextprotocol/"
UI = META + "ui"
VIEW = "ui://board/main.html"
TRACE = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
    "tracestate": "a=b",
    "baggage": "who=server",
}
BROKEN = {"traceparent": "00-zz-1", "tracestate": "a=b"}
PLAIN = ("meta", "tell", "question", "link", "linked", "finish", "withdraw", "page", "form")
"""Tools beside those of MCP Apps."""


def option(name: str, default: str) -> str:
    """Value of an option."""
    arguments = sys.argv[1:]
    return arguments[arguments.index(name) + 1] if name in arguments else default


class Server:
    """One process."""

    def __init__(self) -> None:
        self.era = option("--era", "modern")
        self.name = option("--name", "scripted")
        self.extensions: Json = json.loads(option("--extensions", "{}"))
        self.declared: Json = {}
        self.lock = threading.Lock()
        self.answers: Json = {}
        self.arrived = threading.Condition()
        self.signal = threading.Event()
        self.asked = 0

    def write(self, message: Json) -> None:
        with self.lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            threading.Thread(target=self.handle, args=(message,), daemon=True).start()

    def handle(self, message: Json) -> None:
        if "method" not in message:
            with self.arrived:
                self.answers[message["id"]] = message
                self.arrived.notify_all()
        elif "id" in message:
            body = self.answer(message["method"], message.get("params") or {})
            if body is not None:
                self.write({"id": message["id"], **body})

    def answer(self, method: str, params: Json) -> Json | None:
        modern = self.era == "modern"
        cache = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if modern else {}
        features = {"tools": {}, "resources": {}, "logging": {}, "extensions": self.extensions}
        info = {"name": self.name, "version": "1.0"}
        match method:
            case "initialize" if not modern:
                self.declared = params["capabilities"]
                return {"result": {"protocolVersion": LEGACY, "capabilities": features, "serverInfo": info}}
            case "server/discover" if modern:
                return {"result": {**cache, "supportedVersions": [MODERN], "capabilities": features}}
            case "ping" | "logging/setLevel":
                return {"result": {}}
            case "tools/list":
                return {"result": {**cache, "tools": self.tools(params)}}
            case "resources/list":
                view = {"uri": VIEW, "name": "board", "mimeType": "text/html;profile=mcp-app"}
                return {"result": {**cache, "resources": [] if "--unlisted" in sys.argv else [view]}}
            case "resources/templates/list":
                return {"result": {**cache, "resourceTemplates": []}}
            case "resources/read" if params["uri"] == VIEW:
                content = {"uri": VIEW, "mimeType": "text/html;profile=mcp-app", "text": self.name}
                return {"result": {**cache, "contents": [content]}}
            case "search/run":
                if params.get("signal"):
                    self.signal.set()
                found = {"_meta": TRACE, "hit": self.name, "big": 12345678901234567890}
                self.write({"method": "notifications/search/found", "params": found})
                self.write({"method": "notifications/tools/odd", "params": {}})
                kind = {"resultType": "com.example/partial"} if params.get("partial") else {}
                told = {**kind, "params": params, "capabilities": self.capabilities(params), "n": 1.50}
                return {"result": {"resultType": "complete", **told} if modern else told}
            case "tools/call":
                body = self.call(params)
                return (
                    {"result": {"resultType": "complete", **body} if modern else body} if "error" not in body else body
                )
        return {"error": {"code": -32601, "message": "Method not found"}}

    def capabilities(self, params: Json) -> Json:
        """What this request's client can do, as far as this server was told."""
        if self.era != "modern":
            return self.declared
        declared: Json = params["_meta"][META + "clientCapabilities"]
        return declared

    def tools(self, params: Json) -> list[Json]:
        plain = [{"name": name, "inputSchema": {"type": "object"}} for name in PLAIN]
        if UI not in self.capabilities(params).get("extensions", {}):
            return [*plain, {"name": "show", "inputSchema": {"type": "object"}}]
        show = {"ui": {"resourceUri": VIEW, "csp": {}}, "ui/resourceUri": VIEW, "com.example/x": 1}
        refresh = {"ui": {"resourceUri": VIEW, "visibility": ["app"]}}
        apps = [("show", show), ("refresh", refresh)]
        return [*plain, *({"name": name, "inputSchema": {"type": "object"}, "_meta": meta} for name, meta in apps)]

    def call(self, params: Json) -> Json:
        match params["name"]:
            case "show" | "refresh":
                link = {"type": "resource_link", "uri": VIEW, "name": "board"}
                return {"content": [link], "_meta": {"ui": {"resourceUri": VIEW}}}
            case "meta":
                return said({"meta": params.get("_meta", {}), "capabilities": self.capabilities(params)})
            case "tell":
                token = (params.get("_meta") or {}).get("progressToken")
                progress = {"progressToken": token, "progress": 1, "_meta": {**TRACE, "com.example/k": 1}}
                self.write({"method": "notifications/progress", "params": progress})
                self.write(
                    {"method": "notifications/message", "params": {"level": "info", "data": "x", "_meta": BROKEN}}
                )
                return {**said({}), "_meta": TRACE}
            case "question":
                return self.question(params)
            case "page":
                page = {"mode": "url", "message": "Open it", "url": params["arguments"]["url"], "elicitationId": "p"}
                return said({"answer": self.wait(self.ask(page)).get("result")})
            case "form":
                schema = {"type": "object", "properties": {params["arguments"]["field"]: {"type": "string"}}}
                asks = {"message": "Tell me", "requestedSchema": schema}
                return said({"answer": self.wait(self.ask(asks)).get("result")})
            case "link" | "linked":
                return self.link(params["name"])
            case "finish":
                self.complete(params["arguments"]["id"])
                return said({})
            case "withdraw":
                asks = {"message": "Still there?", "requestedSchema": {"type": "object", "properties": {}}}
                identifier = self.ask(asks)
                self.signal.wait(30)
                self.signal.clear()
                self.write({"method": "notifications/cancelled", "params": {"requestId": identifier}})
                return said({"went": "on"})
        return {"error": {"code": -32602, "message": "Unknown tool"}}

    def question(self, params: Json) -> Json:
        """Ask with trace context, in the words of the era."""
        asks = {"message": "Why?", "requestedSchema": {"type": "object", "properties": {}}, "_meta": TRACE}
        if self.era != "modern":
            return said({"answer": self.wait(self.ask(asks)).get("result")})
        given = params.get("inputResponses")
        if given is None:
            question = {"why": {"method": "elicitation/create", "params": {"mode": "form", **asks}}}
            extra = {"x-future": [1.50], "_meta": {**TRACE, "com.example/k": 1}}
            return {"resultType": "input_required", "inputRequests": question, "requestState": "s", **extra}
        return said({"answer": given})

    def link(self, name: str) -> Json:
        """Send people to a page, as a question or as an error."""
        identifier = f"{self.name}-{name}"
        page = {"mode": "url", "message": "Open it", "url": "https://example.com/", "elicitationId": identifier}
        if name == "linked":
            return {"error": {"code": -32042, "message": "Open it", "data": {"elicitations": [page]}}}
        answer = self.wait(self.ask(page)).get("result")
        self.complete(identifier)
        self.complete("of-nobody")
        return said({"answer": answer})

    def complete(self, identifier: str) -> None:
        self.write({"method": "notifications/elicitation/complete", "params": {"elicitationId": identifier}})

    def ask(self, params: Json) -> str:
        with self.lock:
            self.asked += 1
            identifier = f"ask-{self.asked}"
        self.write({"id": identifier, "method": "elicitation/create", "params": params})
        return identifier

    def wait(self, identifier: str) -> Json:
        with self.arrived:
            self.arrived.wait_for(lambda: identifier in self.answers, 30)
            answer: Json = self.answers.get(identifier, {})
            return answer


def said(value: Json) -> Json:
    """A tool's result."""
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


if __name__ == "__main__":
    Server().serve()
