"""Compares what is observed with what was approved, and says what follows from each difference. Pure.

One table says which differences make the whole server suspect, which one definition, and which are only told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from gateway.model.catalog import Definition
from gateway.pinning.facts import CONFIGURED, STARTED, TOLD, aspect_of, digest, subject_of
from gateway.pinning.fingerprint import Fingerprint
from gateway.pinning.forms import REJECTED, Forms, different, item_of, key_of_item
from gateway.pinning.launchers import is_interpreter
from gateway.pinning.pins import Pin

Mode: TypeAlias = Literal["off", "warn", "tofu", "strict"]

INSTRUCTIONS: Final = "instructions"
NOT_APPROVED: Final = "not approved yet"


class Effect(StrEnum):
    """What follows from a difference."""

    QUARANTINE = "quarantine"
    """The whole server is hidden and not connected to."""
    HOLD = "hold"
    """This one definition is hidden."""
    TELL = "tell"
    """It is recorded and goes on."""


_EFFECTS: Final[Mapping[str, Effect]] = {
    **dict.fromkeys(CONFIGURED | STARTED, Effect.QUARANTINE),
    **dict.fromkeys(TOLD, Effect.TELL),
    "tls_pin": Effect.QUARANTINE,
    "launcher": Effect.QUARANTINE,
    "probe": Effect.QUARANTINE,
    INSTRUCTIONS: Effect.HOLD,
    "definition": Effect.HOLD,
    "new_definition": Effect.HOLD,
    "removed_definition": Effect.TELL,
}
_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(CONFIGURED, "config"),
    "executable": "executable",
    "executable_sha256": "executable",
    "launcher": "executable",
    "file": "file",
    "tls_key": "tls_key",
    "tls_pin": "tls_key",
    "probe": "probe",
    "definition": "definition",
    "new_definition": "definition",
    "removed_definition": "definition",
    INSTRUCTIONS: "definition",
}
_SHUT: Final = CONFIGURED | STARTED | {"launcher"}


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as approved. ``item`` names it: a fact, or ``kind:name`` of a definition.

    ``before`` and ``after`` are digests, or texts that are no secret; "" for what is not there. ``form``: it is about
    one form of a definition that may have several, and ``item`` says which.
    """

    aspect: str
    item: str
    before: str
    after: str
    effect: Effect
    form: bool = False

    @property
    def subject(self) -> str:
        """``item`` without which form it is."""
        return key_of_item(self.item) if self.form else self.item

    @property
    def kind(self) -> str:
        """One of seven words, for metrics."""
        return _KINDS.get(self.aspect, "server_info")

    @property
    def identity(self) -> tuple[str, str, str]:
        """What makes it the same piece of news as another."""
        return self.item, self.before, self.after


