"""How a pin changes: at first sight, and by what people decide about single differences. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gateway.pinning import forms
from gateway.pinning.facts import STARTED, TOLD, aspect_of, digest
from gateway.pinning.fingerprint import Fingerprint, Known, text_of
from gateway.pinning.pins import NO_TEXT, Pin
from gateway.pinning.verify import INSTRUCTIONS, Difference

_UNAPPROVABLE = frozenset({"probe", "tls_pin", "launcher"})
_DEFINITIONS = frozenset({"definition", "new_definition", "removed_definition"})


def recorded(seen: Fingerprint, at: str) -> Pin:
    """Return the pin of a server that is trusted as it is now."""
    definitions: dict[str, tuple[Known, ...]] = {}
    for name, item in seen.forms():
        definitions[name] = forms.with_form(definitions.get(name, ()), item)
    return Pin(dict(seen.facts), _instructions(seen), definitions, {}, at)


def completed(pin: Pin, seen: Fingerprint) -> Pin:
    """Return a pin with the first sight of what was approved before it was ever started or reached."""
    for group in (STARTED, TOLD):
        if not any(aspect_of(name) in group for name in pin.facts):
            first = {name: value for name, value in seen.facts.items() if aspect_of(name) in group}
            pin = replace(pin, facts={**pin.facts, **first}) if first else pin
    return pin


def can_approve(item: Difference) -> bool:
    """Tell whether an approval means anything: a wrong answer or a loose version stays wrong."""
    return item.aspect not in _UNAPPROVABLE


def approved(pin: Pin | None, seen: Fingerprint, items: Iterable[Difference], at: str) -> Pin:
    """Return a pin in which what is observed now is right in these respects."""
    made = pin or Pin()
    facts, definitions, instructions = dict(made.facts), dict(made.definitions), made.instructions
    rejected = dict(made.rejected)
    for item in items:
        rejected.pop(item.item, None)
        if item.aspect == INSTRUCTIONS:
            instructions = _instructions(seen)
        elif item.aspect not in _DEFINITIONS:
            facts.pop(item.item, None)
            if item.after:
                facts[item.item] = item.after
        elif item.form:
            if (form := forms.found(seen, item.item, item.after)) is not None:
                definitions[item.subject] = forms.with_form(definitions.get(item.subject, ()), form)
        elif (found := (seen.definitions or {}).get(item.item)) is not None:
            definitions[item.item] = (Known(found.digest, text_of(found)),)
        else:
            definitions.pop(item.item, None)
    return replace(made, facts=facts, definitions=definitions, instructions=instructions, rejected=rejected, at=at)


def rejected(pin: Pin | None, items: Iterable[Difference]) -> Pin:
    """Return a pin that remembers what was looked at and refused."""
    made = pin or Pin()
    return replace(made, rejected={**made.rejected, **{item.item: item.after for item in items}})


def _instructions(seen: Fingerprint) -> Known:
    return Known(digest(seen.instructions), seen.instructions) if seen.instructions else NO_TEXT
