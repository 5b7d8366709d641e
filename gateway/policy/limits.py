"""Limits of policies as they apply to calls, and the caps every principal has.

Keyed by what was proven, never by sessions, headers or addresses (S79, G101). A call is admitted by all its limits
or by none (contract, policies, step 5), and whoever waits as long as told gets in (S82).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Final, Literal, TypeAlias, assert_never

from gateway.config.types import Rate
from gateway.model.call import Target
from gateway.model.principal import Principal
from gateway.state.gcra import Allowance
from gateway.state.store import Charge, Store

Level: TypeAlias = Literal["principal", "tool", "server", "group", "view"]
Scope: TypeAlias = Literal["rate", "concurrency"]

PASS_SECONDS: Final = 600.0
"""How long a client may take to come back with answers: as long as the state it carries is good."""


@dataclass(frozen=True, slots=True)
class AppliedLimit:
    """One limit of one policy: a rate, or a number of calls at once.

    ``text`` is how the operator wrote it; ``groups`` are the groups the policy names, which a count per group is for.
    ``index`` is where it stands in its policy, ``twin`` how many before it say the same of the same ``tools``.
    """

    policy: str
    index: int
    text: str
    per: tuple[Level, ...] = ("principal",)
    allowance: Allowance | None = None
    concurrency: int | None = None
    groups: frozenset[str] = frozenset()
    tools: tuple[str, ...] = ()
    twin: int = 0


@dataclass(frozen=True, slots=True)
class LimitFacts:
    """Who calls what, through which view."""

    principal: Principal
    target: Target
    view: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The limit that stopped a call.

    ``retry_after_ms`` is exact for a rate; None for calls at once, which depend on when others end.
    """

    retry_after_ms: int | None
    scope: Scope
    policy: str
    limit: str


@dataclass(slots=True)
class Admission:
    """A call's places among the calls at once; ``release`` gives them back, once however often it is called."""

    _held: tuple[str, ...] = ()
    _counts: dict[str, int] = field(default_factory=dict)

    def release(self) -> None:
        held, self._held = self._held, ()
        for key in held:
            _count_down(self._counts, key)


class Limiter:
    """Charges limits. Rates live in the store, calls at once in this process; ``clock`` gives monotonic seconds."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._counts: dict[str, int] = {}

    async def admit(self, limits: Sequence[AppliedLimit], facts: LimitFacts) -> Admission | Refused:
        """Charge a call to all limits, or to none if one of them has no room."""
        charges: list[Charge] = []
        charged: list[AppliedLimit] = []
        places: list[tuple[str, AppliedLimit]] = []
        for limit in limits:
            for key in _keys(limit, facts):
                if limit.allowance is not None:
                    charges.append(Charge(key, limit.allowance))
                    charged.append(limit)
                else:
                    places.append((key, limit))
        for key, limit in places:
            if limit.concurrency is not None and self._counts.get(key, 0) >= limit.concurrency:
                return Refused(None, "concurrency", limit.policy, limit.text)
        for key, _ in places:
            self._counts[key] = self._counts.get(key, 0) + 1
        admission = Admission(tuple(key for key, _ in places), self._counts)
        return await self._charge(charges, charged, admission) if charges else admission

    async def give_pass(self, call_id: str, number: int) -> None:
        """Let a call's next round through without another charge, once and for as long as its client may take."""
        await self._store.put(store_key("pass", call_id, str(number)), b"1", PASS_SECONDS)

    async def use_pass(self, call_id: str, number: int) -> bool:
        """Use up the pass of a round; False where there is none, or not any more."""
        return await self._store.take(store_key("pass", call_id, str(number))) is not None

    async def _charge(
        self, charges: list[Charge], limits: list[AppliedLimit], admission: Admission
    ) -> Admission | Refused:
        kept = False
        try:
            result = await self._store.charge(charges, self._clock())
            if result.refused is None:
                kept = True
                return admission
            limit = limits[result.refused]
            return Refused(result.retry_after_ms, "rate", limit.policy, limit.text)
        finally:
            # Also when the store fails or the call is cancelled while it waits for it.
            if not kept:
                admission.release()


class RequestBudget:
    """``limits.requests``: what a principal may send at all, whatever it is (S83)."""

    def __init__(self, store: Store, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self.change(rate)

    def change(self, rate: Rate) -> None:
        """Take another rate, as a reload may bring; counting begins anew if it differs."""
        self._allowance = Allowance(rate.count, rate.seconds, rate.count)

    async def charge(self, principal_id: str) -> int | None:
        """Count a request; return the milliseconds to wait if it is one too many, else None."""
        key = store_key("requests", principal_id, str(self._allowance.count), str(self._allowance.seconds))
        result = await self._store.charge([Charge(key, self._allowance)], self._clock())
        return result.retry_after_ms or None


class InFlight:
    """``limits.in_flight``: calls of one principal at once. Nothing waits: one too many is refused (S86).

    An answer that its client has not taken yet counts like a call, so that nobody can pile answers up.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: dict[str, int] = {}

    def change(self, most: int) -> None:
        """Take another cap, as a reload may bring; places already taken stay taken."""
        self._most = most

    def acquire(self, principal_id: str) -> bool:
        """Take a place if there is one; each place taken is given back by one ``release``."""
        if self._counts.get(principal_id, 0) >= self._most:
            return False
        self._counts[principal_id] = self._counts.get(principal_id, 0) + 1
        return True

    def release(self, principal_id: str) -> None:
        """Give a place back."""
        if principal_id not in self._counts:
            raise RuntimeError("released a place that was not taken")
        _count_down(self._counts, principal_id)

    @contextmanager
    def answering(self, principal_id: str) -> Iterator[None]:
        """Hold a place while the body writes an answer; it is not refused, but calls are while too many are held."""
        self._counts[principal_id] = self.count(principal_id) + 1
        try:
            yield
        finally:
            _count_down(self._counts, principal_id)

    def count(self, principal_id: str) -> int:
        """Return how many places a principal holds."""
        return self._counts.get(principal_id, 0)


def _count_down(counts: dict[str, int], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _keys(limit: AppliedLimit, facts: LimitFacts) -> Iterator[str]:
    """Yield the counts a limit is about for this call: one, or one for each of the caller's groups."""
    # What the limit is belongs to its name, where it stands does not: after a reload a changed one begins anew, an
    # unchanged one goes on (G128).
    identity = (limit.policy, str(limit.twin), limit.text, ",".join(limit.per), " ".join(limit.tools))
    for values in product(*(_values(level, limit, facts) for level in limit.per)):
        yield store_key("limit", *identity, *(part for value in values for part in value))


def _values(level: Level, limit: AppliedLimit, facts: LimitFacts) -> Sequence[tuple[str, ...]]:
    match level:
        case "principal":
            return [(facts.principal.id,)]
        case "tool":
            return [(facts.target.kind.value, facts.target.server, facts.target.name)]
        case "server":
            return [(facts.target.server,)]
        case "view":
            return [(facts.view or "",)]
        case "group":
            mine = facts.principal.groups & limit.groups or facts.principal.groups
            # Callers without any group share one count.
            return [(group,) for group in sorted(mine)] or [("",)]
        case _:
            assert_never(level)


_LONGEST_KEY: Final = 256


def store_key(use: str, *parts: str) -> str:
    """Return a key of bounded length that different parts cannot share, as each is written with its length."""
    key = f"{use}:" + "".join(f"{len(part)}:{part}" for part in parts)
    if len(key) <= _LONGEST_KEY:
        return key
    return f"{use}:{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"
