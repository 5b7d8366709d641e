"""What was observed of a server: facts about who it is, and every definition it lists. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.model.catalog import Definition, Kind, Listing
from gateway.pinning.facts import Facts, aspect_of, digest
from gateway.protocol import rawjson

PINNED: Final = (Kind.TOOL, Kind.PROMPT, Kind.TEMPLATE)
"""Resources come and go by their nature; what a model is told to call does not."""


@dataclass(frozen=True, slots=True)
class Known:
    """One definition, or the instructions, as it was approved: ``text`` is the whole of it in canonical form."""

    digest: str
    text: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """Something about a server that no approval makes right. ``item`` is ``aspect`` or ``aspect:subject``.

    ``probe:POINTER`` is an answer other than expected (keyed digests, "" for what is not there), ``tls_pin`` a key that
    is not among the configured ones, ``launcher`` a command that runs whatever has a name at the moment.
    """

    item: str
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is known of a server at the moment.

    ``definitions`` has ``kind:name`` keys and is None until its lists were read; ``wrong`` is by whose connection it
    was ("" for the one that everybody shares). ``own`` is what was not as approved in the lists of single principals,
    of a server that lists by who asks.
    """

    facts: Facts = field(default_factory=dict)
    definitions: Mapping[str, Definition] | None = None
    instructions: str = ""
    wrong: Mapping[str, Wrong] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, Definition]] = field(default_factory=dict)

    def with_facts(self, facts: Facts, aspects: frozenset[str]) -> Fingerprint:
        """Return it with all facts of some aspects replaced."""
        kept = {name: value for name, value in self.facts.items() if aspect_of(name) not in aspects}
        return replace(self, facts=kept | dict(facts))

    def with_wrong(self, whose: str, wrong: Wrong | None, aspect: str) -> Fingerprint:
        """Return it with what is wrong of one aspect on somebody's connection, or with that being right again."""
        name = f"{aspect} {whose}"
        kept = {key: item for key, item in self.wrong.items() if key != name}
        return replace(self, wrong=kept | {name: wrong} if wrong is not None else kept)

    def without_wrong(self) -> Fingerprint:
        """Return it as if nothing had been found wrong: the next connection tells."""
        return replace(self, wrong={})

    def listing(self, listing: Listing) -> Fingerprint:
        """Return it with what a complete listing says."""
        return replace(self, definitions=definitions_of(listing), instructions=listing.instructions)

    def with_own(self, whose: str, definitions: Mapping[str, Definition]) -> Fingerprint:
        """Return it with what is not as approved in one principal's lists; nothing where all of it is."""
        # Everybody keeps their place: what is shown first of many stays the same.
        own = {**self.own, whose: definitions}
        return replace(self, own=own if definitions else {key: items for key, items in own.items() if key != whose})

    def forms(self) -> Iterator[tuple[str, Definition]]:
        """Yield every definition that is known, by ``kind:name``, of whoever's lists it is; some more than once."""
        for definitions in (self.definitions or {}, *self.own.values()):
            yield from definitions.items()


def definitions_of(listing: Listing) -> dict[str, Definition]:
    """Return what is pinned of a listing; of two with one name the first is exposed, so it is the one that counts."""
    found: dict[str, Definition] = {}
    for definition in listing.definitions:
        if definition.kind in PINNED:
            found.setdefault(key_of(definition.kind, definition.name), definition)
    return found


def key_of(kind: Kind, name: str) -> str:
    """Return the key of a definition."""
    return f"{kind.value}:{name}"


def text_of(definition: Definition) -> str:
    """Return the whole definition in its canonical form."""
    whole = {name: rawjson.decode_exact(rawjson.raw_bytes(member)) for name, member in definition.members.items()}
    return rawjson.canonical(whole).decode()


def told(server_info: object, version: str, capabilities: object, tls_key: str = "") -> dict[str, str]:
    """Return the facts of whoever answers: the version and the key's digest as they are, the rest as digests."""
    facts = {"server_info": digest(server_info), "version": version, "capabilities": digest(capabilities)}
    return facts | {"tls_key": tls_key} if tls_key else facts
