"""Owns everything that outlives a request, and the pointer to the snapshot that requests read once.

Config, policies, catalog and chain change together by replacing that pointer; connections sit beside it in the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from gateway.accounts import Accounts
from gateway.admission import Admission, labels
from gateway.approvals.file import FILE
from gateway.attendance import Attendance
from gateway.audience import Audience
from gateway.audit import events
from gateway.audit.fields import session_hash
from gateway.audit.keys import load_key
from gateway.auditing import Shipping, audit_log
from gateway.auth.throttle import Throttle
from gateway.catalog.build import parted, whole
from gateway.catalog.guidance import sections
from gateway.catalog.refresh import Refresher
from gateway.compiling import compiled
from gateway.config.root import LoadedConfig
from gateway.config.stores import is_shared
from gateway.downstream.guardian import Guardian
from gateway.downstream.hooks import Hooks
from gateway.downstream.oauth.consents import Consents
from gateway.downstream.oauth.shelf import Shelf
from gateway.downstream.oauth.vault import CREDENTIALS
from gateway.downstream.pool import Pool, PoolOptions
from gateway.durable import Durable
from gateway.listings import Listings, changed_kinds, unseen
from gateway.model.call import Call, Caller
from gateway.model.catalog import Catalog, Kind, Listing
from gateway.model.exchange import Exchange
from gateway.model.outcome import Outcome
from gateway.model.principal import Principal
from gateway.neighbours import Neighbours
from gateway.news import News
from gateway.oversight import Oversight, Places
from gateway.personal import Means, Personal
from gateway.pinning.pins import PIN_FILE
from gateway.pipeline.compose import Ingredients, compose
from gateway.pipeline.filter import Filter, sieves
from gateway.pipeline.finder import Finder, Words
from gateway.pipeline.rounds import Terms
from gateway.pipeline.snapshot import Snapshot, snapshot_digest
from gateway.policy.limits import InFlight, Limiter, RequestBudget
from gateway.policy.repeats import Repeats
from gateway.protocol.rawjson import Object, Value
from gateway.recollection import recollect
from gateway.reloading import Reloading, Running
from gateway.samples import Samples, why_hidden
from gateway.sharing import Sharing
from gateway.state.files import secure_directory
from gateway.state.sealing import Sealer
from gateway.state.store import Store
from gateway.suspicion import Suspicions
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash
from gateway.telemetry.loop import watch_loop
from gateway.telemetry.metrics import Metrics
from gateway.tracing import Tracing
from gateway.traffic import TrafficLog
from gateway.trust import FRESH, Trust
from gateway.watched import World, hold
from gateway.wiring import ServerMeters, desk, plain, sealing_keys

_log = get_logger("runtime")

ChangeListener = Callable[[str, frozenset[Kind]], None]


class Runtime:
    """The running gateway without its listeners."""

    def __init__(self, loaded: LoadedConfig) -> None:
        """Prepare everything; starts nothing.

        Raises:
            ConfigError: a policy, a key or a directory cannot be used.
        """
        config = loaded.config
        state = secure_directory(Path(config.state.dir))
        self.started_at = datetime.now(UTC)
        self.metrics = Metrics()
        self.sealer = Sealer(sealing_keys(loaded, state))
        self.throttle = Throttle(config.auth.throttle.failures)
        self._tasks, self._words = TaskSet(on_crash(_log)), Words()
        self._sharing = Sharing(loaded, self._tasks, self.metrics, self._write, self._alert)
        self._store = self._sharing.store
        self.neighbours = Neighbours(self._store, self.sealer, alone=not is_shared(config.state.url))
        self.post = self.neighbours.post
        self.budget = RequestBudget(self._store, config.limits.requests)
        self.in_flight = InFlight(config.limits.in_flight)
        self._limiter = Limiter(self._store)
        self.durable = Durable(loaded, state, self.sealer, self._write, self.metrics)
        documents, pin_key = self.durable.documents, self.durable.key
        audit_key = load_key(state)
        self.tracer = Tracing(loaded, self.metrics, partial(session_hash, key=audit_key))
        self.audit = audit_log(loaded, state, self.metrics)
        self._shipping = Shipping(config, state, self.audit, self.metrics)
        places = Places(documents, self.sealer, audit_key, self._store)
        self.oversight = Oversight(places, self._write, self.metrics, lambda who: self._snapshot.of(who).catalog)
        self._accounts = Accounts(self.audit, audit_key, self._write, self.post.name)
        self.traffic = TrafficLog()
        self._samples = Samples(self._write, audit_key, lambda call: why_hidden(self._snapshot, call))
        self._suspicions = Suspicions(self._write, self.metrics)
        self._admission = Admission(self._tasks, self.metrics, self._write)
        self.certificate_refused = self._admission.certificate_refused(self._samples.refused_early)
        self._guardian = Guardian()
        self._desk = desk(loaded, documents, Shelf(self._store, self.sealer), self._write)
        self._listeners = Audience[str, frozenset[Kind]]()
        updated, elicited = Audience[str, str](), Audience[str, str]()
        self.changes = self._listeners.add
        self.resource_updates, self.elicitations = updated.add, elicited.add
        self.trust = Trust(documents, pin_key, News(self._write, self.metrics, self.oversight.alerts.raised))
        self._attendance = seen = Attendance(self._write)
        self.pool = Pool(
            PoolOptions(
                self._guardian,
                key=pin_key,
                eras=state / "eras.json",
                hooks=Hooks(
                    self._changed,
                    seen.left,
                    updated.tell,
                    seen.circuit,
                    self._ended,
                    elicited.tell,
                    on_own_change=lambda *news: self.personal.heard(*news),
                ),
                meters=ServerMeters(self.metrics),
                inspector=self.trust,
                desk=self._desk,
                tracer=self.tracer,
                replica=self.post.replica,
            )
        )
        self.subscribe, self.unsubscribe = self.pool.subscribe, self.pool.unsubscribe
        self.subscribed, self.end_session = self.pool.subscribed, self.pool.end_session
        self._servers = self.neighbours.connect(self.pool, self._described, self.audit)
        self._listings = Listings(documents, pin_key)
        self._listings.take(self._listings.look(loaded))
        self._refresher = Refresher(self.pool, self._publish, config.naming.list_ttl, self._tasks)
        means = Means(self.pool, self.trust, pin_key, self.current, self._judged, self._suspicions.tell, self._name)
        self.personal = Personal(means, self._tasks, config.naming.list_ttl)
        self.trust.connect(
            World(lambda server: self._refresher.settled(server, FRESH), self._judged, self.pool.sever, self._retry)
        )
        self._draining = self.leaving = False
        self._snapshot = self._compile(loaded)
        running = Running(lambda: self._snapshot.loaded, self._listings.refresh, self._put)
        self.reloading = Reloading(running, self._note, self.metrics)
        self.reloads = self.reloading.afterwards
        self.reloading.prepares(self.tracer.prepare)

    async def start(self) -> None:
        """Open the audit log and start the servers in the background.

        Raises:
            ConfigError: the audit log cannot be opened.
        """
        await self.audit.open()
        self._note("gateway.started", {"config_sha256": self._snapshot.loaded.digest})
        for server, reason in self._snapshot.loaded.off.items():
            _log.warning("server_off", server=server, reason=reason)
        await self._sharing.start()
        await self.neighbours.start()
        await self._guardian.start()
        self._install()
        self._tasks.start(watch_loop(self.metrics.event_loop_lag_seconds.observe), "loop watch")
        directory = Path(self._snapshot.config.audit.dir)
        self._tasks.start(recollect(self.traffic, directory, self.started_at), "recollection")
        self._tasks.start(self._samples.run(), "samples")
        self._shipping.start(self._tasks)
        self.tracer.start()
        self._tasks.start(self.oversight.run(), "oversight")
        acts = {PIN_FILE: self.trust.reread, FILE: self.oversight.reread, CREDENTIALS: self.pool.reread}
        self._tasks.start(self.durable.follow(acts, self._alert), "database")

    def current(self) -> Snapshot:
        """Return the snapshot in force."""
        return self._snapshot

    @property
    def consents(self) -> Consents:
        """What people may consent to now, for the pages on which they do."""
        return self._desk.consents

    @property
    def store(self) -> Store:
        """What outlives a request, of this process or of all."""
        return self._store

    def store_status(self) -> Object:
        """Say where that is, and whether it is there."""
        return self._sharing.status()

    def draining(self) -> bool:
        """Tell whether the gateway is shutting down."""
        return self._draining

    def begin_drain(self) -> None:
        """Take no new work from now on."""
        self._draining = True
        self.oversight.ledger.release()
        self.metrics.draining.set(1)
        self._note("gateway.draining", {})

    async def aclose(self) -> None:
        """End servers, tasks and the audit log, in bounded time."""
        await self.pool.aclose()
        await self.neighbours.aclose()
        await self._sharing.aclose()
        await self._tasks.aclose()
        await self._guardian.aclose()
        self._samples.close()
        await self.oversight.alerts.aclose()
        await self.tracer.aclose()
        self._note("gateway.stopped", {})
        await self.audit.aclose()
        await self._shipping.aclose()
        await asyncio.to_thread(self.durable.documents.close)

    async def security_event(self, event: str, fields: dict[str, object]) -> None:
        """Audit a refusal that came before any call; floods of them in sums."""
        facts = {key: plain(value) for key, value in fields.items() if key != "source"}
        self._samples.refused_early(event, str(fields.get("source", "")), facts)

    def listed(self, draft: Call, items: int) -> None:
        """Audit a list that was served, as a sample."""
        self._samples.listed(draft, items)

    def limited(self, principal: Principal, caller: Caller) -> None:
        """Audit a request over ``limits.requests``, as a sample."""
        self._samples.limited(principal, caller)

    async def denied(self, call: Call) -> None:
        """Audit a call of a name that is unknown or hidden; floods of them in sums."""
        self._samples.denied(call)
        hidden = self._snapshot.of(call.principal).hidden(call.target.kind, call.exposed)
        self.traffic.denied(call, hidden.server if hidden is not None else "")
        self.oversight.alerts.denied(call, hidden)

    def _put(self, loaded: LoadedConfig, renewed: Collection[str]) -> None:
        self._snapshot = self._compile(loaded)
        self._install(renewed)

    def _install(self, renewed: Collection[str] = ()) -> None:
        """Make the world agree with the snapshot: metrics, budgets and servers."""
        loaded = self._snapshot.loaded
        config = loaded.config
        self.metrics.set_config(loaded.digest)
        self.metrics.known_servers(config.servers)
        self.metrics.known_clients(labels(config))
        self._look_at(self._snapshot.catalog)
        self.budget.change(config.limits.requests)
        self.in_flight.change(config.limits.in_flight)
        self._listings.retain(config.servers)
        self.throttle.change(config.auth.throttle.failures)
        self._admission.warm()
        self._refresher.default_age = config.naming.list_ttl
        self.oversight.apply(loaded)
        self.trust.apply(config)
        self._refresher.apply(config.servers)
        self.personal.apply(loaded, renewed)
        self.pool.apply(config.servers, renewed)

    def _compile(self, loaded: LoadedConfig) -> Snapshot:
        """Make a snapshot of a config and the lists known now.

        Raises:
            ConfigError: a policy or a key cannot be used.
        """
        config = loaded.config
        engine = compiled(loaded)
        sifter = Filter(sieves(config.servers).__getitem__, self.metrics)
        chain = compose(
            Ingredients(
                engine,
                self._accounts.of(loaded),
                self._limiter,
                self.in_flight,
                self._servers,
                self.metrics,
                self.trust.state,
                lambda server: Terms.of(config.servers[server]),
                lambda server: config.servers[server].validate_,
                self.trust.cleared,
                sifter,
                Repeats(self._store),
                self.oversight.desk,
                self.oversight.alerts.seen,
                self.traffic,
                lambda: self.tracer.on,
            )
        )
        listings = self._listings.known(loaded)
        verdicts = self.trust.verdicts(config, listings)
        guidance = sections(config.servers, {name: verdict.spoken for name, verdict in verdicts.items()})
        parts = parted(config.naming, config.servers, listings, partial(hold, verdicts))
        catalog = replace(whole(parts, listings), guidance=guidance)
        authenticator = self._admission.authenticator(loaded)
        withheld = frozenset(name for name, verdict in verdicts.items() if verdict.hidden)
        return Snapshot(
            loaded,
            catalog,
            engine,
            authenticator,
            chain,
            snapshot_digest(loaded.digest, catalog),
            withheld,
            sifter.sift,
            finder=Finder(self._words),
            own=tuple(name for name, server in config.servers.items() if server.catalog == "principal"),
            parts=parts,
            verdicts=verdicts,
            portray=self.personal.portray,
        )

    def _ended(self, call: Call, exchange: Exchange, outcome: Outcome) -> None:
        self._accounts.close(self._snapshot, call, exchange, outcome)

    def _described(self, call: Call, exchange: Exchange) -> Object:
        return self._accounts.describe(self._snapshot, call, exchange)

    async def _publish(self, listing: Listing, kinds: frozenset[Kind]) -> None:
        """Put a server's fresh lists in force and say so: of the kinds that it spoke of also when they are equal."""
        name = listing.server
        server = self._snapshot.config.servers.get(name)
        if server is None:
            return
        judged = await self.trust.seen(listing, self.pool.key_digest(name))
        before = self._listings.put(server, listing)
        shown = self._snapshot.catalog
        if judged or before != listing:
            self._recompile()
            _log.info("catalog_changed", server=name, definitions=len(listing.definitions))
        if name not in self._snapshot.own:
            changed = changed_kinds(before, listing)
            self._listeners.tell(name, (kinds | changed) - unseen(name, changed, shown, self._snapshot.catalog))
        elif judged:
            # Nobody is shown these lists, but what may be shown of those that each principal has.
            self.personal.rejudged(name)
        if before != listing:
            # Last, and not on the loop: it waits for the disk.
            await self._listings.keep(server, listing)

    def _recompile(self) -> None:
        self._snapshot = self._compile(self._snapshot.loaded)
        self._look_at(self._snapshot.catalog)

    def _look_at(self, catalog: Catalog) -> None:
        self._name()
        self._suspicions.tell(catalog.suspicions)

    def _name(self) -> None:
        tools = self._snapshot.catalog.by_kind.get(Kind.TOOL, ())
        self.metrics.known_tools([*(route.exposed for route in tools), *self.personal.names])

    def _judged(self, server: str) -> None:
        """Show or hide what a verdict says, and tell those whose lists that changes."""
        shown, everything = self._snapshot.catalog, frozenset(Kind)
        self._recompile()
        if server in self._snapshot.own:
            self.personal.rejudged(server)
            return
        self._listeners.tell(server, everything - unseen(server, everything, shown, self._snapshot.catalog))

    def _retry(self, server: str) -> None:
        self.pool.retry(server)
        self.personal.retry(server)

    def _changed(self, server: str, kinds: frozenset[Kind]) -> None:
        self._attendance.came(server, self.pool.hello(server))
        if server in self._snapshot.config.servers:
            self._refresher.changed(server, kinds)
        if server in self._snapshot.own:
            self.personal.announced(server, kinds)

    def _alert(self, kind: str, facts: Object) -> None:
        self.oversight.alerts.raised(kind, facts)

    def _note(self, event: str, facts: dict[str, Value]) -> None:
        self._write(events.gateway_event(event, facts))

    def _write(self, entry: Object) -> None:
        """Write a record nobody waits for; a loss is counted by the log itself."""
        self.audit.note(entry)
