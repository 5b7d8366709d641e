"""The endpoint over HTTP: the fixed order of checks up to the message, the same for both eras."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.config.access import Auth, Limits, Throttle
from gateway.config.root import Listen, View
from gateway.config.types import Rate
from gateway.endpoint.body import BodyLimits
from tests.kit.clients import (
    Headers,
    LegacySession,
    Reply,
    ask,
    connect,
    modern,
    modern_headers,
    post,
    raw,
)
from tests.kit.endpoint import ALICE, ALICE_KEY, BOB, Gate, config, keyed, moment, serving, soon
from tests.kit.wire import modern_meta

LOCAL = ("Host", "localhost")
CALL: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "notes__add", "_meta": modern_meta()},
}
CALL_HEADERS = modern_headers("tools/call", CALL["params"])


def get(path: str = "/mcp", headers: Headers = (), method: str = "GET") -> bytes:
    return raw(f"{method} {path} HTTP/1.1", [LOCAL, *headers])


@pytest.mark.parametrize(
    "path", ["/", "/mcpx", "/smuggled", "/metrics", "/admin", "/.well-known/oauth-protected-resource"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
async def test_paths_outside_are_not_found_before_authentication(path: str, method: str) -> None:
    async with serving(moment(keyed())) as site:
        reply = await ask(site.port, get(path, [("Content-Length", "0")], method))
        assert (reply.status, reply.body) == (404, b"")


@pytest.mark.parametrize("path", ["/mcp", "/mcp/known", "/mcp/unknown", "/mcp/", "/mcp?access_token=" + ALICE_KEY])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "OPTIONS"])
async def test_everything_at_or_below_the_path_asks_for_authentication_first(path: str, method: str) -> None:
    """S31, S36, G096, G097: the same bytes for what exists and what does not."""
    async with serving(moment(keyed(views={"known": View(include=["*"])}))) as site:
        reply = await ask(site.port, get(path, [("Content-Length", "0")], method))
        assert reply.status == 401
        assert reply.headers["www-authenticate"] == 'Bearer realm="mcp"'
        assert reply.message["error"] == {"code": -31008, "message": "Authentication required"}


@pytest.mark.parametrize("body", [b"", b"{", json.dumps(CALL).encode(), b"x" * 100_000])
async def test_failed_authentication_does_not_depend_on_the_body(body: bytes) -> None:
    """S32, S89: nor does a session id replace it."""
    async with serving(moment(keyed())) as site:
        session = LegacySession(site.port, list(ALICE))
        await session.begin()
        headers = [("Authorization", "Bearer wrong"), ("Mcp-Session-Id", session.id)]
        reply = await ask(site.port, post(body, headers))
        assert reply.status == 401
        assert b"invalid_token" in reply.headers["www-authenticate"].encode()


async def test_an_unread_body_is_not_waited_for_before_the_401() -> None:
    async with serving(moment(keyed())) as site, connect(site.port) as connection:
        await connection.send(raw("POST /mcp HTTP/1.1", [LOCAL, ("Content-Length", "1000")]))
        assert (await connection.reply()).status == 401


async def test_too_many_failures_of_a_source_get_429_and_good_credentials_pass() -> None:
    settings = keyed(auth=Auth(throttle=Throttle(failures=Rate(2, 60.0))))
    async with serving(moment(settings)) as site:
        replies = [await ask(site.port, get()) for _ in range(4)]
        assert [reply.status for reply in replies] == [401, 401, 429, 429]
        assert int(replies[-1].headers["retry-after"]) >= 1
        assert (await ask(site.port, post(CALL, [*ALICE, *CALL_HEADERS]))).status == 200
        assert [event for event, _ in site.services.events] == ["auth.failed"] * 4


async def test_an_unknown_view_is_not_found_after_authentication() -> None:
    async with serving(moment(keyed(views={"known": View(include=["notes/add"])}))) as site:
        for path in ("/mcp/unknown", "/mcp/", "/mcp/known/x"):
            assert (await ask(site.port, get(path, ALICE))).status == 404
        reply = await ask(site.port, post(CALL, [*ALICE, *CALL_HEADERS], "/mcp/known"))
        assert reply.status == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "OPTIONS", "TRACE"])
async def test_another_method_is_not_allowed(method: str) -> None:
    async with serving() as site:
        async with connect(site.port) as connection:
            await connection.send(get(method=method))
            status, headers = await connection.head()
        assert (status, headers["allow"]) == (405, "GET, POST, DELETE")


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_modern_endpoint_has_neither_streams_nor_sessions(method: str, version: str) -> None:
    """G023."""
    async with serving() as site:
        reply = await ask(site.port, get(headers=[("MCP-Protocol-Version", version)], method=method))
        assert (reply.status, reply.headers["allow"]) == (405, "POST")


async def test_a_draining_gateway_takes_nothing_new_and_closes_connections() -> None:
    async with serving() as site:
        site.services.is_draining = True
        reply = await ask(site.port, post(CALL, CALL_HEADERS))
        assert (reply.status, reply.headers["retry-after"], reply.headers["connection"]) == (503, "5", "close")


async def test_a_flood_of_requests_is_429_per_principal_whatever_else_changes() -> None:
    """S79, S81."""
    settings = keyed(limits=Limits(requests=Rate(3, 60.0)))
    async with serving(moment(settings)) as site:
        statuses = []
        for number in range(5):
            varied = [
                ("Mcp-Session-Id", str(number)),
                ("User-Agent", str(number)),
                ("X-Forwarded-For", f"1.1.1.{number}"),
            ]
            statuses.append((await ask(site.port, post(CALL, [*ALICE, *CALL_HEADERS, *varied]))).status)
        assert statuses == [200, 200, 200, 429, 429]
        assert site.services.floods == [("key:alice", "modern")] * 2
        assert (await ask(site.port, post(CALL, [*BOB, *CALL_HEADERS]))).status == 200


LONG = BodyLimits(2000, gap=0.1, total=0.3)


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (raw("POST /mcp HTTP/1.1", [LOCAL, ("Content-Length", "99999999999")]), 413, -31005),
        (post(CALL, [("Content-Encoding", "gzip")]), 415, -32600),
        (post(CALL, [("Content-Type", "text/plain")]), 415, -32600),
        (post(CALL, [("Expect", "200-ok")]), 417, -32600),
        (post(b'{"a":1,"a":2}'), 400, -32700),
        (post(b"[" * 1500), 400, -32700),
        (post(b""), 400, -32700),
        (post(b"1"), 400, -32600),
        (post({"jsonrpc": "2.0", "Method": "tools/call", "id": 1, "method": "x"}), 400, -32600),
        (post({"jsonrpc": "2.0", "id": None, "method": "ping"}), 400, -32600),
        (post([CALL], [("MCP-Protocol-Version", "2026-07-28")]), 400, -32600),
        (post([], [("MCP-Protocol-Version", "2026-07-28")]), 400, -32600),
    ],
)
async def test_a_bad_body_is_refused_before_any_call(data: bytes, status: int, code: int) -> None:
    gate = Gate()
    gate.opened.set()
    now = moment()
    now.chain = gate
    async with serving(now, limits=LONG) as site:
        reply = await ask(site.port, data)
        assert (reply.status, reply.code) == (status, code)
        assert (await ask(site.port, post(CALL, CALL_HEADERS))).status == 200
        assert gate.began.qsize() == 1


async def test_a_chunked_body_over_the_limit_is_413() -> None:
    async with serving(limits=LONG) as site, connect(site.port) as connection:
        head = [LOCAL, ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
        await connection.send(raw("POST /mcp HTTP/1.1", head) + b"7d1\r\n" + b"x" * 2001 + b"\r\n")
        assert (await connection.reply()).status == 413


@pytest.mark.parametrize("start", [b"", b'{"jsonrpc"'])
async def test_a_body_that_stalls_is_408_and_the_connection_ends(start: bytes) -> None:
    async with serving(limits=LONG) as site, connect(site.port) as connection:
        head = [LOCAL, ("Content-Type", "application/json"), ("Content-Length", "1000")]
        await connection.send(raw("POST /mcp HTTP/1.1", head) + start)
        reply = await connection.reply()
        assert (reply.status, reply.headers["connection"]) == (408, "close")


async def test_a_broken_chunk_is_a_bad_request() -> None:
    async with serving() as site, connect(site.port) as connection:
        head = [LOCAL, ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
        await connection.send(raw("POST /mcp HTTP/1.1", head) + b"5\r\nabcde\r\nzz\r\n")
        assert (await connection.reply()).status == 400


async def test_a_client_that_waits_for_100_gets_it_after_the_checks() -> None:
    data = post(CALL, [*CALL_HEADERS, ("Expect", "100-continue")])
    head, body = data.split(b"\r\n\r\n", 1)
    async with serving() as site, connect(site.port) as connection:
        await connection.send(head + b"\r\n\r\n")
        assert (await connection.head())[0] == 100
        await connection.send(body)
        assert (await connection.reply()).status == 200


@pytest.mark.parametrize(
    "accept", ["application/json;q=0.9, text/event-stream", "*/*", "APPLICATION/JSON", "", "text/html"]
)
async def test_accept_is_read_leniently(accept: str) -> None:
    """G027."""
    async with serving() as site:
        assert (await ask(site.port, post(CALL, [*CALL_HEADERS, ("Accept", accept)]))).status == 200


async def test_a_megabyte_of_arguments_is_served() -> None:
    """G026."""
    body = {**CALL, "params": {**CALL["params"], "arguments": {"blob": "x" * 1_500_000}}}
    async with serving() as site:
        assert (await ask(site.port, post(body, CALL_HEADERS))).status == 200


async def test_a_bad_origin_is_forbidden_on_every_path_and_recorded() -> None:
    """S01."""
    async with serving() as site:
        for path in ("/mcp", "/", "/.well-known/oauth-protected-resource"):
            for method in ("GET", "POST", "OPTIONS"):
                reply = await ask(site.port, get(path, [("Origin", "http://evil.example")], method))
                assert reply.status == 403
                assert not any(name.startswith("access-control") for name in reply.headers)
        assert ("security.origin_denied", {"source": "127.0.0.1", "reason": "origin_denied"}) in site.services.events


async def test_a_configured_origin_gets_its_preflight_and_its_headers_without_credentials() -> None:
    listen = Listen(port=0, allowed_origins=["https://app.example.com"])
    async with serving(moment(keyed(listen=listen))) as site:
        origin = ("Origin", "https://app.example.com")
        reply = await ask(site.port, get(headers=[origin], method="OPTIONS"))
        assert (reply.status, reply.headers["access-control-allow-origin"]) == (204, "https://app.example.com")
        refused = await ask(site.port, get(headers=[origin]))
        assert (refused.status, refused.headers["access-control-allow-origin"]) == (401, "https://app.example.com")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("Host", "evil.example")], 421),
        ([("Host", "good@evil")], 400),
        ([LOCAL, ("Origin", "null")], 403),
        ([LOCAL, ("Mcp-Name", "a"), ("Mcp-Name", "a")], 400),
        ([LOCAL, ("Mcp-Name", "\xff\xfe")], 400),
        ([LOCAL, ("Authorization", "a"), ("Authorization", "b")], 400),
    ],
)
async def test_a_bad_header_closes_the_connection_and_nothing_behind_it_is_read(headers: Headers, status: int) -> None:
    async with serving() as site, connect(site.port) as connection:
        await connection.send(raw("POST /mcp HTTP/1.1", [*headers, ("Content-Length", "0")]) + get("/smuggled"))
        reply = await connection.reply()
        assert (reply.status, reply.headers["connection"]) == (status, "close")
        assert await connection.closed()


@pytest.mark.parametrize("target", ["http://evil/mcp", "//mcp", "/mcp/../admin", "/mcp/%2f..%2fadmin", "/mcp%2F", "*"])
async def test_a_confusing_target_is_a_bad_request(target: str) -> None:
    """S03, M4."""
    async with serving() as site:
        assert (await ask(site.port, raw(f"GET {target} HTTP/1.1", [LOCAL]))).status == 400


async def test_no_request_header_grants_anything() -> None:
    """S20."""
    names = ["mcp-init-host", "router-key", "x-internal", "x-contextforge-auth", "x-real-ip", "forwarded", "x-user"]
    async with serving(moment(keyed())) as site:
        reply = await ask(site.port, post(CALL, [(name, "127.0.0.1") for name in names]))
        assert reply.status == 401


async def test_refusals_do_not_echo_what_was_sent() -> None:
    """S17."""
    mark = "zqxjkv"
    vectors = [
        get(f"/{mark}"),
        get(f"/mcp/{mark}"),
        post(f'{{"{mark}"'.encode()),
        post({"jsonrpc": "2.0", "id": 1, "method": mark}),
        post({"jsonrpc": mark, "id": 1, "method": "ping"}),
        modern(mark),
        modern("tools/list", {"cursor": mark}),
        modern("tools/call", {"name": "notes__add", "arguments": mark}),
        modern("tools/list", mcp_method=mark),
        post(CALL, [("Content-Type", mark)]),
        post(CALL, [("Mcp-Session-Id", mark)]),
    ]
    async with serving() as site:
        for vector in vectors:
            reply = await ask(site.port, vector)
            assert reply.status >= 400
            for word in (mark.encode(), b"Traceback", b"aiohttp"):
                assert word not in reply.body


async def test_every_answer_carries_the_safe_headers() -> None:
    """S19."""
    async with serving() as site:
        for data in (get("/x"), get(), post(CALL, CALL_HEADERS), post(b"{"), get(method="PUT")):
            reply: Reply = await ask(site.port, data)
            assert reply.headers["cache-control"] == "no-store"
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert reply.headers["server"] == "mcp-gateway"


async def test_draining_lets_a_call_finish_that_is_in_time() -> None:
    now = moment()
    now.chain = gate = Gate()
    async with serving(now) as site, connect(site.port) as connection:
        await connection.send(post(CALL, CALL_HEADERS))
        await soon(gate.began)
        async with asyncio.TaskGroup() as group:
            drained = group.create_task(site.endpoint.drain())
            gate.opened.set()
            assert (await connection.reply()).result["content"]
        assert drained.done()


async def test_draining_answers_a_call_that_hangs() -> None:
    """S186: an answer, not a cut connection."""
    now = moment(config(listen=Listen(port=0, drain=0.05)))
    now.chain = gate = Gate()
    async with serving(now) as site, connect(site.port) as connection:
        await connection.send(post(CALL, CALL_HEADERS))
        await soon(gate.began)
        await site.endpoint.drain()
        reply = await connection.reply()
        assert reply.refusal == {"reason": "overloaded", "mayHaveRun": True}


async def test_reloading_takes_effect_with_the_next_request() -> None:
    """G036: one read of the snapshot per request."""
    async with serving() as site:
        assert (await ask(site.port, post(CALL, CALL_HEADERS))).status == 200
        site.services.now = moment(lists={"notes": ()})
        assert (await ask(site.port, post(CALL, CALL_HEADERS))).code == -32602


async def test_every_list_that_begins_is_told_to_the_audit_log_with_its_size() -> None:
    async with serving() as site:
        await ask(site.port, modern("tools/list"))
        await ask(site.port, modern("tools/list", {"cursor": "x"}))
        session = LegacySession(site.port)
        await session.begin()
        await session.ask("resources/list")
        assert site.services.lists == [("tools/list", 2), ("resources/list", 1)]


async def test_a_reload_changes_the_caps_of_sessions_streams_and_connections() -> None:
    async with serving(moment(config(limits=Limits(sessions=1)))) as site:
        first, second = LegacySession(site.port), LegacySession(site.port)
        await first.begin()
        await second.begin()
        assert (await first.ask("ping")).status == 404
        site.services.reload(moment(config(limits=Limits(sessions=2, connections=7))))
        await first.begin()
        assert [(await each.ask("ping")).status for each in (first, second)] == [200, 200]
        assert site.endpoint.server.bounds.total == 7
