"""One configured server as it is watched, what acts on its verdicts, and what they hide. Decides nothing itself."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from gateway.config.servers import Server
from gateway.downstream.command import plan
from gateway.model.call import Call
from gateway.model.catalog import Definition, Kind
from gateway.pinning.fingerprint import PINNED, Fingerprint, key_of
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
    held = verdict.held.get(key_of(definition.kind, definition.name)) if definition.kind in PINNED else None
    return verdict.hidden or held


def withheld(watched: Watched, call: Call) -> str:
    """Say why what a call names is hidden at this moment; "" where it is not."""
    verdict, definition = watched.verdict, call.definition
    if verdict.hidden:
        return verdict.hidden
    if definition is not None and definition.kind in PINNED:
        return _withheld_definition(watched, definition)
    if definition is None:
        for item, reason in verdict.held.items():
            kind, _, template = item.partition(":")
            if kind == Kind.TEMPLATE and (template == call.target.name or matches_template(template, call.target.name)):
                return reason
    return ""


def _withheld_definition(watched: Watched, definition: Definition) -> str:
    name = key_of(definition.kind, definition.name)
    if name in watched.verdict.held:
        return watched.verdict.held[name]
    known = watched.seen.definitions
    return "its server does not list it any more" if known is not None and name not in known else ""
