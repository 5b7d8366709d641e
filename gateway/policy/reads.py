"""Which arguments and claims a condition reads: what the audit log must keep so that it can be asked again.

Works on the text of an expression that CEL has accepted. Where it cannot tell, it says more rather than less.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

Path: TypeAlias = tuple[str, ...]
"""Names of members from the root down; empty for all of them."""

ARGUMENTS: Final = ("args",)
CLAIMS: Final = ("principal", "claims")
IDENTITY: Final = ("principal", "id")

_TOKEN: Final = re.compile(
    r"(?P<comment>//[^\n]*)"
    r"|(?P<text>[rRbB]{0,2}(?:\"\"\".*?\"\"\"|'''.*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<mark>[.\[\]()?])"
    r"|(?P<space>\s+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_PLAIN: Final = re.compile(r"(['\"])([^'\"\\]*)\1")


def reads(expression: str, root: Path = ARGUMENTS) -> tuple[Path, ...]:
    """Return the paths below ``root`` that an expression reads, each once, none of them below another."""
    tokens = [
        (str(match.lastgroup), match[0])
        for match in _TOKEN.finditer(expression)
        if match.lastgroup not in ("space", "comment")
    ]
    found: dict[Path, None] = {}
    for at, (kind, text) in enumerate(tokens):
        if kind != "name" or text != root[0] or (at > 0 and tokens[at - 1][1] == "."):
            continue
        path = _path(tokens, at + 1)
        if (text, *path)[: len(root)] == root:
            found[path[len(root) - 1 :]] = None
    return tuple(path for path in found if not any(path[:size] in found for size in range(len(path))))


def _path(tokens: list[tuple[str, str]], at: int) -> Path:
    """Follow members from a place in the tokens; a call of a function ends them."""
    path: list[str] = []
    while at < len(tokens):
        mark = tokens[at][1]
        following = tokens[at + 1 : at + 4]
        if mark == "." and following and following[0][0] == "name":
            if len(following) > 1 and following[1][1] == "(":
                break
            path.append(following[0][1])
            at += 2
        elif mark == "[" and len(following) > 1 and following[1][1] == "]" and (plain := _plain(following[0])):
            path.append(plain)
            at += 3
        else:
            break
    return tuple(path)


def _plain(token: tuple[str, str]) -> str:
    """Return the text of a literal without escapes, "" for anything else."""
    found = _PLAIN.fullmatch(token[1]) if token[0] == "text" else None
    return found[2] if found is not None else ""
