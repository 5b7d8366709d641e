"""The method table: what each MCP method is, in which era it exists and what it names.

Both directions read it, so that what the endpoint accepts and what a dialect sends agree by construction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.protocol.versions import Era

TOOLS_CALL: Final = "tools/call"
TOOLS_LIST: Final = "tools/list"
PROMPTS_GET: Final = "prompts/get"
PROMPTS_LIST: Final = "prompts/list"
RESOURCES_READ: Final = "resources/read"
RESOURCES_LIST: Final = "resources/list"
TEMPLATES_LIST: Final = "resources/templates/list"
RESOURCES_SUBSCRIBE: Final = "resources/subscribe"
RESOURCES_UNSUBSCRIBE: Final = "resources/unsubscribe"
COMPLETE: Final = "completion/complete"
DISCOVER: Final = "server/discover"
LISTEN: Final = "subscriptions/listen"
INITIALIZE: Final = "initialize"
PING: Final = "ping"
SET_LEVEL: Final = "logging/setLevel"

TASKS_GET: Final = "tasks/get"
TASKS_UPDATE: Final = "tasks/update"
TASKS_CANCEL: Final = "tasks/cancel"
TASKS_RESULT: Final = "tasks/result"
TASKS_LIST: Final = "tasks/list"

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"

INITIALIZED: Final = "notifications/initialized"
CANCELLED: Final = "notifications/cancelled"
PROGRESS: Final = "notifications/progress"
LOG_MESSAGE: Final = "notifications/message"
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
PROMPTS_CHANGED: Final = "notifications/prompts/list_changed"
RESOURCES_CHANGED: Final = "notifications/resources/list_changed"
RESOURCE_UPDATED: Final = "notifications/resources/updated"
ELICITED: Final = "notifications/elicitation/complete"
ROOTS_CHANGED: Final = "notifications/roots/list_changed"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
TASK_CHANGED: Final = "notifications/tasks"
TASK_STATUS: Final = "notifications/tasks/status"


class Role(StrEnum):
    """How the gateway serves a method: itself, from the catalog, by passing it on, or as part of an earlier call."""

    LOCAL = "local"
    LIST = "list"
    CALL = "call"
    TASK = "task"


_BOTH = frozenset(Era)
_MODERN = frozenset({Era.MODERN})
_LEGACY = frozenset({Era.LEGACY})


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the table.

    ``target`` is the member of ``params`` that names what is meant, also the source of ``Mcp-Name``;
    ``members`` are the known members of ``params``, besides ``_meta``.
    """

    name: str
    role: Role
    eras: frozenset[Era]
    target: str | None = None
    members: tuple[str, ...] = ()
    cacheable: bool = False
    may_ask: bool = False
    opaque: bool = False
    """Of an extension that the gateway does not know: all of ``params`` goes on as it is."""


INPUT_REQUESTS: Final = "inputRequests"
INPUT_RESPONSES: Final = "inputResponses"
REQUEST_STATE: Final = "requestState"
TASK_ID: Final = "taskId"
_INPUT = (INPUT_RESPONSES, REQUEST_STATE)

METHODS: Final[dict[str, Method]] = {
    row.name: row
    for row in (
        Method(TOOLS_CALL, Role.CALL, _BOTH, "name", ("name", "arguments", "task", *_INPUT), may_ask=True),
        Method(PROMPTS_GET, Role.CALL, _BOTH, "name", ("name", "arguments", *_INPUT), may_ask=True),
        Method(RESOURCES_READ, Role.CALL, _BOTH, "uri", ("uri", *_INPUT), cacheable=True, may_ask=True),
        Method(COMPLETE, Role.CALL, _BOTH, None, ("ref", "argument", "context")),
        Method(TOOLS_LIST, Role.LIST, _BOTH, None, ("cursor",), cacheable=True),
        Method(PROMPTS_LIST, Role.LIST, _BOTH, None, ("cursor",), cacheable=True),
        Method(RESOURCES_LIST, Role.LIST, _BOTH, None, ("cursor",), cacheable=True),
        Method(TEMPLATES_LIST, Role.LIST, _BOTH, None, ("cursor",), cacheable=True),
        Method(DISCOVER, Role.LOCAL, _MODERN, cacheable=True),
        Method(LISTEN, Role.LOCAL, _MODERN, None, ("notifications",)),
        Method(INITIALIZE, Role.LOCAL, _LEGACY, None, ("protocolVersion", "capabilities", "clientInfo")),
        Method(PING, Role.LOCAL, _LEGACY),
        Method(SET_LEVEL, Role.LOCAL, _LEGACY, None, ("level",)),
        Method(RESOURCES_SUBSCRIBE, Role.LOCAL, _LEGACY, None, ("uri",)),
        Method(RESOURCES_UNSUBSCRIBE, Role.LOCAL, _LEGACY, None, ("uri",)),
        Method(TASKS_GET, Role.TASK, _BOTH, TASK_ID, (TASK_ID,)),
        Method(TASKS_CANCEL, Role.TASK, _BOTH, TASK_ID, (TASK_ID,)),
        Method(TASKS_UPDATE, Role.TASK, _MODERN, TASK_ID, (TASK_ID, INPUT_RESPONSES)),
        Method(TASKS_RESULT, Role.TASK, _LEGACY, TASK_ID, (TASK_ID,)),
        Method(TASKS_LIST, Role.TASK, _LEGACY, None, ("cursor",)),
    )
}
"""Every request method a client may send, by name."""


_CORE: Final = frozenset(
    {
        *("tools", "prompts", "resources", "completion", "logging", "server", "subscriptions", "notifications"),
        *("elicitation", "sampling", "roots", "tasks", "initialize", "initialized", "ping", "rpc"),
        *("progress", "message", "cancelled"),
    }
)
"""First words of the methods of every version of the specification: none of an extension that is not known here."""
_NAME: Final = re.compile(r"[A-Za-z0-9$_.:/-]{1,128}")
"""What can stand in a header too."""


def is_core(name: str) -> bool:
    """Tell whether a method's or notification's name belongs to the specification, in whichever version and case."""
    return re.split(r"[/.]", name.lower().removeprefix("notifications/"), maxsplit=1)[0] in _CORE


def of_extension(name: str) -> Method | None:
    """Return the row of a request method that only an extension can have; None for what is or was the core's own."""
    if _NAME.fullmatch(name) is None or is_core(name) or name.startswith("notifications/"):
        return None
    return Method(name, Role.CALL, _BOTH, opaque=True)


def lookup(name: str, era: Era) -> Method | None:
    """Return the row of a method that exists in the era, else None."""
    row = METHODS.get(name)
    return row if row is not None and era in row.eras else None
