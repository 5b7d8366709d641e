"""What a principal sees of servers that list by who asks: its own lists in place of the catalog's, and no one else's.

Here the lists of single principals meet pins and snapshots. A principal's snapshot differs from everybody's in its
catalog alone, and principals with equal lists share one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Final, TypeAlias

from gateway.audience import Audience
from gateway.catalog import hygiene
from gateway.catalog.build import Hold, Part, assembled, nothing_held, part
from gateway.catalog.collect import One, collect
from gateway.catalog.guidance import section
from gateway.catalog.own import Known, OwnLists, Terms
from gateway.config.root import LoadedConfig
from gateway.downstream.fingerprint import fingerprint
from gateway.downstream.oauth import signin
from gateway.downstream.pool import Pool
from gateway.errors import DownstreamError, Reason
from gateway.listings import changed_kinds
from gateway.model.catalog import Kind, Listing, Route, Suspicion
from gateway.model.principal import Principal
from gateway.pipeline.finder import Finder, Words
from gateway.pipeline.snapshot import Lists, Snapshot, snapshot_digest
from gateway.tasks import TaskSet
from gateway.trust import Trust
from gateway.watched import hold

MAX_SNAPSHOTS: Final = 256
"""Snapshots of principals that are kept, each for all who have the same lists; another one is made anew."""
MAX_PARTS: Final = 1_024
"""Lists of one server, named and judged, that are kept for such snapshots."""
MAX_NAMES: Final = 20_000
"""Exposed names of tools in principals' own lists that are remembered for metrics."""
_ALL: Final = frozenset(Kind)

OwnListener: TypeAlias = Callable[[str, str | None, frozenset[Kind]], None]
"""Takes a server, whose lists of these kinds have changed, None for anybody's that differ now; must not block."""


@dataclass(frozen=True, slots=True)
class Means:
    """What this is made of. ``current`` is everybody's snapshot, ``judged`` has a server's verdict shown at once.

    ``noticed`` takes what an operator should look at in definitions, ``named`` is called when there are new names.
    """

    pool: Pool
    trust: Trust
    key: bytes
    current: Callable[[], Snapshot]
    judged: Callable[[str], None]
    noticed: Callable[[Iterable[Suspicion]], None]
    named: Callable[[], None]


