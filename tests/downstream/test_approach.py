"""Finding the era of a server, from what is configured, remembered or probed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from gateway.downstream.approach import Approach
from gateway.downstream.connection import Connection, State
from gateway.downstream.guardian import Guardian
from gateway.downstream.meters import NoMeters
from gateway.downstream.setup import Setup
from gateway.downstream.transport import Reply
from gateway.downstream.transports import Transports
from gateway.errors import DownstreamError, Reason
from gateway.model.catalog import Kind
from gateway.protocol.versions import Era
from tests.kit.openapi import source
from tests.kit.transport import (
    LEGACY,
    MODERN,
    Farm,
    Handler,
    Script,
    Sent,
    bare,
    discover,
    failure,
    initialize,
    never,
    refuse,
    server,
)


def connection(farm: Farm, era: Era | None = None, **config: object) -> Connection:
    return Connection(Setup("a", server(**config), farm, "f" * 64, era))


async def exits(sent: Sent) -> Reply:
    """End the process instead of answering."""
    sent.transport.end()
    return await never(sent)


async def opened(farm: Farm, era: Era | None = None, **config: object) -> Connection:
    made = connection(farm, era, **config)
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


async def test_the_wire_in_hand_tells_of_its_end_and_a_changed_list_is_passed_on() -> None:
    farm = Farm(LEGACY)
    ends: list[tuple[bool, str]] = []
    changes: list[frozenset[Kind]] = []
    made = Approach(Setup("a", server(), farm), lambda wire, reason: ends.append((wire.over, reason)), changes.append)
    dialect = await made.meet()
    wire = made.wire
    assert wire is not None
    assert wire.dialect is dialect
    farm.made[0].say("notifications/tools/list_changed")
    assert changes == [frozenset({Kind.TOOL})]
    farm.made[0].end("exited with code 3")
    assert ends == [(True, "exited with code 3")]
    await dialect.abandon()
    await wire.transport.aclose()


async def test_a_wire_is_known_before_it_is_open() -> None:
    """So that whoever gives up during a start can close what was started."""
    farm = Farm({"server/discover": never})
    made = Approach(Setup("a", server(), farm), lambda wire, reason: None, lambda kinds: None)
    task = asyncio.get_running_loop().create_task(made.meet())
    while not farm.made:
        await asyncio.sleep(0)
    await farm.made[0].reached("server/discover")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert made.wire is not None
    assert made.wire.transport is farm.made[0]
    await made.wire.transport.aclose()
    assert farm.live == []


async def test_an_api_is_read_and_asked_nothing() -> None:
    api = server(url="http://127.0.0.1:1", openapi="api.yaml").with_document(source({"/a": {"get": {}}}))
    made = Connection(Setup("a", api, Transports(Guardian(), NoMeters()), "f" * 64))
    await made.open()
    assert (made.hello.era, made.hello.version, made.instance, made.facts().transport) == (
        Era.MODERN,
        "OpenAPI 3.1.0",
        "openapi#1",
        "openapi",
    )
    await made.aclose()


async def test_an_api_without_a_usable_document_is_not_reached() -> None:
    api = server(url="http://127.0.0.1:1", openapi="api.yaml").with_document(source({}))
    made = Connection(Setup("a", api, Transports(Guardian(), NoMeters()), "f" * 64))
    with pytest.raises(DownstreamError, match='server "a": its OpenAPI document has no operation that can be called'):
        await made.open()
