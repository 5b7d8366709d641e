"""Calls and steps for tests of the chain."""

from __future__ import annotations

from dataclasses import replace

from gateway.errors import AuditUnavailable
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Outcome
from gateway.model.principal import Principal
from gateway.pipeline.interceptor import Passage
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Members, Object, Value
from gateway.protocol.versions import Era

BOT = Principal("key:bot", "key", "bot", frozenset({"automation"}), credential="ab12cd34")


def call(name: str = "t", server: str = "a", arguments: Object | None = None, **changes: object) -> Call:
    """Return a ``tools/call`` of the client ``bot``."""
    params: Object = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    made = Call(
        id="01ARZ3NDEKTSV4RRFFQ69G5FAV",
        rpc_id=1,
        method="tools/call",
        params=params,
        target=Target(Kind.TOOL, server, name),
        principal=BOT,
        caller=Caller(Era.MODERN, "2026-07-28", source="127.0.0.1"),
        exposed=f"{server}__{name}",
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # reason: changes are Call's own fields.


def result(**members: Value) -> Complete:
    """Return a complete result."""
    return Complete({key: rawjson.raw(value) for key, value in members.items()})


OK = result(content=[{"type": "text", "text": "fine"}])


class Next:
    """The rest of a chain: counts its calls and answers what it was told, or raises it."""

    def __init__(self, answer: Outcome | BaseException = OK) -> None:
        self.answer = answer
        self.calls: list[Call] = []

    async def __call__(self, call: Call, passage: Passage) -> Outcome:
        self.calls.append(call)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class MemoryLog:
    """An audit log in memory; refuses when ``full``."""

    def __init__(self) -> None:
        self.entries: list[Object] = []
        self.durable: list[bool] = []
        self.full = False

    async def append(self, entry: Object, *, durable: bool) -> int:
        if self.full:
            raise AuditUnavailable("full")
        self.entries.append(entry)
        self.durable.append(durable)
        return len(self.entries)

    @property
    def events(self) -> list[Value]:
        return [entry["event"] for entry in self.entries]


def passage(**facts: object) -> Passage:
    """Return a fresh passage."""
    return Passage(Exchange(), **facts)  # type: ignore[arg-type]  # reason: facts are Passage's own fields.


def read(members: Members, key: str) -> Value:
    """Return a member of a result as a value."""
    return rawjson.decode_value(members[key])
