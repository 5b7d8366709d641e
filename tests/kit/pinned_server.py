"""A stdio server whose definitions stand in a file: ``python -I -S pinned_server.py --catalog FILE [--era ERA]``.

``FILE`` is JSON with ``tools`` and perhaps ``prompts``, ``resourceTemplates``, ``instructions`` and ``quiet``; each
list request reads it again. Whoever changes it writes a new file in its place, and the server says ``list_changed``
within some milliseconds, unless ``quiet`` is set. ``whoami`` returns ``--dataset``, ``die`` ends the process;
``--ledger FILE`` gets a line ``TOOL DESCRIPTION`` for each tools/call, with the description of that moment.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from tests.kit.stdio_server import SUBSCRIPTION, Json, Server, option, text

POLL = 0.02
CHANGED = ("tools", "prompts", "resources")


class Pinned(Server):
    """Serves what the file says at the moment."""

    def __init__(self) -> None:
        super().__init__()
        self.path = option("--catalog", "catalog.json")
        self.dataset = option("--dataset", "none")
        self.ledger = option("--ledger", "")
        threading.Thread(target=self.watch, daemon=True).start()

    def catalog(self) -> Json:
        with open(self.path, encoding="utf-8") as file:
            found: Json = json.load(file)
        return found

    def watch(self) -> None:
        before = os.stat(self.path).st_ino
        while True:
            time.sleep(POLL)
            try:
                now = os.stat(self.path).st_ino
            except OSError:
                continue
            if now != before:
                before = now
                if not self.catalog().get("quiet"):
                    self.say_changed()

    def say_changed(self) -> None:
        for kind in CHANGED:
            for identifier, wanted in dict(self.listens).items():
                if wanted.get(f"{kind}ListChanged") and identifier not in self.cancelled:
                    self.notify(f"notifications/{kind}/list_changed", {"_meta": {SUBSCRIPTION: identifier}})
            if self.era != "modern" and not self.listens:
                self.notify(f"notifications/{kind}/list_changed", {})

    def answer(self, method: str, identifier: object, params: Json) -> Json | None:
        extra = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if self.modern(params) else {}
        lists = {
            "prompts/list": "prompts",
            "resources/list": "resources",
            "resources/templates/list": "resourceTemplates",
        }
        if method in lists:
            return {"result": {**extra, lists[method]: self.catalog().get(lists[method], [])}}
        if method == "prompts/get":
            message = {"role": "user", "content": {"type": "text", "text": self.dataset}}
            return {"result": {**extra, "messages": [message]}}
        if method == "resources/read":
            content = {"uri": params.get("uri"), "text": self.dataset}
            return {"result": {**extra, "contents": [content]}}
        found: Json | None = super().answer(method, identifier, params)
        if method in ("initialize", "server/discover") and found is not None and "result" in found:
            capabilities = {kind: {"listChanged": True} for kind in CHANGED}
            found["result"] |= {"capabilities": capabilities, "instructions": self.catalog().get("instructions", "")}
        return found

    def tools(self) -> list[Json]:
        listed: list[Json] = self.catalog()["tools"]
        return listed

    def listen(self, identifier: object, params: Json) -> None:
        wanted = params.get("notifications") or {}
        self.listens[identifier] = wanted
        agreed = {key: True for key in wanted if key.endswith("ListChanged")}
        self.notify(
            "notifications/subscriptions/acknowledged", {"_meta": {SUBSCRIPTION: identifier}, "notifications": agreed}
        )

    def call(self, name: object, args: Json, identifier: object, params: Json) -> Json | None:
        tools = {tool["name"]: tool for tool in self.tools()}
        if self.ledger:
            with open(self.ledger, "a", encoding="utf-8") as file:
                file.write(f"{name} {tools.get(name, {}).get('description', '')}\n")
        if name == "whoami":
            return {**text(self.dataset), "structuredContent": {"dataset": self.dataset}}
        if name == "die":
            os._exit(3)
        if name not in tools:
            return {"error": {"code": -32602, "message": "Unknown tool"}}
        return text(f"{name} of {self.dataset}")


def main() -> None:
    server = Pinned()
    for line in sys.stdin.buffer:
        message = json.loads(line)
        threading.Thread(target=server.handle, args=(message,), daemon=True).start()


if __name__ == "__main__":
    main()
