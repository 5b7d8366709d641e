"""Finding the era, living and ending (S114, S128, G011, G121)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gateway.downstream.connection import Connection, Setup, State, Wire
from gateway.downstream.transport import Reply
from gateway.errors import DownstreamError, Reason
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Object, decode_value
from gateway.protocol.versions import Era
from tests.kit.transport import (
    LEGACY,
    MODERN,
    Farm,
    Handler,
    Heard,
    Script,
    Sent,
    bare,
    but,
    call,
    discover,
    failure,
    initialize,
    never,
    refuse,
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


async def test_an_unknown_modern_server_is_asked_once_and_never_greeted() -> None:
    farm = Farm(MODERN)
    made = await opened(farm)
    assert (made.state, made.hello.era, made.instance) == (State.UP, Era.MODERN, "a#1")
    assert farm.made[0].methods() == ["server/discover"]
    await made.aclose()
    assert farm.live == []


async def test_an_unknown_legacy_server_is_asked_and_greeted_on_the_same_process() -> None:
    farm = Farm(LEGACY)
    made = await opened(farm)
    assert made.hello.era is Era.LEGACY
    assert farm.made[0].methods() == ["server/discover", "initialize"]
    await made.aclose()


async def test_a_silent_server_is_greeted_after_the_probe_time() -> None:
    farm = Farm({"server/discover": never, "initialize": initialize})
    made = await opened(farm, timeouts={"probe": "30ms"})
    assert made.hello.era is Era.LEGACY
    assert len(farm.made) == 1
    # A cancellation before the handshake would be out of order.
    assert farm.made[0].cancelled == []
    await made.aclose()


async def test_a_server_that_gives_up_over_the_probe_is_started_once_more_and_not_probed_again() -> None:
    farm = Farm({"server/discover": exits, "initialize": initialize})
    made = await opened(farm)
    assert made.hello.era is Era.LEGACY
    assert [transport.methods() for transport in farm.made] == [["server/discover"], ["initialize"]]
    assert farm.made[0].closed
    await made.aclose()


async def test_a_server_that_always_exits_is_started_twice_at_most() -> None:
    farm = Farm({"server/discover": exits, "initialize": exits})
    made = connection(farm)
    with pytest.raises(DownstreamError, match='server "a"') as caught:
        await made.open()
    assert caught.value.reason is Reason.UNAVAILABLE
    assert len(farm.made) == 2
    assert farm.live == []
    assert made.state is State.CLOSED


async def test_a_modern_server_that_is_slow_to_start_is_asked_again() -> None:
    answers: Iterator[Handler] = iter([never, discover])
    script: Script = {"server/discover": lambda sent: next(answers)(sent), "initialize": lambda sent: failure(-32601)}
    farm = Farm(script)
    made = await opened(farm, timeouts={"probe": "30ms"})
    assert made.hello.era is Era.MODERN
    assert farm.made[0].methods() == ["server/discover", "initialize", "server/discover"]
    await made.aclose()


async def test_a_server_of_neither_era_is_refused() -> None:
    answers: Iterator[Handler] = iter([never, refuse])
    farm = Farm({"server/discover": lambda sent: next(answers)(sent)})
    with pytest.raises(DownstreamError, match="neither era"):
        await opened(farm, timeouts={"probe": "20ms"})
    assert farm.live == []


async def test_a_remembered_legacy_server_is_greeted_first() -> None:
    farm = Farm(LEGACY)
    made = await opened(farm, Era.LEGACY)
    assert farm.made[0].methods() == ["initialize"]
    await made.aclose()


async def test_a_remembered_era_that_proves_wrong_is_probed_again() -> None:
    farm = Farm(MODERN)
    made = await opened(farm, Era.LEGACY)
    assert (made.hello.era, farm.made[0].methods()) == (Era.MODERN, ["initialize", "server/discover"])
    await made.aclose()
    other = Farm(LEGACY)
    made = await opened(other, Era.MODERN)
    assert (made.hello.era, other.made[0].methods()) == (Era.LEGACY, ["server/discover", "initialize"])
    await made.aclose()


@pytest.mark.parametrize(("era", "script"), [("modern", LEGACY), ("legacy", MODERN)])
async def test_a_forced_era_is_not_second_guessed(era: str, script: Script) -> None:
    farm = Farm(script)
    with pytest.raises(DownstreamError):
        await opened(farm, protocol=era)
    assert farm.made[0].methods() == [{"modern": "server/discover", "legacy": "initialize"}[era]]
    assert farm.live == []


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_over_http_no_evidence_starts_no_handshake(status: int) -> None:
    farm = Farm({"server/discover": lambda sent: bare(status), "initialize": initialize}, http=True)
    with pytest.raises(DownstreamError):
        await opened(farm, url="http://x.example/mcp")
    assert farm.made[0].methods() == ["server/discover"]


async def test_a_refused_credential_says_so() -> None:
    """G099."""
    with pytest.raises(DownstreamError, match="credential rejected"):
        await opened(Farm({"server/discover": lambda sent: bare(401)}, http=True))


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_over_http_a_plain_refusal_starts_the_handshake(status: int) -> None:
    farm = Farm({"server/discover": lambda sent: bare(status), "initialize": initialize}, http=True)
    made = await opened(farm)
    assert made.hello.era is Era.LEGACY
    await made.aclose()


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


async def test_before_the_handshake_only_a_ping_is_answered() -> None:
    farm, heard, ends = Farm(MODERN), Heard(), []
    wire = Wire(farm("a", server()), heard.events, lambda one, reason: ends.append(reason))
    wire.notification("notifications/tools/list_changed", {})
    assert wire.ask("ping", {}) == {}
    assert isinstance(wire.ask("roots/list", {}), ErrorObject)
    wire.violation("bad_json", "…")
    wire.closed("exited")
    assert (heard.violations, heard.changed, ends, wire.over) == (["bad_json"], [], ["exited"], True)
