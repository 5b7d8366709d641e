"""Looks at what a server says before anybody reads it: hidden characters, words for a model, secrets, fields to drop.

Only servers whose ``results`` ask for it are looked at; everything else travels as bytes and untouched (S148, S149).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, TypeAlias, assert_never

from gateway.config.servers import ResultFilters, Server
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.exchange import Ask, Notify
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.pipeline.interceptor import CallNext, Passage
from gateway.protocol import methods, rawjson, strings
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import JsonError, Members, Object, Raw
from gateway.telemetry.metrics import Metrics
from gateway.text import hidden, markers, secrets
from gateway.text.pieces import pieces

Action: TypeAlias = Literal["flag", "strip", "redact", "block"]

NOTE: Final = "filters"
"""Under which the audit record of a call says what was found."""
_IN_PLACE: Final = 16 * 1024
"""Bytes up to which something is looked at on the spot; what is longer would hold up others."""
_MAX_KINDS: Final = 8
_RESULT: Final = "result"
_TASK: Final = "task"


@dataclass(frozen=True, slots=True)
class _Rule:
    """One kind of thing to look for, and what is done about it."""

    name: str
    action: Action
    find: Callable[[str], tuple[str, ...]]
    remove: Callable[[str], str]


_KINDS: Final[Mapping[str, tuple[Callable[[str], tuple[str, ...]], Callable[[str], str]]]] = {
    "hidden": (hidden.find, hidden.strip),
    "secrets": (secrets.find, secrets.redact),
    "markers": (markers.find, markers.strip),
}


@dataclass(frozen=True, slots=True)
class Sieve:
    """What is done to the results of one server; made once per config."""

    rules: tuple[_Rule, ...] = ()
    fields: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, settings: ResultFilters) -> Sieve:
        """Read the settings."""
        actions: dict[str, Action | Literal["off"]] = {
            "hidden": settings.hidden,
            "secrets": settings.secrets,
            "markers": settings.markers,
        }
        rules = tuple(_Rule(name, action, *_KINDS[name]) for name, action in actions.items() if action != "off")
        return cls(rules, tuple(strings.split_pointer(pointer) for pointer in settings.fields))

    def __bool__(self) -> bool:
        return bool(self.rules or self.fields)

    @property
    def _plain_too(self) -> bool:
        return any(rule.name != "hidden" for rule in self.rules)

    def text(self, found: Found, text: str) -> str:
        """Return a text as it may be read; what was met is added to ``found``."""
        for rule in self.rules:
            parts = pieces(text)
            met = [kind for part in parts for kind in rule.find(part)]
            if not met:
                continue
            found.add(rule, met)
            if rule.action in ("strip", "redact"):
                text = "".join(map(rule.remove, parts))
        return text

    def json(self, found: Found, data: bytes) -> bytes:
        """Return a JSON text with its texts as they may be read."""
        return strings.changed(data, partial(self.text, found), plain_too=self._plain_too) if self.rules else data


@dataclass(slots=True)
class Found:
    """What was met in one call, by rule and action."""

    met: dict[tuple[str, Action], dict[str, None]] = field(default_factory=dict)

    def add(self, rule: _Rule, kinds: list[str]) -> None:
        """Remember what a rule met; a few kinds are enough to know."""
        known = self.met.setdefault((rule.name, rule.action), {})
        for kind in kinds:
            if len(known) < _MAX_KINDS:
                known[kind] = None

    def merge(self, other: Found) -> None:
        """Take in what was met elsewhere."""
        for key, kinds in other.met.items():
            self.met.setdefault(key, {}).update(kinds)

    @property
    def blocked(self) -> bool:
        return any(action == "block" for _, action in self.met)

    def __str__(self) -> str:
        return "; ".join(f"{name} {action}: {', '.join(kinds)}" for (name, action), kinds in self.met.items())


def sieves(servers: Mapping[str, Server]) -> dict[str, Sieve]:
    """Return what is done to the results of each server, and nothing to a listen, which is a call of no server."""
    return {"": Sieve(), **{name: Sieve.of(server.results) for name, server in servers.items()}}


class Filter:
    """Applies the sieve of each server; ``sieve`` returns the one of a server's name."""

    def __init__(self, sieve: Callable[[str], Sieve], metrics: Metrics) -> None:
        self._sieve = sieve
        self._metrics = metrics

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        sieve = self._sieve(call.target.server)
        if not sieve:
            return await call_next(call, passage)
        found, told = Found(), Found()
        exchange = passage.exchange
        exchange.notify = partial(_notify, sieve, told, exchange.notify)
        if exchange.ask is not None:
            exchange.ask = partial(_ask, sieve, told, exchange.ask)
        outcome = await call_next(call, passage)
        if _length(outcome) <= _IN_PLACE:
            outcome = _sifted(sieve, found, outcome)
        else:
            outcome = await asyncio.to_thread(_sifted, sieve, found, outcome)
        for _, action in {**told.met, **found.met}:
            self._metrics.output_filtered_total.inc(server=call.target.server, action=action)
        if told.met or found.met:
            exchange.notes[NOTE] = "; ".join(str(each) for each in (told, found) if each.met)
        return _withheld(call, found) if found.blocked else outcome

    def sift(self, server: str, task: Members, done: Callable[[Members | None], None]) -> None:
        """Call ``done`` with what a server tells of a task as it may be read, or None where that is withheld.

        At once, unless it takes so long that others would wait.
        """
        sieve = self._sieve(server)
        if not sieve:
            done(task)
        elif _length(Complete(task)) <= _IN_PLACE:
            self._told(server, done, *_task(sieve, task))
        else:
            looking = asyncio.get_running_loop().run_in_executor(None, _task, sieve, task)
            looking.add_done_callback(
                lambda looked: None if looked.cancelled() else self._told(server, done, *looked.result())
            )

    def _told(self, server: str, done: Callable[[Members | None], None], found: Found, task: Members) -> None:
        for _, action in found.met:
            self._metrics.output_filtered_total.inc(server=server, action=action)
        done(None if found.blocked else task)


