"""A scripted stdio MCP server, standard library only: ``python -I -S stdio_server.py [--era legacy] [MODE…]``.

Eras: ``modern`` (knows only server/discover), ``legacy`` (knows only initialize), ``both`` (the default).
``--name NAME`` sets serverInfo and a word in every answer of ``whoami``. Tools: see ``TOOLS``.

Modes, several at once:
  ``noeof`` lives on after EOF; ``ignoreterm`` ignores SIGTERM; ``fork=N`` starts N children that ignore both and
  hold the pipes; ``crash=NAME`` says a variable and ends with code 3 before reading; ``silent`` never answers;
  ``slow=SECONDS`` before each answer; ``noread=MESSAGES`` stops reading after as many (default 1); ``duplicate``
  answers twice; ``crlf``; ``contentlength``; ``chunks`` writes byte by byte; ``banner`` prints lines that are no MCP
  first; ``stderrflood=BYTES`` before the first answer; ``catalog=TOOLS`` lists as many more tools, with schemas;
  ``ledger=FILE`` appends the arguments of each tools/call before anything else; ``record=FILE`` all that arrives.
Modes of a tools/call: ``silent-on-call``; ``wrongid`` answers with the id as a string; ``exit-on-call=CODE``;
  ``flood`` writes without a newline for ever; ``garbage=LINES`` before the answer; ``badutf8``.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

MODERN, LEGACY = "2026-07-28", "2025-11-25"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
TOOLS = {
    "echo": "Returns its arguments.",
    "whoami": "Returns name, pid, parent and process group.",
    "big": "Returns `size` characters.",
    "u2028": "Returns raw line and paragraph separators.",
    "sleep": "Waits `seconds`, ends early when cancelled.",
    "progress": "Reports `steps` times, then answers.",
    "log": "Sends one log message, then answers.",
    "fail": "Returns isError.",
    "error": "Returns the JSON-RPC error `code`.",
    "ask": "Asks the client for a `word` (elicitation) and returns the answer.",
    "asks": "Asks `rounds` of methods, each round at once (legacy); returns the answers in order.",
    "declared": "Returns the client's capabilities as of the handshake.",
    "change": "Changes the list of tools and says so.",
    "env": "Returns the environment.",
    "fds": "Returns the open descriptors, umask, no_new_privs, limits and argv.",
    "children": "Returns the pids of the forked children.",
    "cancelled": "Returns the ids that were cancelled.",
    "allocate": "Allocates `size` bytes.",
}


def setting(name: str, default: str = "") -> str | None:
    """Value of a mode, the default for one without a value, None where the mode is off."""
    for argument in sys.argv[1:]:
        key, _, value = argument.partition("=")
        if key == name:
            return value or default
    return None


def option(name: str, default: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


class Server:
    def __init__(self) -> None:
        self.era = option("--era", "both")
        self.name = option("--name", "scripted")
        self.extra = 0
        self.lock = threading.RLock()
        self.children: list[int] = []
        self.cancelled: list[object] = []
        self.listens: dict[object, Json] = {}
        self.answers: dict[object, Json] = {}
        self.arrived = threading.Condition()
        self.declared: Json = {}
        self.asked = 0

    def write(self, message: Json) -> None:
        data = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        if setting("contentlength") is not None:
            data = b"Content-Length: %d\r\n\r\n" % len(data) + data
        else:
            data += b"\r\n" if setting("crlf") is not None else b"\n"
        if setting("badutf8") is not None and '"content"' in data.decode():
            data = data.replace(b'"text":"', b'"text":"\xc3\x28', 1)
        step = 1 if setting("chunks") is not None else len(data)
        with self.lock:
            for at in range(0, len(data), step):
                os.write(1, data[at : at + step]) if step == 1 else write_all(data)

    def notify(self, method: str, params: Json) -> None:
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def reply(self, identifier: object, body: Json) -> None:
        if setting("silent") is not None:
            return
        time.sleep(float(setting("slow", "0.2") or 0))
        for _ in range(2 if setting("duplicate") is not None else 1):
            self.write({"jsonrpc": "2.0", "id": identifier, **body})

    def handle(self, message: Json) -> None:
        method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None:
            with self.arrived:
                self.answers[identifier] = message
                self.arrived.notify_all()
        elif method == "notifications/cancelled":
            with self.arrived:
                self.cancelled.append(params.get("requestId"))
                self.arrived.notify_all()
        elif identifier is not None:
            body = self.answer(method, identifier, params)
            wrong = method == "tools/call" and setting("wrongid") is not None
            if body is not None:
                self.reply(str(identifier) if wrong else identifier, body)

    def answer(self, method: str, identifier: object, params: Json) -> Json | None:
        caps = {"tools": {"listChanged": True}, "logging": {}}
        info = {"name": self.name, "version": "1.0"}
        cache = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if self.modern(params) else {}
        if method == "initialize" and self.era != "modern":
            self.declared = params.get("capabilities") or {}
            version = params.get("protocolVersion", LEGACY)
            version = version if version < MODERN else LEGACY
            return {"result": {"protocolVersion": version, "capabilities": caps, "serverInfo": info}}
        if method == "server/discover" and self.era != "legacy":
            meta = {"_meta": {"io.modelcontextprotocol/serverInfo": info}}
            return {"result": {**cache, **meta, "supportedVersions": [MODERN], "capabilities": caps}}
        if method == "ping":
            return {"result": {}}
        if method == "logging/setLevel":
            return {"result": {}}
        if method == "tools/list":
            return {"result": {**cache, "tools": self.tools()}}
        if method == "subscriptions/listen" and self.era != "legacy":
            self.listen(identifier, params)
            return None
        if method == "tools/call":
            done = {"resultType": "complete"} if self.modern(params) else {}
            body = self.call(params.get("name"), params.get("arguments") or {}, identifier, params)
            return body if body is None or "error" in body else {"result": {**done, **body}}
        return {"error": {"code": -32601, "message": "Method not found"}}

    def modern(self, params: Json) -> bool:
        return "io.modelcontextprotocol/protocolVersion" in (params.get("_meta") or {})

    def tools(self) -> list[Json]:
        names = {**TOOLS, **{f"extra{n}": "Appeared later." for n in range(self.extra)}}
        plain = [{"name": n, "description": d, "inputSchema": {"type": "object"}} for n, d in names.items()]
        return plain + [bulky(n) for n in range(int(setting("catalog", "1000") or 0))]

    def listen(self, identifier: object, params: Json) -> None:
        wanted = params.get("notifications") or {}
        self.listens[identifier] = wanted
        agreed = {"toolsListChanged": True} if wanted.get("toolsListChanged") else {}
        self.notify(
            "notifications/subscriptions/acknowledged", {"_meta": {SUBSCRIPTION: identifier}, "notifications": agreed}
        )

    def call(self, name: object, args: Json, identifier: object, params: Json) -> Json | None:
        if (ledger := setting("ledger", "ledger.jsonl")) is not None:
            with open(ledger, "ab", buffering=0) as file:
                file.write(json.dumps(args).encode() + b"\n")
        if (code := setting("exit-on-call", "7")) is not None:
            sys.stderr.write("giving up\n")
            sys.stderr.flush()
            os._exit(int(code))
        if setting("silent-on-call") is not None:
            return None
        while setting("flood") is not None:
            write_all(b"x" * 65536)
        for n in range(int(setting("garbage", "5") or 0)):
            write_all(b"noise %d\n" % n)
        return self.tool(name, args, identifier, params)

    def tool(self, name: object, args: Json, identifier: object, params: Json) -> Json | None:
        token = (params.get("_meta") or {}).get("progressToken")
        match name:
            case "echo":
                return {**text(json.dumps(args)), "structuredContent": args}
            case "whoami":
                who = {"name": self.name, "pid": os.getpid(), "parent": os.getppid(), "group": os.getpgrp()}
                return {**text(json.dumps(who)), "structuredContent": who}
            case "big":
                return text("x" * int(args.get("size", 70000)))
            case "u2028":
                return text("a\u2028b\u0085c\u2029d\re")
            case "sleep":
                with self.arrived:
                    over = self.arrived.wait_for(lambda: identifier in self.cancelled, float(args.get("seconds", 60)))
                return None if over else text("slept")
            case "progress":
                for step in range(int(args.get("steps", 3))) if token is not None else ():
                    self.notify("notifications/progress", {"progressToken": token, "progress": step})
                return text("done")
            case "log":
                self.notify("notifications/message", {"level": "info", "data": args.get("data", "hello")})
                return text("logged")
            case "fail":
                return {**text("failed"), "isError": True}
            case "error":
                return {"error": {"code": int(args.get("code", -32000)), "message": "asked for", "data": {"n": 1}}}
            case "ask":
                return self.ask(params)
            case "asks":
                return text(json.dumps([self.question(each) for each in args.get("rounds", [["elicitation/create"]])]))
            case "declared":
                return text(json.dumps(self.declared))
            case "change":
                self.change()
                return text("changed")
            case "env":
                return text(json.dumps(dict(os.environ)))
            case "fds":
                return text(json.dumps(facts()))
            case "children":
                return text(json.dumps(self.children))
            case "cancelled":
                return text(json.dumps(self.cancelled))
            case "allocate":
                return text(str(len(bytearray(int(args.get("size", 2**32))))))
        if name in {f"extra{n}" for n in range(self.extra)}:
            return text("extra")
        return {"error": {"code": -32602, "message": "Unknown tool"}}

    def change(self) -> None:
        self.extra += 1
        for identifier, wanted in self.listens.items():
            if wanted.get("toolsListChanged") and identifier not in self.cancelled:
                self.notify("notifications/tools/list_changed", {"_meta": {SUBSCRIPTION: identifier}})
        if self.era != "modern" and not self.listens:
            self.notify("notifications/tools/list_changed", {})

    def question(self, asked: list[str]) -> list[Json]:
        """Send requests of these methods at once and wait for all their answers."""
        with self.lock:
            ids = [f"q-{self.asked + n}" for n in range(len(asked))]
            self.asked += len(asked)
        for identifier, method in zip(ids, asked, strict=True):
            self.write({"jsonrpc": "2.0", "id": identifier, "method": method, "params": {"of": identifier}})
        with self.arrived:
            self.arrived.wait_for(lambda: all(each in self.answers for each in ids), 30)
            return [self.answers.get(each, {}) for each in ids]

    def ask(self, params: Json) -> Json:
        schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
        question = {"message": "Which word?", "requestedSchema": schema}
        if self.modern(params):
            given = (params.get("inputResponses") or {}).get("word")
            if given is None:
                asks = {"word": {"method": "elicitation/create", "params": {"mode": "form", **question}}}
                return {"resultType": "input_required", "inputRequests": asks, "requestState": f"{self.name}-state"}
            return text(json.dumps({"answer": given, "state": params.get("requestState")}))
        # An id of its own each time: a call that was cancelled may still wait, and must not take another's answer.
        with self.lock:
            self.asked += 1
            identifier = f"ask-{self.asked}"
        self.write({"jsonrpc": "2.0", "id": identifier, "method": "elicitation/create", "params": question})
        with self.arrived:
            self.arrived.wait_for(lambda: identifier in self.answers, 30)
            given = self.answers.pop(identifier, {})
        return text(json.dumps({"answer": given.get("result"), "error": given.get("error")}))


def bulky(number: int) -> Json:
    field = {"type": "string", "description": "One of many fields, described at some length.", "maxLength": 200}
    schema = {"type": "object", "properties": {f"field{n}": field for n in range(10)}, "required": ["field0"]}
    return {"name": f"bulky{number}", "description": "A tool among very many. " * 8, "inputSchema": schema}


def write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def text(value: str) -> Json:
    return {"content": [{"type": "text", "text": value}]}


def facts() -> Json:
    mask = os.umask(0o077)
    os.umask(mask)
    status = ""
    if os.path.exists("/proc/self/status"):
        with open("/proc/self/status") as file:
            status = file.read()
    fds = [fd for fd in range(256) if is_open(fd)]
    return {"fds": fds, "umask": mask, "argv": sys.argv[1:], "cwd": os.getcwd(), "status": status, **limits()}


def limits() -> Json:
    kinds = {"core": resource.RLIMIT_CORE, "files": resource.RLIMIT_NOFILE, "data": resource.RLIMIT_DATA}
    return {name: resource.getrlimit(kind) for name, kind in kinds.items()}


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def prepare(server: Server) -> None:
    if setting("ignoreterm") is not None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if setting("crash") is not None:
        sys.stderr.write(f"cannot start: no key {os.environ.get(setting('crash') or '', '')}".rstrip() + "\n")
        sys.exit(3)
    for _ in range(int(setting("fork", "3") or 0)):
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(60)
        server.children.append(pid)
    if setting("banner") is not None:
        write_all(b'Server v1.2 ready\n\n[1,2,3]\nnull\n"hi"\n{"a":1}\n')
    flood = int(setting("stderrflood", "10485760") or 0)
    os.set_blocking(2, True)
    while flood > 0:
        flood -= os.write(2, b"e" * min(flood, 65536))


def main() -> None:
    server = Server()
    prepare(server)
    left = int(setting("noread", "1") or -1)
    record = setting("record")
    for line in sys.stdin.buffer:
        if record:
            with open(record, "ab") as file:
                file.write(line)
        if line.strip():
            threading.Thread(target=server.handle, args=(json.loads(line),), daemon=True).start()
        left -= 1
        while left == 0:
            time.sleep(60)
    while setting("noeof") is not None:
        time.sleep(60)


if __name__ == "__main__":
    main()
