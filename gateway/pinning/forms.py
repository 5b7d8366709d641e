"""Definitions of which several forms are right at once, for servers that list by who asks. Pure.

Elsewhere one name has one definition, and a difference is named after it. Here a difference is one form of a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.model.catalog import Definition
from gateway.pinning.fingerprint import Fingerprint, Known, text_of
from gateway.pinning.pins import Pin

MAX_FORMS: Final = 64
"""Approved forms of one name; one more takes the place of the oldest."""
MAX_DIFFERENT: Final = 1_000
"""Forms of one server that wait for a decision at once; the others are held back all the same, and shown later."""
REJECTED: Final = "rejected: pins approve brings it back"
_NEW: Final = "new since the server was approved: see pins show"
_OTHER: Final = "no form of it that was approved: see pins show"
_DIGITS: Final = 12


def item_of(key: str, digest: str) -> str:
    """Return how one form of a definition is called: ``kind:name`` and the first digits of its digest."""
    return f"{key}#{digest[:_DIGITS]}"


def key_of_item(item: str) -> str:
    """Return the ``kind:name`` of a form."""
    return item[: -_DIGITS - 1]


@dataclass(frozen=True, slots=True)
class Forms:
    """What may be shown of a server's definitions, in whoever's lists they are."""

    pin: Pin
    new: bool
    """Whether names that were never approved may be shown."""
    holds: bool = True
    """Whether anything is held back at all."""

    def held(self, key: str, digest: str) -> str:
        """Say why a form must not be shown, "" where it may."""
        if not self.holds:
            return ""
        known = self.pin.definitions.get(key, ())
        if any(each.digest == digest for each in known):
            return ""
        if self.pin.rejected.get(item_of(key, digest)) == digest:
            return REJECTED
        if known:
            return _OTHER
        return "" if self.new else _NEW

    def spoken(self, instructions: str) -> str:
        """Return instructions that are, to the letter, the approved ones; "" for others."""
        return instructions if instructions == self.pin.instructions.text else ""


def unapproved(pin: Pin | None, definitions: Mapping[str, Definition]) -> dict[str, Definition]:
    """Return the definitions that are in no form that was approved; all of them where nothing was."""
    known = pin.definitions if pin is not None else {}
    return {
        key: found
        for key, found in definitions.items()
        if all(each.digest != found.digest for each in known.get(key, ()))
    }


def different(pin: Pin, seen: Fingerprint) -> Iterator[tuple[str, Definition]]:
    """Yield each form that was not approved once, sorted, by ``kind:name``; so many and no more.

    Those that were known first, and those that were rejected last: who waits for a decision gets the room.
    """
    approved = {(key, each.digest) for key, known in pin.definitions.items() for each in known}
    looked: set[tuple[str, str]] = set()
    waiting: dict[str, tuple[str, Definition]] = {}
    refused: dict[str, tuple[str, Definition]] = {}
    for key, definition in seen.forms():
        form = key, definition.digest
        if form in approved or form in looked:
            continue
        looked.add(form)
        item = item_of(*form)
        # Of two whose digests begin alike the first is decided about first; the other stays held back.
        (refused if pin.rejected.get(item) == definition.digest else waiting).setdefault(item, (key, definition))
        if len(waiting) == MAX_DIFFERENT:
            # Not all of what many principals are listed is looked at whenever one of them is listed something.
            break
    shown = [*waiting.items(), *((item, form) for item, form in refused.items() if item not in waiting)]
    for _, each in sorted(shown[:MAX_DIFFERENT], key=lambda pair: pair[0]):
        yield each


def found(seen: Fingerprint, item: str, digest: str) -> Definition | None:
    """Return the definition that a form stands for, as it was seen."""
    key = key_of_item(item)
    listed = (definitions.get(key) for definitions in (seen.definitions or {}, *seen.own.values()))
    return next((each for each in listed if each is not None and each.digest == digest), None)


def with_form(known: Iterable[Known], definition: Definition) -> tuple[Known, ...]:
    """Return the approved forms of a name with one more, the newest last."""
    others = [each for each in known if each.digest != definition.digest]
    return (*others[-(MAX_FORMS - 1) :], Known(definition.digest, text_of(definition)))
