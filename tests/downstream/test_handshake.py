"""The handshake of the legacy era (2025-11-25 basic/lifecycle, basic/transports §Session Management)."""

from __future__ import annotations

import pytest

from gateway import __version__
from gateway.downstream.handshake import (
    MAX_SESSION_ID,
    HandshakeRefused,
    NoEndpoint,
    Session,
    handshake,
    session_headers,
)
from gateway.downstream.transport import Reply
from gateway.errors import DownstreamError
from gateway.protocol.rawjson import Object
from tests.kit.transport import INFO, FakeHttp, FakeTransport, Sent, bare, failure, initialize, peer, reply


async def handshaken(transport: FakeTransport, **declares: Object) -> Session:
    return await handshake(peer(transport), 5, declares)


async def test_the_handshake_asks_for_the_newest_legacy_version_and_confirms() -> None:
    transport = FakeTransport({"initialize": initialize})
    session = await handshaken(transport)
    assert transport.sent[0].params == {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "aiohttp-mcp-gateway", "version": __version__},
    }
    assert transport.sent[0].request.cancel is None
    assert transport.notified == [("notifications/initialized", {})]
    assert (session.hello.version, session.hello.product) == ("2025-11-25", "scripted/1.0")


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
async def test_any_known_legacy_version_is_accepted(version: str) -> None:
    """G124: versions are negotiated per hop."""
    transport = FakeTransport({"initialize": lambda sent: reply(protocolVersion=version, serverInfo=INFO)})
    assert (await handshaken(transport)).hello.version == version


@pytest.mark.parametrize("version", ["2023-01-01", "2026-07-28", None, 7])
async def test_an_unknown_version_ends_the_handshake(version: str | int | None) -> None:
    transport = FakeTransport({"initialize": lambda sent: reply(protocolVersion=version)})
    with pytest.raises(HandshakeRefused):
        await handshaken(transport)
    assert transport.notified == []


async def test_a_server_that_names_its_versions_in_an_error_is_asked_again() -> None:
    def picky(sent: Sent) -> Reply:
        if sent.params["protocolVersion"] != "2024-11-05":
            return failure(-32602, "Unsupported protocol version", {"supported": ["2024-11-05", "x"]})
        return initialize(sent)

    assert (await handshaken(FakeTransport({"initialize": picky}))).hello.version == "2024-11-05"


async def test_a_refused_handshake_is_told_from_an_unreachable_server() -> None:
    with pytest.raises(HandshakeRefused, match="error -32601"):
        await handshaken(FakeTransport({}))
    with pytest.raises(HandshakeRefused):
        await handshaken(FakeHttp({"initialize": lambda sent: bare(404)}))
    with pytest.raises(DownstreamError, match="credential rejected") as caught:
        await handshaken(FakeHttp({"initialize": lambda sent: bare(401)}))
    assert not isinstance(caught.value, HandshakeRefused)


@pytest.mark.parametrize("identifier", ["a b", "ä", "x" * (MAX_SESSION_ID + 1), "a\r\nX: y"])
async def test_a_session_id_that_is_no_header_value_is_refused(identifier: str) -> None:
    def start(sent: Sent) -> Reply:
        return Reply(initialize(sent).result, None, 200, {"mcp-session-id": identifier})

    with pytest.raises(DownstreamError, match="unusable session id"):
        await handshaken(FakeHttp({"initialize": start}))


async def test_what_is_declared_reaches_the_server_also_when_it_names_another_version() -> None:
    def picky(sent: Sent) -> Reply:
        if sent.params["protocolVersion"] != "2025-06-18":
            return failure(-32602, "Unsupported protocol version", {"supported": ["2025-06-18"]})
        return initialize(sent)

    transport = FakeTransport({"initialize": picky})
    await handshaken(transport, elicitation={"form": {}}, roots={})
    declared: Object = {"elicitation": {"form": {}}, "roots": {}}
    assert [sent.params["capabilities"] for sent in transport.sent] == [declared, declared]


async def test_a_session_is_named_in_headers_over_http_alone() -> None:
    def start(sent: Sent) -> Reply:
        return Reply(initialize(sent).result, None, 200, {"mcp-session-id": "s1"})

    web, pipe = FakeHttp({"initialize": start}), FakeTransport({"initialize": start})
    session = await handshaken(web)
    assert session_headers(peer(web), session) == {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "s1"}
    assert session_headers(peer(pipe), session) == {}
    assert Session("", session.hello).headers() == {"MCP-Protocol-Version": "2025-11-25"}


@pytest.mark.parametrize("status", [400, 404, 405, 406, 410])
async def test_a_server_that_takes_no_post_may_have_the_oldest_transport(status: int) -> None:
    """2025-11-25 basic/transports §Backwards Compatibility."""
    for answer in (bare(status), failure(-32600, status=status)):
        transport = FakeHttp({"initialize": lambda sent, answer=answer: answer})  # type: ignore[misc]  # reason: bound.
        with pytest.raises(HandshakeRefused) as caught:
            await handshaken(transport)
        assert isinstance(caught.value, NoEndpoint) is (status in (400, 404, 405))
