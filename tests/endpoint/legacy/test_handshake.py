"""The handshake over HTTP: version agreed on, session opened, the cap kept (2025-11-25 basic/lifecycle)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.config.access import Limits
from gateway.endpoint.legacy import handshake
from tests.kit.clients import LegacySession, ask, connect, post
from tests.kit.endpoint import ALICE, BOB, Gate, config, keyed, moment, serving, soon


def hello(params: Any, **members: object) -> bytes:
    return post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params, **members})


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-11-25"),
        ("1.0", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ],
)
async def test_the_version_asked_for_is_taken_or_the_latest_offered(asked: str, agreed: str) -> None:
    async with serving() as site:
        reply = await ask(site.port, hello({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "x"}}))
        assert reply.status == 200
        assert reply.result["protocolVersion"] == agreed
        assert reply.result["serverInfo"]["name"] == "aiohttp-mcp-gateway"
        assert reply.headers["mcp-session-id"]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"protocolVersion": 7},
        {"protocolVersion": "2025-11-25", "capabilities": []},
        {"protocolVersion": "2025-11-25", "clientInfo": "x"},
        {"protocolVersion": "2025-11-25", "ProtocolVersion": "x"},
        {"protocolVersion": "2025-11-25", "clientInfo": {"name": "x" * handshake.MAX_DECLARED}},
    ],
)
async def test_params_of_the_wrong_shape_open_no_session(params: object) -> None:
    async with serving() as site:
        reply = await ask(site.port, hello(params))
        assert (reply.status, reply.code) == (200, -32602)
        assert "mcp-session-id" not in reply.headers


async def test_a_handshake_opens_a_new_session_each_time() -> None:
    async with serving() as site:
        ids = set()
        for _ in range(3):
            session = LegacySession(site.port)
            await session.begin()
            ids.add(session.id)
        assert len(ids) == 3


async def test_the_longest_idle_session_goes_when_there_are_too_many() -> None:
    """S90."""
    async with serving(moment(keyed(limits=Limits(sessions=2)))) as site:
        sessions = [LegacySession(site.port, list(ALICE)) for _ in range(3)]
        other = LegacySession(site.port, list(BOB))
        for session in (other, *sessions):
            assert (await session.begin()).status == 200
        statuses = [(await session.ask("ping")).status for session in (other, *sessions)]
        assert statuses == [200, 404, 200, 200]
        assert site.services.ended == [sessions[0].id]


async def test_without_an_idle_session_the_handshake_is_503() -> None:
    now = moment(config(limits=Limits(sessions=1)))
    now.chain = gate = Gate()
    async with serving(now) as site, connect(site.port) as connection:
        session = LegacySession(site.port)
        await session.begin()
        await connection.send(session.request("tools/call", {"name": "notes__add"}))
        await soon(gate.began)
        refused = await LegacySession(site.port).begin()
        assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, -31007, "30")
        gate.opened.set()
        assert (await connection.reply()).status == 200


async def test_forgotten_sessions_are_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "SWEEP", 0.01)
    monkeypatch.setattr("gateway.endpoint.legacy.session.IDLE", 0.0)
    async with serving() as site:
        session = LegacySession(site.port)
        await session.begin()
        for _ in range(500):
            if site.services.ended:
                break
            await ask(site.port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert site.services.ended == [session.id]
        assert (await session.ask("ping")).status == 404
