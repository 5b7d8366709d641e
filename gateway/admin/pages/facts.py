"""Reads members of the JSON objects that operations answer with. What is not there, or of another kind, is empty."""

from __future__ import annotations

from gateway.protocol.rawjson import Object, Value


def string(holder: Object, key: str) -> str:
    """Return a text, "" without one."""
    value = holder.get(key)
    return value if isinstance(value, str) else ""


def number(holder: Object, key: str) -> int:
    """Return a whole number, 0 without one."""
    value = holder.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def part(holder: Object, key: str) -> Object:
    """Return an object, an empty one without one."""
    return as_object(holder.get(key))


def rows(holder: Object, key: str) -> list[Object]:
    """Return the objects of a list."""
    value = holder.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def strings(holder: Object, key: str) -> list[str]:
    """Return the texts of a list."""
    value = holder.get(key)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def as_object(value: Value) -> Object:
    """Return an object, an empty one for anything else."""
    return value if isinstance(value, dict) else {}
