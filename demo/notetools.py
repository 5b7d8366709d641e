"""What the notes server offers as tools, and the check of arguments against it."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from notebook import ToolError

Json: TypeAlias = dict[str, object]


def _schema(properties: Json, *required: str) -> Json:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_TEXT: Final[Json] = {"type": "string", "minLength": 1, "maxLength": 10_000}
_ID: Final[Json] = {"type": "string", "pattern": "^n[0-9]+$", "description": "Id of the note, e.g. n3."}
_TAGS: Final[Json] = {"type": "array", "items": {"type": "string"}, "maxItems": 20}
_NOTE: Final = _schema({"id": _ID, "title": {"type": "string"}, "text": {"type": "string"}, "tags": _TAGS}, "id")
_NOTES: Final = _schema({"notes": {"type": "array", "items": _NOTE}, "total": {"type": "integer"}}, "notes", "total")


def _tool(name: str, title: str, description: str, schemas: tuple[Json, Json], **hints: bool) -> Json:
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": schemas[0],
        "outputSchema": schemas[1],
        "annotations": {"openWorldHint": False, **hints},
    }


TOOLS: Final[tuple[Json, ...]] = (
    _tool(
        "add_note",
        "Add a note",
        "Keep a new note and return it with its id.",
        (_schema({"title": _TEXT, "text": _TEXT, "tags": _TAGS}, "title", "text"), _NOTE),
        destructiveHint=False,
    ),
    _tool(
        "list_notes",
        "List notes",
        "List the notes, all of them or those with one tag.",
        (_schema({"tag": {"type": "string"}}), _NOTES),
        readOnlyHint=True,
    ),
    _tool(
        "search_notes",
        "Search notes",
        "Find notes whose title or text contains the words, in any case.",
        (_schema({"query": _TEXT, "limit": {"type": "integer", "minimum": 1, "maximum": 100}}, "query"), _NOTES),
        readOnlyHint=True,
    ),
    _tool("read_note", "Read a note", "Return one note.", (_schema({"id": _ID}, "id"), _NOTE), readOnlyHint=True),
    _tool(
        "delete_note",
        "Delete a note",
        "Delete one note for good.",
        (_schema({"id": _ID}, "id"), _schema({"deleted": _ID}, "deleted")),
        destructiveHint=True,
        idempotentHint=True,
    ),
    _tool(
        "whoami",
        "Which dataset is this?",
        "Tell which dataset this server holds and how many notes.",
        (_schema({}), _schema({"dataset": {"type": "string"}, "notes": {"type": "integer"}}, "dataset", "notes")),
        readOnlyHint=True,
    ),
)

_TYPES: Final[dict[str, type | tuple[type, ...]]] = {"string": str, "integer": int, "array": list}


def check(arguments: Json, schema: Json) -> None:
    """Hold arguments to the keywords that the schemas above use.

    Raises:
        ToolError: with everything that is wrong.
    """
    properties, required = schema["properties"], schema["required"]
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    problems = [f"{name} is missing" for name in required if name not in arguments]
    problems += [f"{name[:64]} is not an argument" for name in arguments if name not in properties]
    problems += [
        f"{name} {problem}"
        for name, value in arguments.items()
        if name in properties and (problem := _problem(value, properties[name]))
    ]
    if problems:
        raise ToolError(f"Invalid arguments: {'; '.join(problems)}.")


def _problem(value: object, rule: Json) -> str:
    kind = str(rule["type"])
    if not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
        return f"must be of type {kind}"
    if isinstance(value, str) and not _within(len(value), rule, "Length"):
        return "is too short or too long"
    if isinstance(value, str) and re.search(str(rule.get("pattern", "")), value) is None:
        return f"must match {rule['pattern']}"
    if isinstance(value, int) and not _within(value, rule, "imum"):
        return "is out of range"
    if isinstance(value, list) and not all(isinstance(item, str) for item in value):
        return "must hold strings"
    if isinstance(value, list) and not _within(len(value), rule, "Items"):
        return "holds too many items"
    return ""


def _within(size: int, rule: Json, keyword: str) -> bool:
    low, high = rule.get(f"min{keyword}", size), rule.get(f"max{keyword}", size)
    assert isinstance(low, int)
    assert isinstance(high, int)
    return low <= size <= high