class Personal:
    """All principals' own lists, and the snapshots made of them."""

    def __init__(self, means: Means, tasks: TaskSet, default_age: float) -> None:
        self._means = means
        self._lists = OwnLists(self, tasks, default_age)
        self._told = Audience[str, str | None, frozenset[Kind]]()
        self._followers: dict[str, list[Principal]] = {}
        self._words = Words()
        self._base: Snapshot | None = None
        self._parts: OrderedDict[tuple[str, str], Part] = OrderedDict()
        self._made: OrderedDict[tuple[str, ...], Snapshot] = OrderedDict()
        self.names: dict[str, None] = {}
        """Exposed names of tools that some principal's own lists have."""
        self.changes = self._told.add

    # What the runtime tells.

    def apply(self, loaded: LoadedConfig, renewed: Collection[str]) -> None:
        """Put a config in force; what servers listed under another one is forgotten."""
        self._lists.default_age = loaded.config.naming.list_ttl
        servers = loaded.config.servers
        own = [name for name, server in servers.items() if server.catalog == "principal"]
        marks = self._marks(loaded, own)
        terms = {name: Terms(marks[name], servers[name].timeouts.probe) for name in own}
        self._lists.apply(terms, renewed)
        for name in terms:
            self._lists.changed(name)

    def announced(self, server: str, kinds: frozenset[Kind]) -> None:
        """Take word that a server's lists have changed, whoever asks: those who wait for it have theirs read now."""
        self._lists.changed(server)
        for principals in [*self._followers.values()]:
            self._lists.relist(server, principals[-1], kinds)

    def heard(self, server: str, whose: str, kinds: frozenset[Kind]) -> None:
        """Take word that one principal's lists have changed, or may be had now."""
        self._lists.changed(server, whose)
        if whose in self._followers:
            self._lists.relist(server, self._followers[whose][-1], kinds)

    def retry(self, server: str) -> None:
        """Take word that a server is worth another try."""
        self._lists.changed(server)

    def rejudged(self, server: str) -> None:
        """Take word that something is held back of a server, or shown again."""
        self._told.tell(server, None, _ALL)

    # What requests ask for.

    async def ready(self, principal: Principal) -> None:
        """Have a principal's lists read that are out of date; waits as long as is worth it and no longer."""
        await self._lists.ready(principal)

    def refresh(self, principal: Principal) -> None:
        """Have them read without waiting."""
        self._lists.refresh(principal)

    def follow(self, principal: Principal) -> Callable[[], None]:
        """Have a principal's lists read when their server says that they have changed, until the result is called."""
        # Not its token: by then it may have come with a newer one.
        principal = replace(principal, token="")
        self._followers.setdefault(principal.id, []).append(principal)

        def unfollow() -> None:
            same = self._followers[principal.id]
            same.remove(principal)
            if not same:
                del self._followers[principal.id]

        return unfollow

    def reasons(self, principal: Principal) -> Mapping[str, str]:
        """Say for operators why a principal's own lists are not there, or not renewed, by server."""
        own = self._means.current().own
        return {server: reason for server in own if (reason := self._lists.reason(server, principal.id))}

    def count(self, server: str) -> tuple[int, int]:
        """Return of how many principals a server's lists are known, and of how many they cannot be had."""
        return self._lists.count(server)

    def portray(self, base: Snapshot, principal: Principal) -> Snapshot:
        """Return a moment as a principal sees it."""
        known = {server: self._known(base, server, principal) for server in base.own}
        current = self._means.current()
        if base is not current:
            # A request that began before the last change: not worth keeping anything for. What is listed by another
            # server that has the name by now is not for the policies of then.
            if current.loaded is not base.loaded:
                then, now = self._marks(base.loaded, known), self._marks(current.loaded, known)
                known = {name: found if then[name] == now.get(name) else None for name, found in known.items()}
            return self._make(base, known)
        self._turn_to(base)
        key = tuple("" if found is None else found.digest for found in known.values())
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._make(base, known)
            if len(self._made) > MAX_SNAPSHOTS:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return made

    def _marks(self, loaded: LoadedConfig, names: Iterable[str]) -> dict[str, str]:
        """Return what tells whether servers of the same name are the same under two configs."""
        servers = loaded.config.servers
        return {name: fingerprint(name, servers[name], self._means.key) for name in names if name in servers}

    def _known(self, base: Snapshot, server: str, principal: Principal) -> Known | None:
        """Return a principal's lists; where nothing but its signing in is missing, the one tool to do that with."""
        if not self._lists.signs_in(server, principal.id):
            return self._lists.known(server, principal.id)
        # An operator's consent is nothing that a caller can give, and of a server in quarantine nobody signs in.
        verdict, its_own = base.verdicts.get(server), base.config.servers[server].auth.is_per_principal
        return _sign_in(server) if its_own and not (verdict is not None and verdict.barred) else None

    def _turn_to(self, base: Snapshot) -> None:
        """Forget what was made of another moment."""
        if base is not self._base:
            self._base = base
            self._parts.clear()
            self._made.clear()

    def _make(self, base: Snapshot, known: Mapping[str, Known | None]) -> Snapshot:
        parts: dict[str, Part] = {}
        listings: dict[str, Listing] = {}
        guidance: dict[str, str] = {}
        for name in base.config.servers:
            found = known.get(name)
            if name not in known and name in base.parts:
                parts[name], listings[name] = base.parts[name], base.catalog.listings[name]
                guidance[name] = base.catalog.guidance.get(name, "")
            elif found is not None:
                parts[name], listings[name] = self._part(base, found), found.listing
                guidance[name] = _guidance(base, found.listing)
        catalog = assembled(parts, listings)
        return replace(
            base,
            catalog=replace(catalog, guidance={name: text for name, text in guidance.items() if text}),
            digest=snapshot_digest(base.loaded.digest, catalog),
            withheld=base.withheld | {name for name, found in known.items() if found is None},
            lists=Lists(),
            finder=Finder(self._words),
        )

    def _part(self, base: Snapshot, known: Known) -> Part:
        listing = known.listing
        name, key = listing.server, (listing.server, known.digest)
        made = self._parts.get(key) if base is self._base else None
        if made is None:
            server, judged = base.config.servers[name], _judging(base)
            if known.digest == _sign_in(name).digest:
                # The gateway's own: which of its server's tools are exposed says nothing about it; policies do.
                tools = server.tools.model_copy(update={"include": ["*"], "exclude": []})
                server, judged = server.model_copy(update={"tools": tools}), nothing_held
            made = part(base.config.naming, server, listing, judged)
            if base is self._base:
                self._keep(base, key, made, listing)
        elif base is self._base:
            self._parts.move_to_end(key)
        return made

    def _keep(self, base: Snapshot, key: tuple[str, str], made: Part, listing: Listing) -> None:
        self._parts[key] = made
        if len(self._parts) > MAX_PARTS:
            self._parts.popitem(last=False)
        self._means.noticed(hygiene.suspicions([listing], base.catalog.routes))
        names = [item.exposed for item in made if isinstance(item, Route) and item.kind is Kind.TOOL]
        if any(name not in self.names for name in names):
            self.names |= dict.fromkeys(names)
            for name in [*self.names][: max(0, len(self.names) - MAX_NAMES)]:
                del self.names[name]
            self._means.named()

    # Where lists come from and go to.

    async def read(self, server: str, principal: Principal, last: Listing | None) -> Listing:
        """Read a principal's lists; see ``Desk``."""
        configured = self._means.current().config.servers.get(server)
        if configured is None:
            raise DownstreamError(Reason.UNAVAILABLE, f'server "{server}" is not configured any more')
        seconds = configured.timeouts.start + configured.timeouts.call
        try:
            async with asyncio.timeout(seconds), self._means.pool.borrowed(server, principal) as connection:
                listing = await collect(One(connection.page, connection.hello), server, last)
        except TimeoutError:
            text = f'server "{server}" did not list within {seconds:g} s'
            raise DownstreamError(Reason.TIMEOUT, text) from None
        return replace(listing, public=False)

    async def admit(self, listing: Listing, whose: str) -> None:
        """Judge a principal's lists; see ``Desk``."""
        if await self._means.trust.offered(listing, whose):
            self._means.judged(listing.server)

    def published(self, now: Known, before: Known | None, whose: str, kinds: frozenset[Kind]) -> None:
        """Tell of a principal's lists, those that nothing but what is held back has changed in aside."""
        base = self._means.current()
        if now.listing.server not in base.own:
            return
        self._turn_to(base)
        changed = changed_kinds(None if before is None else before.listing, now.listing)
        was, shown = () if before is None else self._part(base, before), self._part(base, now)
        unseen = {kind for kind in changed if _names(was, kind) == _names(shown, kind)}
        told = (kinds | changed) - unseen
        if told:
            self._told.tell(now.listing.server, whose, told)

    def dropped(self, server: str, whose: str) -> None:
        """Forget what differed in lists that are not known any more."""
        self._means.trust.forgotten(server, whose)


@lru_cache(maxsize=256)
def _sign_in(server: str) -> Known:
    return Known.of(Listing(server, (signin.tool(server),), ttl_ms=0))


def _judging(base: Snapshot) -> Hold:
    return partial(hold, base.verdicts)


def _guidance(base: Snapshot, listing: Listing) -> str:
    """Return what a server says to models, where that is word for word what was approved."""
    verdict = base.verdicts.get(listing.server)
    if verdict is None or verdict.hidden or verdict.forms is None:
        return ""
    text = verdict.forms.spoken(listing.instructions)
    return section(listing.server, base.config.servers[listing.server], text)


def _names(made: Part, kind: Kind) -> list[tuple[str, str]]:
    routes = [item for item in made if isinstance(item, Route) and item.kind is kind]
    return [(route.exposed, route.definition.digest) for route in routes]