def _task(sieve: Sieve, task: Members) -> tuple[Found, Members]:
    found = Found()
    return found, _with_id(task, _members(sieve, found, _reduced(sieve, task)))


def _with_id(before: Members, after: Members) -> Members:
    """Leave a task its id, whatever it looks like: it leads back to the task, and no client sees it."""
    return after | {name: before[name] for name in (methods.TASK_ID,) if name in before}


def _notify(sieve: Sieve, told: Found, notify: Notify, method: str, params: Members) -> None:
    """Pass a notification on as it may be read; one with something to block, or too long to look at, is lost."""
    if sum(memoryview(item).nbytes for item in params.values()) > _IN_PLACE:
        return
    here = Found()
    sifted = _members(sieve, here, params)
    told.merge(here)
    if not here.blocked:
        notify(method, sifted)


async def _ask(sieve: Sieve, told: Found, ask: Ask, requests: dict[str, Raw]) -> Object:
    """Put questions as they may be read; those with something to block are answered with a refusal."""
    open_: dict[str, Raw] = {}
    answers: Object = {}
    for key, item in requests.items():
        here = Found()
        sifted = _item(sieve, here, item)
        told.merge(here)
        if here.blocked:
            answers[key] = None
        else:
            open_[key] = sifted
    return answers | (await ask(open_) if open_ else {})


def _item(sieve: Sieve, found: Found, item: Raw) -> Raw:
    data = rawjson.raw_bytes(item)
    after = sieve.json(found, data)
    return item if after is data else Raw(after)


def _members(sieve: Sieve, found: Found, members: Members) -> Members:
    return {name: _item(sieve, found, item) for name, item in members.items()}


def _sifted(sieve: Sieve, found: Found, outcome: Outcome) -> Outcome:
    match outcome:
        case Complete(result):
            return Complete(_with_id(result, _members(sieve, found, _reduced(sieve, result))))
        case Started(result):
            return Started(_handle(sieve, found, result))
        case InputRequired(requests):
            return replace(outcome, requests=_members(sieve, found, requests))
        case Failure(error=None):
            return outcome
        case Failure(error=error):
            assert error is not None
            return replace(outcome, error=_error(sieve, found, error))
        case _:
            assert_never(outcome)


def _handle(sieve: Sieve, found: Found, handle: Members) -> Members:
    """Return the handle of a task in the words of either era: ids stay."""
    sifted = _with_id(handle, _members(sieve, found, handle))
    try:
        own = rawjson.decode_members(handle[_TASK]) if _TASK in handle else None
    except JsonError:
        own = None
    return sifted if own is None else sifted | {_TASK: rawjson.raw(_with_id(own, _members(sieve, found, own)))}


def _error(sieve: Sieve, found: Found, error: ErrorObject) -> ErrorObject:
    data = None if error.data is None else _item(sieve, found, error.data)
    return replace(error, message=sieve.text(found, error.message), data=data)


def _reduced(sieve: Sieve, result: Members) -> Members:
    """Leave fields out of the structured result, and out of texts that repeat it as JSON; of a task's likewise."""
    if not sieve.fields:
        return result
    changed = dict(result)
    if methods.TASK_ID in result and _RESULT in result:
        changed[_RESULT] = _reduced_inside(sieve, result[_RESULT])
    if "structuredContent" in result:
        changed["structuredContent"] = Raw(
            strings.without(rawjson.raw_bytes(result["structuredContent"]), sieve.fields)
        )
    if "content" in result:
        changed["content"] = Raw(_content(sieve, rawjson.raw_bytes(result["content"])))
    return changed


def _reduced_inside(sieve: Sieve, item: Raw) -> Raw:
    try:
        return rawjson.raw(_reduced(sieve, rawjson.decode_members(item)))
    except JsonError:
        return item


def _content(sieve: Sieve, data: bytes) -> bytes:
    try:
        items = [_without_fields(sieve, item) for item in rawjson.decode_items(data)]
    except JsonError:
        return data
    return rawjson.encode(items)


def _without_fields(sieve: Sieve, item: Raw) -> Raw:
    try:
        members = rawjson.decode_members(item)
        text = rawjson.peek(members.get("text"))
        if not isinstance(text, str) or not text.lstrip().startswith(("{", "[")):
            return item
        data = text.encode()
        after = strings.without(data, sieve.fields)
    except JsonError:
        return item
    return item if after is data else rawjson.raw(members | {"text": rawjson.raw(after.decode())})


def _length(outcome: Outcome) -> int:
    match outcome:
        case Complete(held) | Started(held) | InputRequired(requests=held):
            return sum(memoryview(item).nbytes for item in held.values())
        case Failure(error=error):
            data = error.data if error is not None else None
            return 0 if data is None else memoryview(data).nbytes
        case _:
            assert_never(outcome)


def _withheld(call: Call, found: Found) -> Failure:
    what = " and ".join(sorted({name for name, action in found.met if action == "block"}))
    return Failure(
        Reason.BLOCKED_CONTENT,
        f"The answer of server {call.target.server} is withheld: this gateway does not pass on what was found in it "
        f"({what}). The call may have run: check its effect before you try again.",
        may_have_run=True,
        detail=str(found),
    )
