"""Finds things in an OpenAPI document: what a reference means, which operations there are. Pure.

Only references into the document itself are followed: nothing in it makes the gateway read or fetch anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from gateway.config.api_document import ApiDocument
from gateway.protocol.rawjson import Object, Value
from gateway.telemetry.text import printable

MAX_OPERATIONS: Final = 5_000
"""Operations of one document; one with more is refused."""
MAX_CHAIN: Final = 16
"""References that lead to each other before something else than a reference has to come."""
MAX_WORK: Final = 2_000_000
"""Values of schemas that are converted for one document; operations beyond that are left out."""
MAX_TOOLS: Final = 64 * 2**20
"""Bytes of all tools of one document; operations beyond that are left out."""
MAX_REFERENCE: Final = 1_024
_SHOWN: Final = 96

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "query")
"""Members of a path that are operations. Not ``trace``: its answer would hold the gateway's own credentials."""

_METHOD: Final = re.compile(r"[A-Z][A-Z0-9-]{0,31}")
"""Others of 3.2 (``additionalOperations``); the HTTP client writes all in capitals."""
_NEVER: Final = frozenset({"TRACE", "CONNECT", *map(str.upper, METHODS)})


class DocumentError(Exception):
    """Something in a document that cannot be served; the text is for operators and holds no value of the config."""


@dataclass(frozen=True, slots=True)
class Found:
    """One operation as it is written: ``method`` in capitals, ``item`` is the whole path that it stands in."""

    method: str
    path: str
    item: Object
    node: Object


class Document:
    """One document, seen through its references."""

    def __init__(self, source: ApiDocument) -> None:
        self.tree = source.tree
        self.minor = source.minor
        self.converted: dict[tuple[str, bool, bool], tuple[Value, int, int]] = {}
        """Schemas that were converted with all references in place: each with its values and its levels."""
        self._worked = self._told = 0

    def work(self, values: int) -> None:
        """Count values that are converted.

        Raises:
            DocumentError: they are too many.
        """
        self._worked += values
        if self._worked > MAX_WORK:
            raise DocumentError("comes after schemas that are too large altogether")

    def tell(self, size: int) -> None:
        """Count the bytes of a tool.

        Raises:
            DocumentError: they are too many.
        """
        self._told += size
        if self._told > MAX_TOOLS:
            raise DocumentError("comes after tools that are too large altogether")

    def text(self, *path: str) -> str:
        """Return a text at a place, "" where there is none."""
        node: Value = self.tree
        for part in path:
            node = node.get(part) if isinstance(node, dict) else None
        return node if isinstance(node, str) else ""

    def target(self, reference: str) -> Value:
        """Return what a reference points to, which may be a reference again.

        Raises:
            DocumentError: it points to another document, or to nothing.
        """
        shown = printable(reference[: MAX_REFERENCE + 1], _SHOWN)
        if len(reference) > MAX_REFERENCE:
            raise DocumentError(f"refers to {shown}, which is too long")
        if not reference.startswith("#"):
            raise DocumentError(f"refers to another document ({shown}): bundle all of them into one")
        if not reference.startswith("#/"):
            raise DocumentError(f"refers to {shown}, which is no place in the document")
        node: Value = self.tree
        for part in unquote(reference[2:]).split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdecimal() and len(key) < 9 and int(key) < len(node):
                node = node[int(key)]
            else:
                raise DocumentError(f"refers to {shown}, which is not in the document")
        return node

    def resolved(self, node: Value) -> Object:
        """Return what stands at a place, with references followed; empty for what is no object.

        Raises:
            DocumentError: a reference leads elsewhere, to nothing, or in a circle.
        """
        for _ in range(MAX_CHAIN):
            reference = node.get("$ref") if isinstance(node, dict) else None
            if not isinstance(reference, str):
                return node if isinstance(node, dict) else {}
            node = self.target(reference)
        raise DocumentError("has references that lead to nothing but references")

    def operations(self) -> Iterator[Found | tuple[str, str]]:
        """Yield every operation in the document's order; for a path that cannot be read its name and the reason.

        Raises:
            DocumentError: there are too many.
        """
        paths, count = self.tree.get("paths"), 0
        for path, written in (paths if isinstance(paths, dict) else {}).items():
            if path.startswith("x-"):
                continue
            try:
                item = self.resolved(written)
            except DocumentError as error:
                yield path, str(error)
                continue
            for each in self._of(path, item):
                count += 1
                if count > MAX_OPERATIONS:
                    raise DocumentError(f"has more than {MAX_OPERATIONS} operations")
                yield each

    def _of(self, path: str, item: Object) -> Iterator[Found | tuple[str, str]]:
        """Yield the operations of one path."""
        for method in METHODS:
            node = item.get(method)
            if isinstance(node, dict) and (method != "query" or self.minor >= 2):
                yield Found(method.upper(), path, item, node)
        more = item.get("additionalOperations") if self.minor >= 2 else None
        for name, node in (more if isinstance(more, dict) else {}).items():
            if not isinstance(node, dict):
                continue
            if _METHOD.fullmatch(name) and name not in _NEVER:
                yield Found(name, path, item, node)
            else:
                yield f"{printable(name, _SHOWN)} {path}", "has a method that is not sent"
