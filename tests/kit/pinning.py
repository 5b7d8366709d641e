"""Servers whose definitions a test changes while they run, and what a gateway says of their pins."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from gateway.alerts.alerts import Alerts, Means
from gateway.audit.keys import AuditKey
from gateway.news import News
from gateway.protocol.rawjson import Object
from gateway.telemetry.metrics import Metrics
from tests.kit.gateway import Gateway, Json, eventually

SCRIPT = Path(__file__).with_name("pinned_server.py")


def tool(name: str, **members: Any) -> Json:
    """Return a tool as a server lists it."""
    schema = {"type": "object", "properties": {"q": {"type": "string", "description": "what to look for"}}}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, **members}


def twenty() -> list[Json]:
    """Return ``whoami`` and nineteen tools more."""
    return [tool("whoami"), *(tool(f"t{number}") for number in range(1, 20))]


class Definitions:
    """The file that a server lists from."""

    def __init__(self, path: Path, tools: list[Json] | None = None, **members: Any) -> None:
        self.path = path
        self.body: Json = {"tools": twenty() if tools is None else tools, **members}
        self.write()

    def write(self) -> None:
        """Put the definitions in force; the server says that they have changed."""
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps(self.body))
        beside.replace(self.path)

    def tool(self, name: str) -> Json:
        """Return one tool, to be changed in place before ``write``."""
        found: Json = next(each for each in self.body["tools"] if each["name"] == name)
        return found

    def server(self, *words: str, **settings: Any) -> Json:
        """Return the config of a server that lists from here; everybody shares it unless told otherwise."""
        command = [str(SCRIPT), "--catalog", str(self.path), *words]
        return {"command": sys.executable, "args": ["-I", "-S", *command], "isolation": "shared", **settings}


def pins(gateway: Gateway, server: str) -> Json:
    """Return what the admin listener says of a server's pins."""
    code, body = gateway.admin(f"/pins?target={server}")
    assert code == 200, body
    found: Json = json.loads(body)["servers"][server]
    return found


def decide(gateway: Gateway, verb: str, target: str, digests: Json | None = None) -> int:
    """Approve or reject as the admin, by default what differs now; returns the status."""
    server = target.partition("/")[0]
    if digests is None:
        shown = json.loads(gateway.admin(f"/pins?target={target}")[1])["servers"][server]["differences"]
        digests = {each["item"]: each["after"] for each in shown}
    question = urllib.request.Request(
        f"http://127.0.0.1:{gateway.admin_port}/pins/{verb}",
        json.dumps({"target": target, "digests": digests}).encode(),
        {
            "Authorization": f"Bearer {(gateway.folder / 'state' / 'admin.token').read_text().strip()}",
            "Content-Type": "application/json",
        },
    )
    try:
        with urllib.request.urlopen(question, timeout=5) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code)


def await_state(gateway: Gateway, server: str, state: str) -> None:
    """Wait until a server's pin stands so."""
    eventually(lambda: pins(gateway, server)["state"] == state, f"{server} is {state}")


def events(gateway: Gateway, *names: str, server: str = "") -> list[Json]:
    """Return the audit records of these events."""
    found = [record for record in gateway.records() if record["event"] in names]
    return [record for record in found if not server or record.get("server") == server]


def news_of(entries: list[Object], metrics: Metrics) -> News:
    """Return news whose alerts are raised as in a gateway."""
    return News(entries.append, metrics, Alerts(Means(entries.append, metrics, AuditKey.of(b"k" * 32))).raised)
