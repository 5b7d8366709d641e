"""The method table: what each MCP method is, in which era it exists and what it names.

Both directions read it, so that what the endpoint accepts and what a dialect sends agree by construction.
"""

from __future__ import annotations

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


class Role(StrEnum):
    """How the gateway serves a method: itself, from the catalog, or by passing it on."""

    LOCAL = "local"
    LIST = "list"
    CALL = "call"


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


INPUT_RESPONSES: Final = "inputResponses"
REQUEST_STATE: Final = "requestState"
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
    )
}
"""Every request method a client may send, by name."""


def lookup(name: str, era: Era) -> Method | None:
    """Return the row of a method that exists in the era, else None."""
    row = METHODS.get(name)
    return row if row is not None and era in row.eras else None