@dataclass(frozen=True, slots=True)
class Terms:
    """How strictly a server is held. ``several``: it lists by who asks, so that a name may have several forms."""

    mode: Mode
    new_tools: bool = False
    rotating: frozenset[str] = frozenset()
    several: bool = False

    @property
    def holds(self) -> bool:
        """Whether anything is held back at all."""
        return self.mode in ("tofu", "strict")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows for a server. ``hidden`` says why all of it is, ``held`` why single definitions are.

    ``barred``: it is not who was approved (quarantine). ``shut``: it is not even started or connected to.
    ``spoken`` are the server's instructions where they are, to the letter, the approved ones (S74). ``forms`` judges
    the definitions of a server that lists by who asks one by one, whether they were seen before or not.
    """

    differences: tuple[Difference, ...] = ()
    hidden: str = ""
    held: Mapping[str, str] = field(default_factory=dict)
    barred: bool = False
    shut: bool = False
    spoken: str = ""
    forms: Forms | None = None

    @property
    def shown(self) -> tuple[object, ...]:
        """What catalogs are made by: where it is the same they need not be made again."""
        return self.hidden, self.held, self.spoken, self.forms

    def is_same(self, pin: Pin | None, last: Mapping[str, Definition], now: Mapping[str, Definition]) -> bool:
        """Tell whether it stands without judging all that anybody is listed once more.

        ``last`` and ``now`` are what is not as approved in the lists of one principal.
        """
        if self.forms is None or self.forms.pin is not pin:
            return False
        told = {(each.subject, each.after) for each in self.differences if each.form}
        was, found = ({(key, each.digest) for key, each in items.items()} for items in (last, now))
        return found <= told and not (was - found) & told


def judge(pin: Pin | None, seen: Fingerprint, terms: Terms) -> Verdict:
    """Compare; where there is no pin yet only ``strict`` finds fault with what the config says."""
    if terms.mode == "off":
        return Verdict()
    if pin is None:
        return _unknown(seen, terms)
    found = (*_facts(pin, seen, terms), *_definitions(pin, seen, terms), *_wrong(seen))
    spoken = seen.instructions if seen.instructions == pin.instructions.text else ""
    forms = Forms(pin, terms.new_tools, terms.holds) if terms.several else None
    if not terms.holds:
        return Verdict(found, spoken=spoken, forms=forms)
    held = {item.item: _why(item, pin) for item in found if item.effect is Effect.HOLD}
    verdict = replace(_barred(found, held), forms=forms)
    return verdict if verdict.hidden else replace(verdict, spoken=spoken)


def _unknown(seen: Fingerprint, terms: Terms) -> Verdict:
    wrong = tuple(_wrong(seen))
    if terms.mode == "strict":
        facts = seen.facts.items()
        new = tuple(Difference(aspect_of(name), name, "", value, Effect.QUARANTINE) for name, value in facts)
        return Verdict((*new, *wrong), "the server is quarantined: it is not in the pin file", {}, True, True)
    if terms.mode == "tofu" and not wrong:
        return Verdict(hidden=NOT_APPROVED)
    return _barred(wrong, {}) if terms.holds else Verdict(wrong)


def _barred(found: tuple[Difference, ...], held: Mapping[str, str]) -> Verdict:
    barring = [item for item in found if item.effect is Effect.QUARANTINE]
    if not barring:
        return Verdict(found, held=held)
    names = ", ".join(item.item for item in barring[:3]) + (" and more" if len(barring) > 3 else "")
    shut = any(item.aspect in _SHUT for item in barring)
    return Verdict(found, f"the server is quarantined: {names} is not as approved", held, True, shut)


def _facts(pin: Pin, seen: Fingerprint, terms: Terms) -> Iterator[Difference]:
    for group in (CONFIGURED, STARTED, TOLD):
        ours = {name: value for name, value in seen.facts.items() if aspect_of(name) in group}
        if not ours:
            # Not observed yet: nothing can be said about it.
            continue
        approved = {name: value for name, value in pin.facts.items() if aspect_of(name) in group}
        if group is not CONFIGURED and not approved:
            # Approved before it was ever started or reached: this is the first sight of it.
            continue
        for name in [*approved, *(name for name in ours if name not in approved)]:
            before, after = approved.get(name, ""), ours.get(name, "")
            if before != after:
                yield Difference(aspect_of(name), name, before, after, _effect(name, seen, terms))
    if seen.definitions is not None and seen.instructions != pin.instructions.text:
        now = digest(seen.instructions) if seen.instructions else ""
        yield Difference(INSTRUCTIONS, INSTRUCTIONS, pin.instructions.digest, now, Effect.HOLD)


def _effect(name: str, seen: Fingerprint, terms: Terms) -> Effect:
    aspect, subject = aspect_of(name), subject_of(name)
    if aspect == "header" and subject in {each.casefold() for each in terms.rotating}:
        return Effect.TELL
    if aspect == "env" and subject in terms.rotating:
        return Effect.TELL
    if aspect == "executable_sha256" and terms.mode != "strict" and is_interpreter(seen.facts.get("executable", "")):
        return Effect.TELL
    return _EFFECTS[aspect]


def _definitions(pin: Pin, seen: Fingerprint, terms: Terms) -> Iterator[Difference]:
    if terms.several:
        yield from _forms(pin, seen, terms)
        return
    if seen.definitions is None:
        return
    for name in sorted({*pin.definitions, *seen.definitions}):
        known, now = pin.definitions.get(name, ()), seen.definitions.get(name)
        if now is None:
            yield Difference("removed_definition", name, known[-1].digest, "", Effect.TELL)
        elif now.digest not in {each.digest for each in known}:
            rejected = pin.rejected.get(name) == now.digest
            new = not known
            effect = Effect.TELL if new and terms.new_tools and not rejected else Effect.HOLD
            before = known[-1].digest if known else ""
            yield Difference("new_definition" if new else "definition", name, before, now.digest, effect)


def _forms(pin: Pin, seen: Fingerprint, terms: Terms) -> Iterator[Difference]:
    """Compare all that anybody is offered; what one of them is not offered is not removed."""
    for name, definition in different(pin, seen):
        item, known = item_of(name, definition.digest), pin.definitions.get(name, ())
        rejected = pin.rejected.get(item) == definition.digest
        effect = Effect.TELL if not known and terms.new_tools and not rejected else Effect.HOLD
        aspect, before = ("definition", known[-1].digest) if known else ("new_definition", "")
        yield Difference(aspect, item, before, definition.digest, effect, form=True)


def _wrong(seen: Fingerprint) -> Iterator[Difference]:
    for wrong in seen.wrong.values():
        yield Difference(aspect_of(wrong.item), wrong.item, wrong.expected, wrong.got, Effect.QUARANTINE)


def _why(item: Difference, pin: Pin) -> str:
    if pin.rejected.get(item.item) == item.after:
        return REJECTED
    what = "new since the server was approved" if item.aspect == "new_definition" else "changed since it was approved"
    return f"{what}: see pins show"
