"""A stdio server that writes what a call tells it to, byte for byte: ``field_server.py [--era ERA] [OPTIONS]``.

``--era`` is ``modern`` or ``legacy`` (the default). ``--log FILE`` gets every line that arrives, as it arrived.
``--tools FILE`` holds a JSON list of definitions to show after its own; it is read again for every list, which is cut
into pages of ``--page N``. ``--starts FILE`` gets a line for every start. Tools of its own:

  ``say`` writes each text in ``write`` as it is, with ``{ID}`` and ``{TOKEN}`` replaced, ``[text, N]`` N times;
  a number is a wait;
  ``incr`` and ``get`` count in this process; ``changed`` announces changed tools; anything else returns its arguments.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

MODERN, LEGACY = "2026-07-28", "2025-11-25"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
OWN = ("say", "incr", "get", "changed")


def option(name: str, default: str = "") -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


class Server:
    def __init__(self) -> None:
        self.modern = option("--era", "legacy") == "modern"
        self.count = 0
        self.listens: list[object] = []
        self.lock = threading.Lock()

    def write(self, text: str) -> None:
        with self.lock:
            sys.stdout.buffer.write(text.encode())
            sys.stdout.buffer.flush()

    def send(self, **message: object) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")

    def handle(self, message: Json) -> None:
        identifier, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if identifier is None or method is None:
            return
        done: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if self.modern else {}
        info, offers = {"name": "field", "version": "1.0"}, {"tools": {"listChanged": True}}
        match method:
            case "initialize" if not self.modern:
                hello = {"protocolVersion": LEGACY, "capabilities": offers, "serverInfo": info}
                self.send(id=identifier, result=hello)
            case "server/discover" if self.modern:
                self.send(id=identifier, result={**done, "supportedVersions": [MODERN], "capabilities": offers})
            case "subscriptions/listen" if self.modern:
                self.listens.append(identifier)
                said = {"_meta": {SUBSCRIPTION: identifier}, "notifications": {"toolsListChanged": True}}
                self.send(method="notifications/subscriptions/acknowledged", params=said)
            case "tools/list":
                self.send(id=identifier, result={**done, **self.page(params)})
            case "tools/call":
                self.call(identifier, params, {"resultType": "complete"} if self.modern else {})
            case _:
                self.send(id=identifier, error={"code": -32601, "message": "Method not found"})

    def page(self, params: Json) -> Json:
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in OWN]
        if option("--tools"):
            tools += json.loads(Path(option("--tools")).read_text())
        start, size = int(params.get("cursor", "0")), int(option("--page", "1000"))
        more = {"nextCursor": str(start + size)} if start + size < len(tools) else {}
        return {"tools": tools[start : start + size], **more}

    def call(self, identifier: object, params: Json, done: Json) -> None:
        arguments = params.get("arguments") or {}
        match params.get("name"):
            case "say":
                token = json.dumps((params.get("_meta") or {}).get("progressToken"))
                for piece in arguments["write"]:
                    if isinstance(piece, str):
                        self.write(piece.replace("{ID}", json.dumps(identifier)).replace("{TOKEN}", token))
                    elif isinstance(piece, list):
                        self.write(piece[0] * piece[1])
                    else:
                        time.sleep(piece)
                return
            case "incr" | "get" as name:
                self.count += name == "incr"
                told = str(self.count)
            case "changed":
                for listen in self.listens if self.modern else [None]:
                    about: Json = {} if listen is None else {"_meta": {SUBSCRIPTION: listen}}
                    self.send(method="notifications/tools/list_changed", params=about)
                told = "announced"
            case _:
                told = json.dumps(arguments)
        self.send(id=identifier, result={**done, "content": [{"type": "text", "text": told}]})


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "--stubborn" in sys.argv else signal.SIG_DFL)
    if option("--starts"):
        with open(option("--starts"), "a") as starts:
            starts.write(f"{os.getpid()}\n")
    server = Server()
    for line in sys.stdin.buffer:
        if option("--log"):
            with open(option("--log"), "ab") as log:
                log.write(line)
        threading.Thread(target=server.handle, args=(json.loads(line),), daemon=True).start()
    while "--stubborn" in sys.argv:
        time.sleep(60)


if __name__ == "__main__":
    main()
