"""Holds every server to its pin: judges it before it is started, when it answers, and whenever its lists are read.

What was approved and what follows from a difference is decided in ``pinning``; here it meets connections, the audit
log and the metrics. What must not be served is hidden by the next snapshot, and refused here until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from gateway.catalog.collect import One, collect
from gateway.config.root import Config
from gateway.config.servers import Server
from gateway.downstream.inspection import Inspector, Meeting, Offer, Quarantined, Seals
from gateway.errors import ConfigError, DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.catalog import Listing
from gateway.model.outcome import Failure
from gateway.news import News
from gateway.pinning import approval, forms, launchers
from gateway.pinning.digests import seals_of, started
from gateway.pinning.facts import STARTED, TOLD, configured
from gateway.pinning.fingerprint import PINNED, Fingerprint, Wrong, definitions_of, key_of, told
from gateway.pinning.modes import terms_of
from gateway.pinning.pins import Overtaken, Pin, Pins
from gateway.pinning.verify import Difference, Effect, Verdict, judge
from gateway.state.documents import Documents
from gateway.telemetry.logs import get_logger
from gateway.watched import Watched, World, differing, due, executed, withheld
from gateway.witness import ask

_log = get_logger("pins")

FRESH: Final = 2.0
"""Seconds a call waits for lists that are being read again (S139)."""
_TRIES: Final = 10


class Trust(Inspector):
    """The pins of one gateway."""

    def __init__(self, documents: Documents, key: bytes, news: News) -> None:
        """Read the pins; ``key`` keys the digests of what may be secret.

        Raises:
            ConfigError: they are damaged.
        """
        self._documents = documents
        self._pins = Pins(documents)
        self._key = key
        self._news = news
        self._world = World()
        self._watched: dict[str, Watched] = {}
        self._saving = asyncio.Lock()

    def connect(self, world: World) -> None:
        """Say who acts on verdicts; before that nobody does."""
        self._world = world

    # What snapshots are made of.

    def verdicts(self, config: Config, listings: Mapping[str, Listing]) -> dict[str, Verdict]:
        """Judge every server of a config that may not be in force yet, by the lists that would be served."""
        found: dict[str, Verdict] = {}
        for name, server in config.servers.items():
            watched = self._watch(name, server, config)
            seen = watched.seen
            if seen.definitions is None and name in listings:
                seen = seen.listing(listings[name])
            found[name] = judge(self._pins.get(name), seen, watched.terms)
        return found

    def apply(self, config: Config) -> None:
        """Put a config in force."""
        self._watched = {name: self._watch(name, server, config) for name, server in config.servers.items()}
        for name in self._watched:
            self._judge(name)

    def _watch(self, name: str, server: Server, config: Config) -> Watched:
        facts, terms = configured(server, self._key), terms_of(server, config)
        known = self._watched.get(name)
        if known is None or any(known.seen.facts.get(fact) != value for fact, value in facts.items()):
            return Watched(server, terms, Fingerprint(facts))
        if known.server.model_dump(exclude={"pin"}) != server.model_dump(exclude={"pin"}):
            return Watched(server, terms, Fingerprint(facts))
        return Watched(server, terms, known.seen, known.verdict)

    # What connections ask.

    async def before(self, name: str, server: Server) -> Seals | None:
        """Judge config, executable and files before a start; see ``Inspector``."""
        watched = self._watched.get(name)
        if watched is None or watched.terms.mode == "off":
            return None
        seals = await self._look(watched) if server.kind == "stdio" or server.pin.files else None
        self._react(name)
        await self._rotate(name)
        if self._watched[name].verdict.shut:
            raise Quarantined(self._watched[name].verdict.hidden)
        return seals if watched.terms.holds else None

    async def after(self, name: str, server: Server, seals: Seals) -> None:
        """Judge again where a file is another one than a moment ago."""
        watched = self._watched.get(name)
        if watched is None or await asyncio.to_thread(seals_of, seals) == seals:
            return
        await self._look(watched)
        self._react(name)
        if watched.verdict.shut:
            raise Quarantined(watched.verdict.hidden)

    async def _look(self, watched: Watched) -> Seals:
        """Read what is about to be executed, and the files that belong to it, off the loop."""
        server = watched.server
        executables, inner = executed(server) if server.kind == "stdio" else ([], [])
        seals = await asyncio.to_thread(seals_of, [*executables, *server.pin.files])
        facts = await asyncio.to_thread(started, executables, server.pin.files)
        loose = launchers.mutable(inner) if watched.terms.mode == "strict" else ""
        wrong = Wrong("launcher", "an exact version", loose) if loose else None
        watched.seen = watched.seen.with_facts(facts, STARTED).with_wrong("", wrong, "launcher")
        return seals

    async def met(self, meeting: Meeting) -> Offer | None:
        """Judge who answers: its own words, its key, and the probe; see ``Inspector``."""
        watched = self._watched.get(meeting.name)
        if watched is None or watched.terms.mode == "off":
            return None
        if not meeting.whose:
            hello = meeting.hello
            facts = told(hello.server_info, hello.version, hello.capabilities, meeting.key_digest)
            watched.seen = watched.seen.with_facts(facts, TOLD)
        wrong = await ask(meeting, self._key) if watched.server.pin.probe is not None else None
        watched.seen = watched.seen.with_wrong("", None, "tls_pin").with_wrong(meeting.whose, wrong, "probe")
        self._react(meeting.name)
        if not watched.terms.holds:
            return None
        if wrong is not None:
            raise Quarantined(watched.verdict.hidden)
        if not meeting.whose:
            return None
        offer = Offer(lambda: self._offered(meeting))
        await offer.digests()
        return offer

    async def _offered(self, meeting: Meeting) -> dict[str, str]:
        """List what one principal's connection offers, and report what is not as approved."""
        listing = await collect(One(meeting.page, meeting.hello), meeting.name)
        pin = self._pins.get(meeting.name) or Pin()
        digests = {name: item.digest for name, item in definitions_of(listing).items()}
        if meeting.server.catalog == "principal":
            # That it is another list than others get is no news; what is new in it is told when the principal sees it.
            return digests
        for name, digest in digests.items():
            known = pin.definitions.get(name, ())
            if known and digest not in {each.digest for each in known}:
                item = Difference("definition", name, known[-1].digest, digest, Effect.HOLD)
                self._news.elsewhere(meeting.name, item)
        return digests

    def wrong_key(self, name: str, whose: str, found: str) -> None:
        """Take note of a TLS key that is not among the configured ones; the handshake has failed already."""
        watched = self._watched.get(name)
        if watched is not None and watched.terms.mode != "off":
            expected = " ".join(watched.server.tls.spki_sha256[:4])
            watched.seen = watched.seen.with_wrong("", Wrong("tls_pin", expected, found), "tls_pin")
            self._react(name)

    async def cleared(self, call: Call, offer: Offer | None = None) -> Failure | None:
        """Say why a call must not be sent now; the client hears what it would of a name that does not exist."""
        server = call.target.server
        watched = self._watched.get(server)
        if watched is None or not watched.terms.holds:
            return None
        if watched.server.catalog == "shared" and not await self._world.settled(server):
            raise _stale(server)
        watched = self._watched.get(server, watched)
        reason = withheld(watched, call) or await self._differs(watched, call, offer)
        if not reason:
            return None
        return Failure(Reason.DENIED, "", hidden=True, detail=f"pins: {reason}")

    async def _differs(self, watched: Watched, call: Call, offer: Offer | None) -> str:
        definition, server = call.definition, call.target.server
        if offer is None or definition is None or definition.kind not in PINNED:
            return ""
        try:
            async with asyncio.timeout(FRESH):
                digest = (await offer.digests()).get(key_of(definition.kind, definition.name))
        except TimeoutError:
            raise _stale(server) from None
        return "" if digest is None else differing(watched, self._pins.get(server), definition, digest)

    # What the runtime reports.

    async def seen(self, listing: Listing, key_digest: str = "") -> bool:
        """Compare fresh lists with the pin; the first sight is durable before this returns.

        Returns whether anything is hidden or shown now that was not before.
        """
        name = listing.server
        watched = self._watched.get(name)
        if watched is None or watched.terms.mode == "off":
            return False
        facts = told(listing.server_info, listing.version, listing.capabilities, key_digest)
        watched.seen = watched.seen.with_facts(facts, TOLD).listing(listing)
        await self._record(name)
        return self._judge(name)

    async def offered(self, listing: Listing, whose: str) -> bool:
        """Compare the lists of one principal with the pin; the first sight is durable before this returns.

        Returns whether anything is hidden or shown now that was not before.
        """
        watched = self._watched.get(listing.server)
        if watched is None or watched.terms.mode == "off":
            return False
        pin = self._pins.get(listing.server)
        if pin is None and watched.seen.definitions is None and not watched.seen.own:
            watched.seen = replace(watched.seen, instructions=listing.instructions)
        definitions, last = definitions_of(listing), watched.seen.own.get(whose, {})
        watched.seen = watched.seen.with_own(whose, forms.unapproved(pin, definitions))
        await self._record(listing.server)
        watched = self._watched.get(listing.server)
        if watched is None:
            return False
        pin, before = self._pins.get(listing.server), watched.verdict
        left = forms.unapproved(pin, definitions)
        watched.seen = watched.seen.with_own(whose, left)
        if before.is_same(pin, last, left):
            return False
        self._judge(listing.server)
        # What else is held back of it changes nothing of what anybody else is shown.
        return (watched.verdict.hidden, watched.verdict.forms) != (before.hidden, before.forms)

    def forgotten(self, name: str, whose: str) -> None:
        """Forget what differed in the lists of one principal, which are not known any more."""
        watched = self._watched.get(name)
        if watched is not None and whose in watched.seen.own:
            watched.seen = watched.seen.with_own(whose, {})

    async def reread(self, changed: Callable[[str], bool]) -> bool:
        """Take what other replicas have written, and write what could not be written before.

        What cannot be read changes nothing: what is known stays in force. Tells whether it could be.
        """
        try:
            await self._documents.beside(self._pins.refresh)
        except (ConfigError, OSError) as error:
            reason = error.problems[0].message if isinstance(error, ConfigError) else error.strerror
            _log.error("pins_not_read", reason=reason)
            return False
        for name in list(self._watched):
            if self._pins.get(name) is None and self._watched[name].is_listed:
                await self._record(name)
                self._react(name)
        self._follow()
        return True

    def _follow(self) -> None:
        """Act on what others approved or rejected."""
        for name, before in self._pins.take_changed().items():
            watched, pin = self._watched.get(name), self._pins.get(name)
            if watched is None:
                continue
            if pin is not None and before is not None and pin.at != before.at:
                # Somebody approved: whether that is right again the next connection tells.
                watched.seen = watched.seen.without_wrong()
            self._react(name)
            self._world.retry(name)

    async def _record(self, name: str) -> None:
        """Write down what is seen for the first time; where another replica was faster, its word counts."""
        for _ in range(_TRIES):
            watched, pin = self._watched.get(name), self._pins.get(name)
            made = due(watched, pin, _now()) if watched is not None else None
            if watched is None or made is None or made == pin:
                return
            try:
                saved = await self._save(name, made, pin)
            except Overtaken:
                continue
            if pin is None:
                self._news.recorded(name, watched.seen, saved=saved)
            return

    async def _save(self, name: str, pin: Pin, before: Pin | None) -> bool:
        """Write a pin where it is another one; a failure leaves everything as it was, and hidden what was hidden.

        Raises:
            Overtaken: another replica has changed it meanwhile.
        """
        async with self._saving:
            if self._pins.get(name) != before:
                raise Overtaken(name)
            if pin == before:
                return True
            try:
                await self._documents.beside(self._pins.save, name, pin, before)
            except (OSError, ConfigError) as error:
                _log.error("pins_not_written", server=name, error=type(error).__name__)
                return False
        return True

    async def _rotate(self, name: str) -> None:
        """Take a new value of what may change by itself; it was reported."""
        watched, pin = self._watched[name], self._pins.get(name)
        rotated = [d for d in watched.verdict.differences if d.aspect in ("header", "env") and d.effect is Effect.TELL]
        if pin is not None and rotated and watched.terms.rotating:
            # Where another replica was faster it has done the same.
            with suppress(Overtaken):
                await self._save(name, approval.approved(pin, watched.seen, rotated, pin.at), pin)
            self._judge(name)

    def _react(self, name: str) -> None:
        if self._judge(name):
            self._world.changed(name)

    def _judge(self, name: str) -> bool:
        """Take a new verdict; tell whether it hides or shows anything."""
        watched = self._watched[name]
        before, pin = watched.verdict, self._pins.get(name)
        watched.verdict = verdict = judge(pin, watched.seen, watched.terms)
        self._news.report(name, verdict, pin, watched.seen)
        if verdict.barred and not before.barred:
            self._world.sever(name, verdict.hidden)
        return verdict.shown != before.shown

    # What operators see and decide.

    def state(self, name: str) -> str:
        """Return how a server's pin stands: ``off``, ``unknown``, ``recorded``, ``changed`` or ``quarantined``."""
        watched = self._watched.get(name)
        if watched is None or watched.terms.mode == "off":
            return "off"
        if watched.verdict.barred:
            return "quarantined"
        if self._pins.get(name) is None:
            return "unknown"
        return "changed" if watched.verdict.differences else "recorded"

    def changed(self, name: str) -> list[str]:
        """Name what differs, for people."""
        watched = self._watched.get(name)
        return [item.item for item in watched.verdict.differences] if watched is not None else []

    def watched(self, name: str) -> Watched | None:
        """Return what is known of a configured server."""
        return self._watched.get(name)

    def pin(self, name: str) -> Pin | None:
        """Return what was approved of a server."""
        return self._pins.get(name)

    async def decide(self, name: str, items: Iterable[Difference], *, approve: bool) -> bool:
        """Approve or reject differences as they are now; False where that cannot be written.

        Raises:
            Overtaken: others have decided about the same meanwhile.
        """
        watched, chosen = self._watched[name], list(items)
        while True:
            pin = self._pins.get(name)
            made = approval.approved(pin, watched.seen, chosen, _now()) if approve else approval.rejected(pin, chosen)
            try:
                saved = await self._save(name, made, pin)
                break
            except Overtaken:
                self._follow()
                left = {item.identity for item in watched.verdict.differences}
                if not left.issuperset(item.identity for item in chosen):
                    raise
        if not saved:
            return False
        if approve:
            watched.seen = watched.seen.without_wrong()
        self._react(name)
        self._world.retry(name)
        return True


def _stale(server: str) -> DownstreamError:
    text = f'the lists of server "{server}" may have changed and are being read again'
    return DownstreamError(Reason.UNAVAILABLE, text, retry_after_ms=1000)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
