"""One configured server as it is watched, what acts on its verdicts, and what they hide. Decides nothing itself."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from gateway.config.servers import Server
from gateway.downstream.command import plan
from gateway.downstream.oauth.signin import is_tool
from gateway.model.call import Call
from gateway.model.catalog import Definition, Kind
from gateway.model.principal import Principal
from gateway.pinning import approval
from gateway.pinning.fingerprint import PINNED, Fingerprint, key_of
from gateway.pinning.pins import Pin
from gateway.pinning.verify import Terms, Verdict
from gateway.pipeline.resources import matches_template


async def _settled(server: str) -> bool:
    return True


def _nothing(server: str) -> None:
    """Tell nobody."""


def _no_reason(server: str, reason: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class World:
    """What follows from a verdict, elsewhere; none but ``settled`` may block.

    ``settled`` waits until no list of a server is known to be out of date, and tells whether that came true in time.
    ``changed``: something is hidden, or shown again. ``sever``: leave the server. ``retry``: connect to it now.
    """

    settled: Callable[[str], Awaitable[bool]] = _settled
    changed: Callable[[str], None] = _nothing
    sever: Callable[[str, str], None] = _no_reason
    retry: Callable[[str], None] = _nothing


@dataclass(slots=True)
class Watched:
    """One configured server: what it must be, what it was seen to be, and what follows."""

    server: Server
    terms: Terms
    seen: Fingerprint
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def is_listed(self) -> bool:
        """Whether any lists of it were read."""
        return self.seen.definitions is not None or bool(self.seen.own)


def due(watched: Watched, pin: Pin | None, at: str) -> Pin | None:
    """Return what has to be written down of a server without anybody's approval; None for nothing."""
    if pin is not None:
        return approval.completed(pin, watched.seen)
    if watched.terms.mode == "strict" or watched.seen.wrong:
        return None
    return approval.recorded(watched.seen, at)


def executed(server: Server) -> tuple[list[str], list[str]]:
    """Return the files that a start executes, and the argument vector without what stands in front of it."""
    command = plan(server, os.environ)
    inner = list(command.argv[len(server.sandbox) :])
    return [command.argv[0], *(inner[:1] if server.sandbox and os.path.isabs(inner[0]) else ())], inner


def hold(verdicts: Mapping[str, Verdict], server: str, definition: Definition) -> str | None:
    """Say why a definition must not be exposed, for the catalog."""
    verdict = verdicts.get(server)
    if verdict is None:
        return None
    if verdict.hidden or definition.kind not in PINNED:
        return verdict.hidden or None
    name = key_of(definition.kind, definition.name)
    if verdict.forms is not None:
        return verdict.forms.held(name, definition.digest) or None
    return verdict.held.get(name)


def withheld(watched: Watched, call: Call) -> str:
    """Say why what a call names is hidden at this moment; "" where it is not."""
    verdict, definition = watched.verdict, call.definition
    if watched.server.catalog == "principal" and is_tool(call) and not verdict.barred:
        # The gateway's own: nothing of its server can be known before it was called.
        return ""
    if verdict.hidden:
        return verdict.hidden
    if definition is not None and definition.kind in PINNED:
        return _withheld_definition(watched, definition)
    if definition is None:
        for item, reason in _held_of(watched, call.principal).items():
            kind, _, template = item.partition(":")
            if kind == Kind.TEMPLATE and (template == call.target.name or matches_template(template, call.target.name)):
                return reason
    return ""


def _held_of(watched: Watched, principal: Principal) -> Mapping[str, str]:
    """Return why single definitions are held back from a principal, by ``kind:name``."""
    forms = watched.verdict.forms
    if forms is None:
        return watched.verdict.held
    own = watched.seen.own.get(principal.id, {})
    return {name: reason for name, item in own.items() if (reason := forms.held(name, item.digest))}


def differing(watched: Watched, pin: Pin | None, definition: Definition, digest: str) -> str:
    """Say why a definition with another digest must not be called in place of one that may, "" where it may be."""
    name, forms = key_of(definition.kind, definition.name), watched.verdict.forms
    if digest == definition.digest or (forms is not None and not forms.held(name, digest)):
        return ""
    approved = pin.definitions.get(name, ()) if pin is not None and forms is None else ()
    known = any(each.digest == digest for each in approved)
    return "" if known else "another definition on this principal's own connection"


def _withheld_definition(watched: Watched, definition: Definition) -> str:
    name = key_of(definition.kind, definition.name)
    if watched.verdict.forms is not None:
        # Whether it is still offered is for the principal's own lists to say, which it was found in.
        return watched.verdict.forms.held(name, definition.digest)
    if name in watched.verdict.held:
        return watched.verdict.held[name]
    known = watched.seen.definitions
    return "its server does not list it any more" if known is not None and name not in known else ""
