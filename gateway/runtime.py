"""Owns everything that outlives a request, and the pointer to the snapshot that requests read once.

Config, policies, catalog and chain change together by replacing that pointer; connections sit beside it in the pool.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from gateway.admin.operations import Act
from gateway.audit import events, record
from gateway.audit.keys import load_key
from gateway.audit.log import AuditLog, AuditOptions
from gateway.audit.record import DecisionFacts, Ending
from gateway.auth.authenticate import Authenticator
from gateway.auth.throttle import Throttle
from gateway.catalog.build import build
from gateway.catalog.keep import Keep
from gateway.catalog.refresh import Refresher
from gateway.config.loader import load
from gateway.config.restart import restart_needed, with_running_sections
from gateway.config.root import LoadedConfig
from gateway.config.start_rules import start_problems
from gateway.downstream.fingerprint import fingerprint
from gateway.downstream.guardian import Guardian
from gateway.downstream.hooks import Hooks
from gateway.downstream.pool import Pool, PoolOptions
from gateway.errors import ConfigError
from gateway.judgement import CATALOG, FINGERPRINT_KEY, KEY_BYTES
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Kind, Listing
from gateway.model.exchange import Exchange
from gateway.model.outcome import Outcome
from gateway.model.principal import Principal
from gateway.pipeline.account import Account, least_revealing
from gateway.pipeline.compose import Ingredients, compose
from gateway.pipeline.interceptor import Passage
from gateway.pipeline.rounds import Terms
from gateway.pipeline.snapshot import Snapshot, snapshot_digest
from gateway.policy.decision import Question
from gateway.policy.engine import Engine
from gateway.policy.limits import InFlight, Limiter, RequestBudget
from gateway.protocol.rawjson import Object, Value
from gateway.samples import Samples
from gateway.state.files import read_or_create_key, secure_directory
from gateway.state.memory import MemoryStore
from gateway.state.sealing import Sealer
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash
from gateway.telemetry.loop import watch_loop
from gateway.telemetry.metrics import Metrics
from gateway.trust import Trust
from gateway.wiring import AuditMeters, ServerMeters

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
        self.sealer = Sealer(_sealing_keys(loaded, state))
        self.throttle = Throttle(config.auth.throttle.failures)
        self._store = MemoryStore()
        self.budget = RequestBudget(self._store, config.limits.requests)
        self.in_flight = InFlight(config.limits.in_flight)
        self._limiter = Limiter(self._store)
        self._pin_key = read_or_create_key(state / FINGERPRINT_KEY, KEY_BYTES)
        self._audit_key = load_key(state)
        self.audit = AuditLog(
            AuditOptions.from_config(config.audit, {"config_sha256": loaded.digest}, AuditMeters(self.metrics))
        )
        self._samples = Samples(self._write, self._audit_key, self._why_hidden)
        self._tasks = TaskSet(on_crash(_log))
        self._guardian = Guardian()
        self.pool = Pool(
            PoolOptions(
                self._guardian,
                key=self._pin_key,
                eras=state / "eras.json",
                hooks=Hooks(self._changed, self._down, self._updated, self._circuit, self._ended, self._elicited),
                meters=ServerMeters(self.metrics),
            )
        )
        self.trust = Trust(state, self._pin_key, self._write, self.metrics)
        self._keep = Keep(state / CATALOG)
        self._refresher = Refresher(self.pool, self._publish, config.naming.list_ttl, self._tasks)
        self._listings: dict[tuple[str, str], Listing] = {}
        self._reloading = asyncio.Lock()
        self._up: set[str] = set()
        self._listeners: list[ChangeListener] = []
        self._resource_listeners: list[Callable[[str, str], None]] = []
        self._page_listeners: list[Callable[[str, str], None]] = []
        self._reload_listeners: list[Callable[[], None]] = []
        self._draining = False
        self.reload_result: Object = {"ok": True, "at": self.started_at.isoformat(timespec="seconds"), "problems": []}
        self._snapshot = self._compile(loaded)

    async def start(self) -> None:
        """Open the audit log and start the servers in the background.

        Raises:
            ConfigError: the audit log cannot be opened.
        """
        await self.audit.open()
        self._note("gateway.started", {"config_sha256": self._snapshot.loaded.digest})
        for server, reason in self._snapshot.loaded.off.items():
            _log.warning("server_off", server=server, reason=reason)
        await self._guardian.start()
        self._install()
        self._tasks.start(watch_loop(self.metrics.event_loop_lag_seconds.observe), "loop watch")
        self._tasks.start(self._samples.run(), "samples")

    def current(self) -> Snapshot:
        """Return the snapshot in force."""
        return self._snapshot

    def draining(self) -> bool:
        """Tell whether the gateway is shutting down."""
        return self._draining

    def begin_drain(self) -> None:
        """Take no new work from now on."""
        self._draining = True
        self.metrics.draining.set(1)
        self._note("gateway.draining", {})

    async def aclose(self) -> None:
        """End servers, tasks and the audit log, in bounded time."""
        await self.pool.aclose()
        await self._tasks.aclose()
        await self._guardian.aclose()
        self._samples.close()
        self._note("gateway.stopped", {})
        await self.audit.aclose()

    def changes(self, listener: ChangeListener) -> Callable[[], None]:
        """Call ``listener`` with server and kinds when lists may have changed, until the result is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def resource_updates(self, listener: Callable[[str, str], None]) -> Callable[[], None]:
        """Call ``listener`` with server and URI when a subscribed resource changed, until the result is called."""
        self._resource_listeners.append(listener)
        return lambda: self._resource_listeners.remove(listener)

    def elicitations(self, listener: Callable[[str, str], None]) -> Callable[[], None]:
        """Call ``listener`` with server and id when people are done with a page, until the result is called."""
        self._page_listeners.append(listener)
        return lambda: self._page_listeners.remove(listener)

    def reloads(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` after every good reload, until the result is called."""
        self._reload_listeners.append(listener)
        return lambda: self._reload_listeners.remove(listener)

    def subscribe(self, server: str, uri: str) -> None:
        """Have a server tell of a resource's changes; each call needs its ``unsubscribe``.

        Raises:
            DownstreamError: too many resources, or no such server.
        """
        self.pool.subscribe(server, uri)

    def unsubscribe(self, server: str, uri: str) -> None:
        """Undo one ``subscribe``."""
        self.pool.unsubscribe(server, uri)

    async def subscribed(self, servers: Iterable[str]) -> None:
        """Wait a bounded time until these servers have taken what was subscribed to."""
        await self.pool.subscribed(servers)

    async def end_session(self, session_id: str) -> None:
        """End what servers hold for a client session that is over."""
        await self.pool.end_session(session_id)

    async def security_event(self, event: str, fields: dict[str, object]) -> None:
        """Audit a refusal that came before any call; floods of them in sums."""
        facts = {key: _value(value) for key, value in fields.items() if key != "source"}
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

    def _why_hidden(self, call: Call) -> tuple[Target, DecisionFacts] | None:
        target = self._snapshot.hidden(call.target.kind, call.exposed)
        if target is None:
            return None
        question = Question(call.principal, target, {}, call.caller.view, datetime.now(UTC))
        decision = self._snapshot.engine.decide(question)
        if decision.allowed:
            return None
        return target, DecisionFacts("deny", decision.policy, decision.rule, decision.reason)

    async def reload(self, act: Act) -> Object:
        """Read the config again and put it in force as a whole, or change nothing; one at a time.

        Raises:
            ConfigError: it cannot be served.
        """
        async with self._reloading:
            return await self._reload(act)

    async def _reload(self, act: Act) -> Object:
        running = self._snapshot.loaded
        at = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            # Reading a long file takes long enough for others to notice.
            loaded = await asyncio.to_thread(load, running.path, os.environ)
            problems = start_problems(loaded)
            if problems:
                raise ConfigError(problems)
            restart = restart_needed(running.config, loaded.config)
            snapshot = self._compile(with_running_sections(running, loaded))
        except ConfigError as error:
            self.reload_result = {"ok": False, "at": at, "problems": [str(problem) for problem in error.problems]}
            self.metrics.config_reloads_total.inc(result="failed")
            self.metrics.config_reload_success.set(0)
            self._note("config.reload_failed", {"problems": len(error.problems), "user": act.user})
            raise
        self._snapshot = snapshot
        self._install()
        self.reload_result = {"ok": True, "at": at, "problems": [], "needs_restart": [*restart]}
        self.metrics.config_reloads_total.inc(result="ok")
        self._note("config.loaded", {"config_sha256": loaded.digest, "user": act.user, "needs_restart": len(restart)})
        for listener in list(self._reload_listeners):
            listener()
        return self.reload_result

    def _install(self) -> None:
        """Make the world agree with the snapshot: metrics, budgets and servers."""
        loaded = self._snapshot.loaded
        config = loaded.config
        self.metrics.set_config(loaded.digest)
        self.metrics.config_reload_success.set(1)
        self.metrics.known_servers(config.servers)
        self.metrics.known_clients(config.clients)
        self.metrics.known_tools(route.exposed for route in self._snapshot.catalog.by_kind.get(Kind.TOOL, ()))
        self.budget.change(config.limits.requests)
        self.in_flight.change(config.limits.in_flight)
        self._listings = {key: value for key, value in self._listings.items() if key[0] in config.servers}
        self.throttle.change(config.auth.throttle.failures)
        self._refresher.default_age = config.naming.list_ttl
        self._refresher.apply(config.servers)
        self.pool.apply(config.servers)

    def _compile(self, loaded: LoadedConfig) -> Snapshot:
        """Make a snapshot of a config and the lists known now.

        Raises:
            ConfigError: a policy or a key cannot be used.
        """
        config = loaded.config
        try:
            engine = Engine.build(loaded)
        except ConfigError as error:
            raise ConfigError([loaded.locate(problem) for problem in error.problems]) from None
        chain = compose(
            Ingredients(
                engine,
                self._account(loaded),
                self._limiter,
                self.in_flight,
                self.pool,
                self.metrics,
                self._pin_state,
                lambda server: Terms.of(config.servers[server]),
            )
        )
        catalog = build(config.naming, config.servers, self._known(loaded))
        authenticator = Authenticator(loaded, lambda: datetime.now(UTC))
        return Snapshot(loaded, catalog, engine, authenticator, chain, snapshot_digest(loaded.digest, catalog))

    def _account(self, loaded: LoadedConfig) -> Account:
        audit = loaded.config.audit
        return Account(
            self.audit,
            self._audit_key,
            least_revealing(audit.payload),
            loaded.digest,
            durable_end=audit.durability == "each",
        )

    def _ended(self, call: Call, exchange: Exchange, outcome: Outcome) -> None:
        """Close the account of a parked call that ended while its client was away."""
        snapshot, now = self._snapshot, datetime.now(UTC)
        decision = snapshot.engine.decide(Question(call.principal, call.target, call.arguments, call.caller.view, now))
        account, passage = self._account(snapshot.loaded), Passage(exchange, decision)
        ending = Ending(exchange, outcome, time.monotonic(), call.round, account.result(passage, outcome))
        described = account.describe(call, passage)
        # A request about a task is part of a call that has ended already.
        over = record.call_end if call.task is None else partial(record.call_round, held=False)
        self._write(over(described, ending))

    def _pin_state(self, server: str) -> str:
        return self.trust.state(server, self._snapshot.config.servers.get(server))

    def _known(self, loaded: LoadedConfig) -> dict[str, Listing]:
        """Return the last complete lists of servers that are configured as they were then, kept ones included."""
        known: dict[str, Listing] = {}
        for name, server in loaded.config.servers.items():
            digest = fingerprint(name, server, self._pin_key)
            listing = self._listings.get((name, digest)) or self._keep.load(name, digest)
            if listing is not None:
                known[name] = self._listings[name, digest] = listing
        return known

    async def _publish(self, listing: Listing, kinds: frozenset[Kind]) -> None:
        """Put a server's fresh lists in force and say so, also when they are equal."""
        loaded = self._snapshot.loaded
        server = loaded.config.servers.get(listing.server)
        if server is None:
            return
        self.trust.seen(listing.server, server, listing)
        digest = fingerprint(listing.server, server, self._pin_key)
        before = self._listings.get((listing.server, digest))
        is_new = before is None or before != listing
        if is_new:
            self._listings = {key: value for key, value in self._listings.items() if key[0] != listing.server}
            self._listings[listing.server, digest] = listing
            self._snapshot = self._compile(loaded)
            self.metrics.known_tools(route.exposed for route in self._snapshot.catalog.by_kind.get(Kind.TOOL, ()))
            _log.info("catalog_changed", server=listing.server, definitions=len(listing.definitions))
        self._tell(listing.server, kinds)
        if is_new:
            # Last, and not on the loop: it waits for the disk.
            await asyncio.to_thread(self._keep.store, listing, digest)

    def _tell(self, server: str, kinds: frozenset[Kind]) -> None:
        for listener in list(self._listeners):
            listener(server, kinds)

    def _changed(self, server: str, kinds: frozenset[Kind]) -> None:
        if server not in self._up:
            self._up.add(server)
            self._write(events.server_event("downstream.started", server, self._met(server)))
        if server in self._snapshot.config.servers:
            self._refresher.changed(server, kinds)

    def _met(self, server: str) -> Object:
        hello = self.pool.hello(server)
        return {} if hello is None else {"era": hello.era.value, "version": hello.version, "product": hello.product}

    def _down(self, server: str, reason: str) -> None:
        event = "downstream.exited" if server in self._up else "downstream.failed"
        self._up.discard(server)
        self._write(events.server_event(event, server, {"reason": reason}))

    def _circuit(self, server: str, state: str) -> None:
        self._write(events.server_event("downstream.circuit", server, {"state": state}))

    def _updated(self, server: str, uri: str) -> None:
        for listener in list(self._resource_listeners):
            listener(server, uri)

    def _elicited(self, server: str, identifier: str) -> None:
        for listener in list(self._page_listeners):
            listener(server, identifier)

    def _note(self, event: str, facts: dict[str, Value]) -> None:
        self._write(events.gateway_event(event, facts))

    def _write(self, entry: Object) -> None:
        """Write a record nobody waits for; a loss is counted by the log itself."""
        self.audit.note(entry)


def _sealing_keys(loaded: LoadedConfig, state: Path) -> list[bytes]:
    configured = [key.get_secret_value().encode() for key in loaded.config.state.sealing_keys]
    return configured or [read_or_create_key(state / "sealing.key", KEY_BYTES)]


def _value(item: object) -> Value:
    return item if isinstance(item, (bool, int, float, str, type(None))) else str(item)
