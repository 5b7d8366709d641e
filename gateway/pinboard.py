"""What operators see of the pins, and what they decide: one answer, one approval, one rejection, each audited.

An approval names the digests it was shown; if a server has changed since then, nothing is approved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.admin.operations import Act, Conflict
from gateway.audit import events
from gateway.audit.log import AuditLog
from gateway.news import lines_of, texts_of
from gateway.pinning.approval import can_approve
from gateway.pinning.pins import Overtaken, Pin
from gateway.pinning.verify import Difference
from gateway.protocol.rawjson import Object
from gateway.telemetry.text import printable
from gateway.trust import Trust
from gateway.watched import Watched

_MAX_SHOWN: Final = 1000
_MAX_NAME: Final = 200
_ALL: Final = slice(0, _MAX_SHOWN)
_TOOL: Final = "tool:"
_CHANGED: Final = "it has changed since it was shown: look at it again (pins show)"


class Pinboard:
    """The pins of the running gateway, for the admin listener.

    What only shows may run in a thread: a verdict is read before what it was judged by, which can only be newer, so
    that no digest stands beside a text that is older than it.
    """

    def __init__(self, trust: Trust, audit: AuditLog) -> None:
        self._trust = trust
        self._audit = audit

    def show(self, servers: Iterable[str], target: str) -> Object:
        """Return how every server stands, or the one of a target, with all that differs.

        Raises:
            KeyError: no such server, or nothing of that name is pinned or differs.
        """
        known = list(servers)
        name, item = _split(known, target) if target else ("", "")
        shown: Object = {server: self._server(server, item) for server in ([name] if name else known)}
        return {"servers": shown}

    def part(self, servers: Iterable[str], server: str, first: int, most: int) -> Object:
        """Return how one server stands with some of what differs, and how much that is in ``total``.

        Raises:
            KeyError: no such server.
        """
        name, _ = _split(list(servers), server)
        watched = self._trust.watched(name)
        total = len(watched.verdict.differences) if watched is not None else 0
        return {**self._server(name, "", slice(first, first + min(most, _MAX_SHOWN))), "total": total}

    def whole(self, servers: Iterable[str], server: str, item: str) -> Object:
        """Return one difference with the whole texts, as approved and as it is now, where it has such.

        Raises:
            KeyError: no such server, or nothing of that name differs.
        """
        name, _ = _split(list(servers), server)
        [found, *_] = _chosen(name, self._trust.watched(name), item)
        watched = self._trust.watched(name)
        held = watched.verdict.held if watched is not None else {}
        return self._difference(name, found, held, whole=True)

    def _server(self, name: str, item: str, window: slice = _ALL) -> Object:
        watched, pin = self._trust.watched(name), self._trust.pin(name)
        differences = _chosen(name, watched, item) if item and not _pinned(pin, item) else _matching(watched, item)
        held = watched.verdict.held if watched is not None else {}
        facts = pin.facts if pin is not None else {}
        return {
            "state": self._trust.state(name),
            "mode": watched.terms.mode if watched is not None else "off",
            "reason": watched.verdict.hidden if watched is not None else "",
            "approved_at": pin.at if pin is not None else None,
            "facts": {} if item else {printable(key, _MAX_NAME): printable(facts[key], _MAX_NAME) for key in facts},
            "definitions": len(pin.definitions) if pin is not None else 0,
            "differences": [self._difference(name, each, held, whole=bool(item)) for each in differences[window]],
        }

    def _difference(self, name: str, item: Difference, held: Mapping[str, str], *, whole: bool) -> Object:
        """Return what differs; ``whole`` adds the texts of which the lines show no more than pieces."""
        watched, pin = self._trust.watched(name), self._trust.pin(name)
        assert watched is not None
        rejected = pin is not None and pin.rejected.get(item.item) == item.after
        texts = texts_of(item, pin, watched.seen) if whole else None
        return {
            **({"before_text": texts[0], "after_text": texts[1]} if texts is not None else {}),
            "item": item.item,
            "shown": printable(item.item.removeprefix(_TOOL), _MAX_NAME),
            "aspect": item.aspect,
            "effect": item.effect.value,
            "held": item.item in held,
            "rejected": rejected,
            "before": item.before,
            "after": item.after,
            "diff": [line.value() for line in lines_of(item, pin, watched.seen)],
        }

    async def approve(self, act: Act, servers: Iterable[str], target: str, digests: Mapping[str, str]) -> Object:
        """Approve what differs of a server, or one item of it, exactly as it was shown.

        Raises:
            KeyError: no such server, or nothing of that name differs.
            Conflict: something is not any more what was shown, or no approval makes it right.
            AuditUnavailable: the act cannot be recorded.
        """
        name, item = _split(list(servers), target)
        chosen = [each for each in self._as_shown(name, item, digests) if item or not self._is_rejected(name, each)]
        loose = [each.item for each in chosen if not can_approve(each)]
        if item and loose:
            raise Conflict(f"{item} is wrong in itself: change the server or its config")
        return await self._decide(act, name, chosen, approve=True)

    async def reject(self, act: Act, servers: Iterable[str], target: str, digests: Mapping[str, str]) -> Object:
        """Keep what differs held back, and remember that somebody decided so; raises as ``approve`` does."""
        name, item = _split(list(servers), target)
        chosen = [each for each in self._as_shown(name, item, digests) if can_approve(each)]
        return await self._decide(act, name, chosen, approve=False)

    def _as_shown(self, name: str, item: str, digests: Mapping[str, str]) -> list[Difference]:
        chosen = _chosen(name, self._trust.watched(name), item)
        if item:
            chosen = [each for each in chosen if each.subject == chosen[0].subject]
        now = {each.item: each.after for each in chosen}
        if dict(digests) != now:
            raise Conflict(_CHANGED)
        return chosen

    def _is_rejected(self, name: str, item: Difference) -> bool:
        pin = self._trust.pin(name)
        return pin is not None and pin.rejected.get(item.item) == item.after

    async def _decide(self, act: Act, name: str, chosen: list[Difference], *, approve: bool) -> Object:
        verb = "approve" if approve else "reject"
        for item in chosen:
            facts: Object = {"server": name, "name": item.item, "before": item.before, "after": item.after}
            await self._audit.append(events.admin(f"pins_{verb}", act.user, facts, act.source), durable=True)
        try:
            saved = await self._trust.decide(name, chosen, approve=approve)
        except Overtaken:
            raise Conflict(_CHANGED) from None
        if not saved:
            raise Conflict("the pins cannot be written now: nothing was changed")
        if approve:
            for item in chosen:
                done: Object = {"name": item.item, "before": item.before, "after": item.after, "user": act.user}
                self._audit.note(events.server_event("pin.approved", name, done))
        return {"server": name, "items": [item.item for item in chosen], "state": self._trust.state(name)}


def _split(servers: list[str], target: str) -> tuple[str, str]:
    """Read ``SERVER`` or ``SERVER/ITEM``; an item without a kind is a tool."""
    name, slash, item = target.partition("/")
    if name not in servers:
        raise KeyError(f'no server "{printable(name, _MAX_NAME)}" is configured')
    return name, item if slash else ""


def _pinned(pin: Pin | None, item: str) -> bool:
    definitions = pin.definitions if pin is not None else {}
    return item in definitions or f"{_TOOL}{item}" in definitions


def _matching(watched: Watched | None, item: str) -> list[Difference]:
    found = watched.verdict.differences if watched is not None else ()
    names = {item, f"{_TOOL}{item}"}
    return [each for each in found if not item or each.item in names or each.subject in names]


def _chosen(name: str, watched: Watched | None, item: str) -> list[Difference]:
    found = _matching(watched, item)
    if item and not found:
        raise KeyError(f'nothing called "{printable(item, _MAX_NAME)}" differs at {name}')
    return found
