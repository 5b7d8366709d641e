"""One call that needs a person's yes, as it is shown, decided and kept. Frozen values; knows no clock and no file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from gateway.model.call import Call
from gateway.model.principal import Principal
from gateway.protocol import rawjson

GRANT_SECONDS: Final = 900.0
"""How long a yes waits for the call it is for."""


class State(StrEnum):
    """How an entry stands. One that was used, or whose time is over, is not there any more."""

    PENDING = "pending"
    GRANTED = "granted"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class Need:
    """One rule that wants a yes: of one of the admin users in ``by``; where it is empty, of anyone who may approve."""

    policy: str
    rule: str
    by: frozenset[str] = frozenset()

    def accepts(self, user: str) -> bool:
        """Whether this user's yes is one."""
        return not self.by or user in self.by


@dataclass(frozen=True, slots=True)
class Asker:
    """The principal that asks, as far as a person and the audit log are told of it."""

    id: str
    kind: str
    label: str
    issuer: str = ""

    @classmethod
    def of(cls, principal: Principal) -> Asker:
        """Take it from who called."""
        issuer = principal.claims.get("iss")
        return cls(principal.id, principal.kind, principal.label, issuer if isinstance(issuer, str) else "")


@dataclass(frozen=True, slots=True)
class Subject:
    """Exactly what a yes is about.

    ``arguments`` is their canonical JSON text: the same bytes are shown to people and hashed. ``definition`` is the
    digest of what the tool is, "" for what has none; a yes was given to the tool as it was then.
    """

    asker: Asker
    method: str
    server: str
    kind: str
    name: str
    arguments: str
    definition: str = ""

    @classmethod
    def of(cls, call: Call) -> Subject:
        """Take it from a call."""
        target = call.target
        arguments = rawjson.canonical_decoded(call.arguments).decode("utf-8")
        definition = call.definition.digest if call.definition is not None else ""
        return cls(
            Asker.of(call.principal), call.method, target.server, target.kind.value, target.name, arguments, definition
        )

    @property
    def key(self) -> str:
        """Return what tells this call from all others, whatever the tool's definition is."""
        parts = (self.asker.id, self.method, self.server, self.kind, self.name, self.arguments)
        text = rawjson.canonical_plain([*parts])
        return hashlib.sha256(text).hexdigest()


@dataclass(frozen=True, slots=True)
class Vote:
    """One person's yes, at a time in seconds since the epoch."""

    user: str
    at: float


@dataclass(frozen=True, slots=True)
class Entry:
    """A call that waits, or that was decided. Times are seconds since the epoch; ``reason`` is that of a no."""

    id: str
    key: str
    subject: Subject
    needs: tuple[Need, ...]
    asked_at: float
    ends_at: float
    state: State = State.PENDING
    votes: tuple[Vote, ...] = ()
    reason: str = ""

    @property
    def users(self) -> tuple[str, ...]:
        """Who said yes."""
        return tuple(vote.user for vote in self.votes)

    @property
    def open_needs(self) -> tuple[Need, ...]:
        """The rules that still want a yes."""
        return tuple(need for need in self.needs if not any(need.accepts(user) for user in self.users))

    def may_decide(self, user: str) -> bool:
        """Whether this user is among those who are asked."""
        return any(need.accepts(user) for need in self.needs)

    def with_needs(self, needs: tuple[Need, ...], now: float) -> Entry:
        """Return the entry under the rules of now: a yes that they do not accept is none any more."""
        return self if needs == self.needs else replace(self, needs=needs)._judged(now)

    def approved(self, vote: Vote) -> Entry:
        """Return the entry after a yes; it is granted when every rule has one."""
        return replace(self, votes=(*self.votes, vote))._judged(vote.at)

    def denied(self, reason: str) -> Entry:
        """Return the entry after a no, which holds as long as the entry does."""
        return replace(self, state=State.DENIED, reason=reason)

    def _judged(self, now: float) -> Entry:
        if self.state is State.DENIED:
            return self
        if self.open_needs:
            return replace(self, state=State.PENDING)
        if self.state is State.GRANTED:
            return self
        return replace(self, state=State.GRANTED, ends_at=now + GRANT_SECONDS)
