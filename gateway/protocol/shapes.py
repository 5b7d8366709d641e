"""Readers of what was written by ourselves: a value is of the form that was written, or it is damage.

Pure. Every one raises ``ValueError`` for a value of another form; who reads says what follows from that.
"""

from __future__ import annotations

from gateway.protocol.rawjson import Object, Value


def an_object(value: Value) -> Object:
    """Return an object."""
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def a_list(value: Value) -> list[Value]:
    """Return a list."""
    if not isinstance(value, list):
        raise ValueError("no list")
    return value


def a_text(value: Value) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise ValueError("no text")
    return value


def a_number(value: Value) -> float:
    """Return a number; a truth value is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("no number")
    return float(value)


def texts(value: Value, count: int = 0) -> list[str]:
    """Return a list of texts, of exactly so many where ``count`` is not 0."""
    found = [a_text(item) for item in a_list(value)]
    if count and len(found) != count:
        raise ValueError("another number of texts")
    return found


def texts_by_name(value: Value) -> dict[str, str]:
    """Return an object whose members are all texts."""
    return {name: a_text(item) for name, item in an_object(value).items()}
