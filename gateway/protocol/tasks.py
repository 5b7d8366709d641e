"""Tasks on the wire, as each era writes them: the extension of 2026-07-28 and the utility of 2025-11-25.

Pure: reads handles and states, and exchanges the ids in them. Knows no seal and no server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.protocol import capabilities, meta, rawjson
from gateway.protocol.methods import INPUT_REQUESTS, TASK_ID
from gateway.protocol.rawjson import JsonError, Members, Object, Raw, Value
from gateway.protocol.versions import Era

RELATED: Final = meta.PREFIX + "related-task"
"""What messages of 2025-11-25 that belong to a task carry in ``_meta``."""

TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})
INPUT_REQUIRED: Final = "input_required"
STATUSES: Final = TERMINAL | {"working", INPUT_REQUIRED}

MAX_ID: Final = 1024
"""Characters of a server's task id: sealed it still has to fit in a header."""

REQUIRED: Final = "required"
LONGEST_PAUSE: Final = 60.0
SHORTEST_PAUSE: Final = 0.05
"""Seconds between two looks at a task, whatever its server suggests."""
_USUAL_PAUSE: Final = 1.0

NEEDED: Final[Object] = {"requiredCapabilities": {capabilities.EXTENSIONS: {capabilities.TASKS: {}}}}
"""Data of the error for a client that has not declared the extension (§Capability Negotiation)."""

OFFERED: Final[Object] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""What a legacy client is told where a server that it sees runs calls as tasks (§Server Capabilities)."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task as its server tells of it. ``ttl`` (None: for ever) and ``pause`` between two looks are in seconds."""

    id: str
    status: str
    ttl: float | None
    pause: float

    @property
    def over(self) -> bool:
        """Whether nothing will change any more."""
        return self.status in TERMINAL


def read(members: Members, era: Era) -> Task | None:
    """Read a task; None for what is none. Times that make no sense count as not given."""
    own, status = rawjson.peek(members.get(TASK_ID)), rawjson.peek(members.get("status"))
    if not isinstance(own, str) or not 0 < len(own) <= MAX_ID or status not in STATUSES:
        return None
    suffix = "Ms" if era is Era.MODERN else ""
    pause = _seconds(members.get(f"pollInterval{suffix}"))
    within = min(max(_USUAL_PAUSE if pause is None else pause, SHORTEST_PAUSE), LONGEST_PAUSE)
    return Task(own, str(status), _seconds(members.get(f"ttl{suffix}")), within)


def _seconds(item: Raw | None) -> float | None:
    value = rawjson.peek(item)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**53:
        return None
    return value / 1000


def started(members: Members, era: Era) -> Task | None:
    """Read the handle that a call was answered with; None where it is none."""
    if era is Era.MODERN:
        return read(members, era)
    try:
        return read(rawjson.decode_members(members["task"]), era) if "task" in members else None
    except JsonError:
        return None


def declared(declares: Object) -> bool:
    """Tell whether capabilities of either side name the extension of 2026-07-28."""
    return capabilities.TASKS in capabilities.extensions_of(declares)


def runs_tools(declares: Object, era: str) -> bool:
    """Tell whether a server with these capabilities, met in this era, may run a tool call as a task."""
    if era == Era.MODERN.value:
        return declared(declares)
    found: Value = declares
    for name in ("tasks", "requests", "tools", "call"):
        found = found.get(name) if isinstance(found, dict) else None
    return isinstance(found, dict)


def support(definition: Members) -> Value:
    """Return ``execution.taskSupport`` of a tool's definition, null where it has none (§Tool-Level Negotiation)."""
    execution = rawjson.peek(definition.get("execution"))
    return execution.get("taskSupport") if isinstance(execution, dict) else None


def asked(task: Members) -> Members:
    """Return the questions of a task by key; none for one that asks nothing.

    Raises:
        JsonError: they are no object.
    """
    if rawjson.peek(task.get("status")) != INPUT_REQUIRED or INPUT_REQUESTS not in task:
        return {}
    return rawjson.decode_members(task[INPUT_REQUESTS])


def related(members: Members) -> str | None:
    """Return the task that a message says it belongs to."""
    own = rawjson.peek(members.get("_meta"))
    link = own.get(RELATED) if isinstance(own, dict) else None
    found = link.get(TASK_ID) if isinstance(link, dict) else None
    return found if isinstance(found, str) else None


def relate(members: Members, task: str) -> Members:
    """Return a message that says it belongs to a task."""
    return meta.merge(members, {RELATED: {TASK_ID: task}})


def unrelated(members: Members) -> Members:
    """Return a message that no longer says which task it belongs to."""
    if "_meta" not in members:
        return members
    try:
        kept = {key: item for key, item in rawjson.decode_members(members["_meta"]).items() if key != RELATED}
    except JsonError:
        return members
    rest = {key: item for key, item in members.items() if key != "_meta"}
    return rest | {"_meta": rawjson.raw(kept)} if kept else rest


def renamed(members: Members, task: str) -> Members:
    """Return a task under another id."""
    return members | {TASK_ID: rawjson.raw(task)}
