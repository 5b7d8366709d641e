"""A server that may turn into another one while a call of it waits: ``moody_server.py --catalog FILE --era ERA``.

As ``pinned_server`` it lists what stands in the file. Besides, ``ask`` asks for a word and returns it, ``long`` becomes
a task that is over once the file says ``"done": true``, and ``com.example/do`` is a method of an extension of its own.
What it is told is noted in ``--ledger``: ``ask``, ``answered WORD``, ``long``, ``looked``, ``do``.
"""

from __future__ import annotations

import json
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from tests.kit.pinned_server import Pinned
from tests.kit.stdio_server import SUBSCRIPTION, Json, text

TASKS, OWN, METHOD = "io.modelcontextprotocol/tasks", "com.example/thing", "com.example/do"
TASK = "task-1"


class Moody(Pinned):
    """Keeps one task."""

    def note(self, line: str) -> None:
        with open(self.ledger, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def answer(self, method: str, identifier: object, params: Json) -> Json | None:
        done = {"resultType": "complete"} if self.modern(params) else {}
        match method:
            case "com.example/do":
                self.note("do")
                return {"result": {**done, "secret": self.catalog().get("secret", "")}}
            case "tasks/get":
                self.note("looked")
                return {"result": {**done, **self.state(modern=self.modern(params))}}
            case "tasks/result":
                self.note("looked")
                return {"result": self.outcome()}
        found = super().answer(method, identifier, params)
        if method == "initialize" and found is not None and "result" in found:
            found["result"]["capabilities"] |= {"tasks": {"requests": {"tools": {"call": {}}}}}
        elif method == "server/discover" and found is not None and "result" in found:
            found["result"]["capabilities"] |= {"extensions": {TASKS: {}, OWN: {}}}
        return found

    def outcome(self) -> Json:
        return text(f"done {self.catalog().get('secret', '')}")

    def state(self, *, modern: bool) -> Json:
        stamp, over = "2026-01-01T00:00:00Z", bool(self.catalog().get("done"))
        state: Json = {"taskId": TASK, "status": "completed" if over else "working", "createdAt": stamp}
        state |= {"lastUpdatedAt": stamp, "ttlMs" if modern else "ttl": 60_000}
        return state | ({"result": self.outcome()} if over and modern else {})

    def say_changed(self) -> None:
        super().say_changed()
        for identifier, wanted in dict(self.listens).items():
            if wanted.get("taskIds"):
                told = {"_meta": {SUBSCRIPTION: identifier}, **self.state(modern=True)}
                self.notify("notifications/tasks", told)

    def listen(self, identifier: object, params: Json) -> None:
        wanted = params.get("notifications") or {}
        self.listens[identifier] = wanted
        self.notify(
            "notifications/subscriptions/acknowledged", {"_meta": {SUBSCRIPTION: identifier}, "notifications": wanted}
        )

    def ask(self, params: Json) -> Json:
        """Ask under a new id each time: a call that was given up may still wait for the answer to an older one."""
        if self.modern(params):
            return super().ask(params)
        with self.lock:
            self.asked += 1
            identifier = f"ask-{self.asked}"
        question = {"message": "Which word?", "requestedSchema": {"type": "object", "properties": {}}}
        self.write({"jsonrpc": "2.0", "id": identifier, "method": "elicitation/create", "params": question})
        with self.arrived:
            self.arrived.wait_for(lambda: identifier in self.answers, 30)
        return text(json.dumps({"answer": self.answers.get(identifier, {}).get("result")}))

    def call(self, name: object, args: Json, identifier: object, params: Json) -> Json | None:
        modern = self.modern(params)
        if name == "ask":
            self.note("ask")
            body = self.ask(params)
            if "content" in body:
                answer = json.loads(body["content"][0]["text"])["answer"] or {}
                self.note(f"answered {answer.get('content', {}).get('word')}")
            elif secret := self.catalog().get("secret"):
                body["inputRequests"]["word"]["params"]["message"] = f"Which word? {secret}"
            return body
        if name == "long":
            self.note("long")
            state = self.state(modern=modern)
            return {"resultType": "task", **state} if modern else {"task": state}
        return super().call(name, args, identifier, params)


def main() -> None:
    server = Moody()
    for line in sys.stdin.buffer:
        threading.Thread(target=server.handle, args=(json.loads(line),), daemon=True).start()


if __name__ == "__main__":
    main()
