"""Where a value stands: from its place in the config to file, line and dotted path.

A config is put together from several files; what went wrong is reported where the operator wrote it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias, Union

from gateway.errors import Problem

Loc: TypeAlias = tuple[str | int, ...]
Tree: TypeAlias = Union[str, int, float, bool, "list[Tree]", "dict[str, Tree]", None]
Mapping: TypeAlias = dict[str, Tree]

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$@+/-]+")
_SHOWN = 128


@dataclass(frozen=True, slots=True)
class Document:
    """One file: its values, and the line of each key and item."""

    file: str
    root: Mapping
    lines: dict[Loc, int] = field(repr=False)


def shown(text: str) -> str:
    """Make a name from a file safe to print: control characters escaped, cut at 128 characters."""
    cut = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in cut)


def dotted(loc: Loc) -> str:
    """Write ``("servers", "my files", "args", 0)`` as ``servers."my files".args[0]``."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        key = part if _PLAIN_KEY.fullmatch(part) else f'"{shown(part)}"'
        text += f".{key}" if text else key
    return text


class Places:
    """Finds places in the main document and in what other documents were put into it."""

    def __init__(self, main: Document) -> None:
        self._grafts: dict[Loc, tuple[Document, Loc]] = {(): (main, ())}

    def graft(self, loc: Loc, document: Document, origin: Loc) -> None:
        """Note that what stands at ``loc`` of the config was written at ``origin`` of ``document``."""
        self._grafts[loc] = (document, origin)

    def origin(self, loc: Loc) -> tuple[Document, Loc]:
        """Return the document that ``loc`` was written in, and where in it."""
        for length in range(len(loc), -1, -1):
            found = self._grafts.get(loc[:length])
            if found is not None:
                document, start = found
                return document, start + loc[length:]
        raise AssertionError("the main document is everywhere")

    def problem(self, loc: Loc, message: str, hint: str = "") -> Problem:
        """Say what is wrong at ``loc``. A key that was not written has the line of what should hold it."""
        document, own = self.origin(loc)
        return Problem(message=message, file=document.file, line=_line(document, own), path=dotted(own), hint=hint)

    def note(self, loc: Loc, text: str) -> str:
        """Say something about ``loc`` that stops nothing."""
        return str(self.problem(loc, text))


def _line(document: Document, loc: Loc) -> int:
    for length in range(len(loc), 0, -1):
        if (line := document.lines.get(loc[:length])) is not None:
            return line
    return 1


def at(tree: Tree, loc: Loc) -> Tree:
    """Return the value at ``loc``, or None where there is none."""
    for part in loc:
        if isinstance(tree, dict) and isinstance(part, str):
            tree = tree.get(part)
        elif isinstance(tree, list) and isinstance(part, int) and 0 <= part < len(tree):
            tree = tree[part]
        else:
            return None
    return tree


def find(tree: Tree, pattern: Loc, loc: Loc = ()) -> list[tuple[Loc, Tree]]:
    """Return every value whose place fits ``pattern``, in which ``*`` stands for any key or item."""
    if not pattern:
        return [(loc, tree)]
    head, rest = pattern[0], pattern[1:]
    children: list[tuple[str | int, Tree]] = []
    if isinstance(tree, dict):
        children = [(key, value) for key, value in tree.items() if head in ("*", key)]
    elif isinstance(tree, list) and head == "*":
        children = list(enumerate(tree))
    return [hit for key, value in children for hit in find(value, rest, (*loc, key))]


def put(tree: Tree, loc: Loc, value: Tree) -> None:
    """Replace the value that stands at ``loc``."""
    holder = at(tree, loc[:-1])
    key = loc[-1]
    match holder, key:
        case (dict(), str()):
            holder[key] = value
        case (list(), int()):
            holder[key] = value
        case _:
            raise KeyError(dotted(loc))
