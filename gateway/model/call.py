"""One request on its way to a server, frozen; every step of the chain sees the same values."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from gateway.model.catalog import Definition, Kind, Route
from gateway.model.principal import Principal
from gateway.protocol.jsonrpc import Id
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_dice = random.Random()


class Beyond(StrEnum):
    """What no server lists and a call can be about all the same; only ``any:`` selectors cover it."""

    METHOD = "method"
    """A method of an extension, by its name."""


Sort: TypeAlias = Kind | Beyond


@dataclass(frozen=True, slots=True)
class Target:
    """What a call is about, in policy terms: a server's configured name and its own name for the thing."""

    kind: Sort
    server: str
    name: str
    annotations: Object = field(default_factory=dict)

    @classmethod
    def of(cls, route: Route) -> Target:
        """Return what a route is about."""
        return cls(route.kind, route.server, route.name, route.definition.annotations)


@dataclass(frozen=True, slots=True)
class Caller:
    """The client's side of a call: facts about the hop, none of them proof of identity.

    ``session`` is the legacy session's id ("" in the modern era), ``source`` the peer address.
    ``capabilities`` are what the client declared it can answer.
    """

    era: Era
    version: str
    source: str = ""
    session: str = ""
    capabilities: Object = field(default_factory=dict)
    info: Object = field(default_factory=dict)
    view: str | None = None


@dataclass(frozen=True, slots=True)
class TaskRef:
    """A task that an earlier call became: its id at the server, and the one its client knows.

    ``instance`` names the connection it was started on where the task ends with that, else it is ""; ``replica`` then
    is the gateway that has this connection, where there can be several.
    """

    id: str
    shown: str
    instance: str = ""
    replica: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A request to pass on.

    ``params`` holds the known members besides ``_meta``, with the target's own name in place of the exposed one;
    ``meta`` the client's own ``_meta`` keys that may travel; ``definition`` the catalog's entry of the target
    (None for resources read through a template or a scheme). A call that goes on after questions carries the client's
    answers by key in ``input_responses`` (null for a question it refused to answer) and what the server gave it to
    carry in ``request_state``, exactly as it came; ``round`` then is above 1, and ``earlier`` the trace context of the
    round before. One that is about the ``task`` an earlier
    call became has that call's id and target, and no arguments.
    """

    id: str
    rpc_id: Id
    method: str
    params: Object
    target: Target
    principal: Principal
    caller: Caller
    exposed: str = ""
    definition: Definition | None = None
    meta: Object = field(default_factory=dict)
    trace: dict[str, str] = field(default_factory=dict)
    progress_token: Id | None = None
    log_level: str | None = None
    input_responses: Object | None = None
    request_state: str | None = None
    round: int = 1
    earlier: dict[str, str] = field(default_factory=dict)
    task: TaskRef | None = None

    @property
    def trace_id(self) -> str:
        """The trace it belongs to, for log lines; "" for none."""
        return self.trace.get("traceparent", "")[3:35]

    @property
    def arguments(self) -> Object:
        """The call's arguments, of a method that is not known all its params; empty where there are none."""
        if self.target.kind is Beyond.METHOD:
            return self.params
        value = self.params.get("arguments")
        return value if isinstance(value, dict) else {}


def new_call_id() -> str:
    """Mint a call id: a ULID, sortable by time. It is unique and no secret, so no system call is spent on it."""
    number = (time.time_ns() // 1_000_000) << 80 | _dice.getrandbits(80)
    return "".join([_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5)])
