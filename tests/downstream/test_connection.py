"""Finding the era, living and ending (S114, S128, G011, G121)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.downstream.connection import Connection, State
from gateway.downstream.setup import Setup
from gateway.downstream.transport import Reply
from gateway.errors import DownstreamError, Reason
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure
from gateway.protocol.rawjson import Object, decode_value
from gateway.protocol.versions import Era
from tests.kit.transport import (
    LEGACY,
    MODERN,
    Farm,
    Heard,
    Script,
    Sent,
    but,
    call,
    failure,
    never,
    reply,
    server,
)


def connection(farm: Farm, era: Era | None = None, heard: Heard | None = None, **config: object) -> Connection:
    made = server(**config)
    return Connection(Setup("a", made, farm, "f" * 64, era, (heard or Heard()).events))


async def exits(sent: Sent) -> Reply:
    """End the process instead of answering."""
    sent.transport.end()
    return await never(sent)


async def opened(farm: Farm, era: Era | None = None, heard: Heard | None = None, **config: object) -> Connection:
    made = connection(farm, era, heard, **config)
    await made.open()
    return made


async def test_a_start_has_an_end() -> None:
    farm = Farm({"server/discover": never, "initialize": never})
    with pytest.raises(DownstreamError, match=r"did not get ready within 0\.05 s") as caught:
        await opened(farm, timeouts={"start": "50ms", "probe": "10ms"})
    assert caught.value.reason is Reason.UNAVAILABLE
    assert farm.live == []


async def test_a_cancelled_start_leaves_nothing_behind() -> None:
    farm = Farm({"server/discover": never})
    made = connection(farm)
    task = asyncio.get_running_loop().create_task(made.open())
    while not farm.made:
        await asyncio.sleep(0)
    await farm.made[0].reached("server/discover")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert farm.live == []
    assert made.state is State.CLOSED


async def test_a_transport_that_cannot_be_opened_is_the_servers_error() -> None:
    farm = Farm(MODERN)

    def refusing(name: str, config: object) -> object:
        transport = farm(name, server())
        transport.refuses = DownstreamError(Reason.UNAVAILABLE, "no such file")
        return transport

    made = Connection(replace(Setup("a", server(), farm), make=refusing))  # type: ignore[arg-type]  # reason: a fake.
    with pytest.raises(DownstreamError, match='server "a": no such file'):
        await made.open()


async def test_an_exit_fails_all_calls_in_flight_at_once() -> None:
    """S114."""
    farm = Farm(but(MODERN, {"tools/call": never}))
    made = await opened(farm)
    tasks = [asyncio.get_running_loop().create_task(made.call(call(), Exchange())) for _ in range(50)]
    await farm.made[0].reached("tools/call", 50)
    assert made.in_flight == 50
    farm.made[0].end("exited with code 1")
    outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
    assert {type(outcome) for outcome in outcomes} == {DownstreamError}
    assert (made.in_flight, made.state, made.reason) == (0, State.FAILED, "exited with code 1")
    assert made.over.is_set()
    await made.aclose()
    assert farm.made[0].closed


async def test_an_exit_before_the_end_of_the_handshake_is_a_failed_start() -> None:
    farm = Farm(LEGACY)
    made = connection(farm, Era.LEGACY)
    task = asyncio.get_running_loop().create_task(made.open())
    while not farm.made:
        await asyncio.sleep(0)
    await farm.made[0].reached("initialize")
    farm.made[0].end()
    with pytest.raises(DownstreamError):
        await task
    assert made.state is State.CLOSED


async def test_a_call_tells_what_answered() -> None:
    farm = Farm(MODERN)
    made = await opened(farm)
    exchange = Exchange()
    outcome = await made.call(call(), exchange)
    assert isinstance(outcome, Complete)
    assert exchange.instance is not None
    facts = exchange.instance
    assert (facts.server, facts.transport, facts.instance) == ("a", "stdio", "a#1")
    assert (facts.fingerprint, facts.server_info) == ("f" * 12, "scripted/1.0")
    assert exchange.answered_at >= exchange.dispatched_at > 0
    await made.aclose()


async def test_completion_is_empty_where_the_server_has_none() -> None:
    none: Script = {"initialize": lambda sent: reply(protocolVersion="2025-11-25", capabilities={})}
    old: Script = {"initialize": lambda sent: reply(protocolVersion="2024-11-05", capabilities={})}
    for script, asked in ((none, 0), (old, 1)):
        farm = Farm(script)
        made = await opened(farm, protocol="legacy")
        outcome = await made.call(call(method="completion/complete", params={"ref": {}}), Exchange())
        assert isinstance(outcome, Complete)
        assert decode_value(outcome.result["completion"]) == {"values": []}
        assert len(farm.made[0].of("completion/complete")) == asked
        await made.aclose()


async def test_an_error_of_another_method_stays_an_error() -> None:
    farm = Farm(but(MODERN, {"tools/call": lambda sent: failure(-32601)}))
    made = await opened(farm)
    assert isinstance(await made.call(call(), Exchange()), Failure)
    await made.aclose()


async def test_a_server_that_changed_its_version_is_given_up() -> None:
    refused = failure(-32022, data={"supported": ["2027-01-01"]})
    farm = Farm(but(MODERN, {"tools/call": lambda sent: refused, "tools/list": lambda sent: refused}))
    called, listed = await opened(farm), await opened(farm)
    with pytest.raises(DownstreamError):
        await called.call(call(), Exchange())
    with pytest.raises(DownstreamError):
        await listed.page(Kind.TOOL, None)
    for made in (called, listed):
        assert made.state is State.FAILED
        await made.aclose()


async def test_pages_and_wishes_go_to_the_dialect() -> None:
    farm = Farm(but(MODERN, {"tools/list": lambda sent: reply(tools=[])}))
    made = await opened(farm)
    assert (await made.page(Kind.TOOL, None)).items == []
    await made.subscribe(frozenset())
    await made.aclose()


async def test_only_a_connection_that_listens_hears_of_changes() -> None:
    farm, heard = Farm(MODERN), Heard()
    made = Connection(Setup("a", server(), farm, events=heard.events, listens=True))
    await made.open()
    sent = await farm.made[0].reached("subscriptions/listen")
    identifier: Object = {"io.modelcontextprotocol/subscriptionId": sent.id}
    farm.made[0].say("notifications/tools/list_changed", _meta=identifier)
    assert heard.changed == [frozenset({Kind.TOOL})]
    await made.aclose()
    silent = await opened(farm)
    await asyncio.sleep(0)
    assert farm.made[1].methods() == ["server/discover"]
    await silent.aclose()


async def test_nothing_can_be_asked_before_it_is_up() -> None:
    made = connection(Farm(MODERN))
    assert not made.is_up
    with pytest.raises(DownstreamError, match="not connected"):
        await made.call(call(), Exchange())
    assert made.instance == ""
    await made.aclose()
    await made.aclose()
    assert made.state is State.CLOSED


async def test_a_used_up_connection_cannot_be_opened_again() -> None:
    farm = Farm(MODERN)
    made = await opened(farm)
    await made.aclose()
    with pytest.raises(RuntimeError, match="opened once"):
        await made.open()
    assert len(farm.made) == 1
