"""All tools of a document, and what of it became none, with the reasons. Pure, and slow for a long document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gateway.config.api_document import ApiDocument
from gateway.downstream.openapi.addresses import Terms, base_of
from gateway.downstream.openapi.document import Document, DocumentError, Found
from gateway.downstream.openapi.operations import Operation, by_name, distinct, made_up, named, operation_of
from gateway.protocol.rawjson import Object
from gateway.telemetry.text import printable

MAX_TITLE: Final = 256
MAX_INSTRUCTIONS: Final = 16 * 1024
MAX_LEFT_OUT: Final = 1_000
"""Operations that are named with the reason why they are no tools."""
_SHOWN: Final = 128


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Toolset:
    """What a document offers. ``base`` is the address that all of it is called at; ``left_out`` name and reason."""

    digest: str
    version: str
    base: str
    info: Object
    description: str
    operations: Mapping[str, Operation] = field(repr=False)
    left_out: tuple[tuple[str, str], ...] = ()


def toolset_of(source: ApiDocument, terms: Terms) -> Toolset:
    """Make the tools of a document.

    Raises:
        DocumentError: it has none that can be called, too many, or no address to call them at.
    """
    document = Document(source)
    base = base_of(terms, document.tree.get("servers"))
    operations: list[Operation] = []
    left_out: list[tuple[str, str]] = []
    for name, found in _named(document, left_out):
        try:
            operations.append(operation_of(document, found, name, terms))
        except DocumentError as error:
            left_out.append((name, str(error)))
    if not operations:
        why = f": {printable(left_out[0][0], _SHOWN)} {left_out[0][1]}" if left_out else ""
        raise DocumentError(f"has no operation that can be called{why}")
    version = document.tree.get("openapi")
    info: Object = {
        "name": document.text("info", "title")[:MAX_TITLE],
        "version": document.text("info", "version")[:MAX_TITLE],
    }
    return Toolset(
        source.digest,
        str(version),
        base.origin + base.prefix,
        info,
        document.text("info", "description")[:MAX_INSTRUCTIONS],
        MappingProxyType(by_name(operations)),
        tuple(left_out[:MAX_LEFT_OUT]),
    )


def _named(document: Document, left_out: list[tuple[str, str]]) -> Iterator[tuple[str, Found]]:
    """Yield every operation with the name of its tool, each name once."""
    found: list[Found] = []
    for each in document.operations():
        if isinstance(each, Found):
            found.append(each)
        else:
            left_out.append(each)
    names = Counter(named(each) or made_up(each) for each in found)
    seen: set[str] = set()
    for each in found:
        own = named(each)
        name = own or made_up(each)
        if not own and names[name] > 1:
            name = distinct(name, each)
        if name in seen:
            left_out.append((name, "has an operationId that another operation has as well"))
            continue
        seen.add(name)
        yield name, each
