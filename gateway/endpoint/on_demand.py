"""Tools on demand: what a view in search mode lists in place of thousands of definitions, and what is asked of it.

Three tools of the gateway's own. ``call_tool`` is no detour: what is inside becomes the call, before anything is
decided about it, so policies, pins, validation and the audit log know the real tool alone. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.catalog.index import MAX_QUERY
from gateway.config.root import Config
from gateway.errors import RequestError
from gateway.protocol import codes, rawjson
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.versions import Era

SEARCH: Final = "search_tools"
DESCRIBE: Final = "describe_tool"
CALL: Final = "call_tool"
DEFAULT_LIMIT: Final = 10
MAX_LIMIT: Final = 50
_READ_ONLY: Final[Object] = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}

_NAME: Final[Object] = {"type": "string", "description": "Name of the tool, exactly as search_tools gives it."}
_FOUND: Final[Object] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "server": {"type": "string"},
        "title": {"type": "string"},
        "description": {"type": "string"},
    },
    "required": ["name", "server", "description"],
}
_TOOLS: Final[tuple[Object, ...]] = (
    {
        "name": SEARCH,
        "title": "Search tools",
        "description": "Finds the tools that fit a task, by words in their names, descriptions and parameters. Then "
        "see how one is called with describe_tool, and call it with call_tool.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "maxLength": MAX_QUERY,
                    "description": 'What the tool should do, in a few words: "create calendar event".',
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_LIMIT,
                    "default": DEFAULT_LIMIT,
                    "description": "The most tools to return.",
                },
            },
            "required": ["query"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {"tools": {"type": "array", "items": _FOUND}},
            "required": ["tools"],
        },
        "annotations": _READ_ONLY,
    },
    {
        "name": DESCRIBE,
        "title": "Describe a tool",
        "description": "Returns the whole definition of a tool: what it does, its arguments as JSON Schema, its hints.",
        "inputSchema": {"type": "object", "properties": {"name": _NAME}, "required": ["name"]},
        "annotations": _READ_ONLY,
    },
    {
        "name": CALL,
        "title": "Call a tool",
        "description": "Calls a tool and returns its result as it is. See its arguments with describe_tool first.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": _NAME,
                "arguments": {"type": "object", "description": "The tool's own arguments, as its inputSchema says."},
            },
            "required": ["name"],
        },
    },
)
_ENCODED: Final = tuple(rawjson.encode(tool) for tool in _TOOLS)


@dataclass(frozen=True, slots=True)
class Search:
    """What ``search_tools`` was asked."""

    query: str
    limit: int


@dataclass(frozen=True, slots=True)
class Describe:
    """Of which tool ``describe_tool`` was asked."""

    name: str


def applies(config: Config, view: str | None) -> bool:
    """Tell whether a view offers its tools on demand."""
    settings = config.views.get(view) if view is not None else None
    return settings is not None and settings.mode == "search"


def definitions(era: Era) -> tuple[bytes, ...]:
    """Return what such a view lists as tools; the same in every era, since none of its members is younger than it."""
    return _ENCODED


def question(params: Object) -> Search | Describe | None:
    """Read a call of ``search_tools`` or ``describe_tool``; None for every other name.

    Raises:
        RequestError: its arguments do not fit.
    """
    match params.get("name"):
        case "search_tools":
            return _search(_arguments(params, SEARCH))
        case "describe_tool":
            return Describe(_named(_arguments(params, DESCRIBE), DESCRIBE))
        case _:
            return None


def inner(params: Object) -> Object:
    """Return the params of the call that a ``call_tool`` stands for; others come back as they are.

    Raises:
        RequestError: its arguments do not fit.
    """
    if params.get("name") != CALL:
        return params
    wrapped = _arguments(params, CALL)
    called: Object = {"name": _named(wrapped, CALL)}
    if "arguments" in wrapped:
        if not isinstance(wrapped["arguments"], dict):
            raise _invalid(CALL, "arguments must be an object with the tool's own arguments, not text")
        called["arguments"] = wrapped["arguments"]
    return called


def _search(arguments: Object) -> Search:
    query, limit = arguments.get("query"), arguments.get("limit", DEFAULT_LIMIT)
    if not isinstance(query, str) or not query.strip():
        raise _invalid(SEARCH, "query must be a text of a few words")
    if len(query) > MAX_QUERY:
        raise _invalid(SEARCH, f"query may have at most {MAX_QUERY} characters")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise _invalid(SEARCH, f"limit must be a number from 1 to {MAX_LIMIT}")
    return Search(query, limit)


def _named(arguments: Object, tool: str) -> str:
    name = arguments.get("name")
    if not isinstance(name, str) or not name:
        raise _invalid(tool, "name must be the name of a tool, as search_tools gives it")
    return name


def _arguments(params: Object, tool: str) -> Object:
    value: Value = params.get("arguments", {})
    if not isinstance(value, dict):
        raise _invalid(tool, "arguments must be an object")
    return value


def _invalid(tool: str, text: str) -> RequestError:
    return RequestError(codes.INVALID_PARAMS, f"Invalid params: {tool}: {text}")
