"""What one connection is made from, as whoever makes it knows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.config.servers import Server
from gateway.downstream.authorizer import Authorizer
from gateway.downstream.dialect import Events
from gateway.downstream.inspection import Inspector
from gateway.downstream.parking import Asking
from gateway.downstream.transport import Transport
from gateway.protocol.versions import Era
from gateway.telemetry.spans import OFF, Tracer

MakeTransport = Callable[[str, Server], Transport]
"""Makes a transport that is not open yet, from a server's name and config."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a connection is made from. ``era`` is what the server spoke last time; ``fingerprint`` the config's."""

    name: str
    server: Server
    make: MakeTransport
    fingerprint: str = ""
    era: Era | None = None
    events: Events = field(default_factory=Events)
    listens: bool = False
    """Whether this connection hears of changes: the catalog's does, others have no use for them."""
    asking: Asking = field(default_factory=Asking)
    inspector: Inspector = field(default_factory=Inspector)
    whose: str = ""
    """Who shares the connection, "" for everybody."""
    authorizer: Authorizer | None = None
    tracer: Tracer = OFF
