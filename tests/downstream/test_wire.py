"""A transport before and after its dialect is known."""

from __future__ import annotations

from gateway.downstream.wire import Wire
from gateway.protocol.jsonrpc import ErrorObject
from tests.kit.transport import MODERN, Farm, Heard, server


async def test_before_the_handshake_only_a_ping_is_answered() -> None:
    farm, heard, ends = Farm(MODERN), Heard(), []
    wire = Wire(farm("a", server()), heard.events, lambda one, reason: ends.append(reason))
    wire.notification("notifications/tools/list_changed", {})
    assert wire.ask("ping", {}) == {}
    assert isinstance(wire.ask("roots/list", {}), ErrorObject)
    wire.violation("bad_json", "…")
    wire.closed("exited")
    assert (heard.violations, heard.changed, ends, wire.over) == (["bad_json"], [], ["exited"], True)
