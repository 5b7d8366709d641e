"""Approvals for tests: a ledger on a real file, and what a chain needs of it."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from gateway.approvals.entry import Entry
from gateway.approvals.file import ApprovalFile
from gateway.approvals.ledger import Bounds, Ledger
from gateway.model.call import Call
from gateway.pipeline.approve import Desk
from gateway.pipeline.passes import Passes
from gateway.state.folder import FolderDocuments
from gateway.state.memory import MemoryStore
from gateway.state.sealing import Sealer
from tests.kit.gateway import Gateway, Json

SEALER = Sealer([b"s" * 32])


class Clock:
    """Seconds since the epoch that a test may move."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class Told:
    """Remembers what became of entries."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Entry]] = []

    def __call__(self, outcome: str, entry: Entry) -> None:
        self.events.append((outcome, entry))

    @property
    def outcomes(self) -> list[str]:
        return [outcome for outcome, _ in self.events]


def file(folder: Path) -> ApprovalFile:
    """Return the file in a folder."""
    return ApprovalFile(FolderDocuments(folder), SEALER)


def ledger(
    folder: Path, told: Told | None = None, clock: Callable[[], float] = time.time, bounds: Bounds | None = None
) -> Ledger:
    """Return a ledger over the file in a folder."""
    return Ledger(file(folder), told or Told(), clock, bounds)


def definition(call: Call) -> str:
    """Return the digest of what a call names, which never changes."""
    return call.definition.digest if call.definition is not None else ""


def desk(folder: Path, entries: Ledger | None = None) -> Desk:
    """Return what the approve step needs."""
    return Desk(entries or ledger(folder), Passes(MemoryStore(), SEALER), definition)


# The running gateway, as its people see it.


def token_of(gateway: Gateway) -> str:
    """Return the token that the gateway made for its only admin."""
    return (gateway.folder / "state" / "admin.token").read_text().strip()


def ask_admin(gateway: Gateway, path: str, body: Json | None = None, token: str = "") -> tuple[int, Json]:
    """GET from the admin listener as a user, or POST."""
    headers = {"Authorization": f"Bearer {token or token_of(gateway)}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    question = urllib.request.Request(f"http://127.0.0.1:{gateway.admin_port}{path}", data, headers)
    try:
        with urllib.request.urlopen(question, timeout=5) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def waiting(gateway: Gateway, token: str = "", **facts: str) -> list[Json]:
    """Return what the list shows, as far as it has these facts."""
    code, answer = ask_admin(gateway, "/approvals", token=token)
    assert code == 200, answer
    rows: list[Json] = answer["approvals"]
    return [row for row in rows if all(row[name] == text for name, text in facts.items())]


async def awaited(gateway: Gateway, token: str = "", **facts: str) -> Json:
    """Wait until exactly one approval has these facts, and return it."""
    deadline = time.monotonic() + 5
    while True:
        found = await asyncio.to_thread(waiting, gateway, token, **facts)
        if len(found) == 1:
            return found[0]
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.02)


async def decide(gateway: Gateway, verb: str, entry_id: str, token: str = "", reason: str = "") -> int:
    """Approve or deny over the admin listener; returns the status."""
    body: Json = {"id": entry_id, "reason": reason} if verb == "deny" else {"id": entry_id}
    return (await asyncio.to_thread(ask_admin, gateway, f"/approvals/{verb}", body, token))[0]
