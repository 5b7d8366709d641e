"""Row 1 on a real socket: framing nobody may read twice (S08, M1), echo-free errors (M2, S17), slow and idle peers."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from gateway.endpoint.connection import Bounds, Server, source_address
from tests.kit.clients import Connection, ask, connect, modern, post, raw
from tests.kit.endpoint import serving

MARK = b"zqxjkv"
HOST = b"Host: localhost\r\n"
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"zqxjkv"}}'
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
START = b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"

SMUGGLING = {
    "length and chunked": START + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "chunked and length": START + CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": START + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nzqxjkv",
    "two equal lengths": START + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nzqxjk",
    "length with plus": START + b"Content-Length: +3\r\n\r\nabc",
    "length with minus": START + b"Content-Length: -1\r\n\r\n",
    "length list": START + b"Content-Length: 3, 3\r\n\r\nabc",
    "length in hex": START + b"Content-Length: 0x3\r\n\r\nabc",
    "length with underscore": START + b"Content-Length: 1_0\r\n\r\n0123456789",
    "empty length": START + b"Content-Length: \r\n\r\n",
    "xchunked": START + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked, identity": START + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "identity": START + b"Transfer-Encoding: identity\r\n\r\n",
    "two codings": START + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n",
    "bare LF": b"POST /mcp HTTP/1.1\nHost: localhost\nContent-Length: 0\n\n",
    "bare LF after one header": START + b"X: zqxjkv\nContent-Length: 0\r\n\r\n",
    "bare CR": START + b"X: a\rb\r\nContent-Length: 0\r\n\r\n",
    "folded header": START + b"X: a\r\n zqxjkv\r\nContent-Length: 0\r\n\r\n",
    "space before colon": START + b"Content-Length : 0\r\n\r\n",
    "space before first header": b"POST /mcp HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "NUL in a value": START + b"X: a\0b\r\nContent-Length: 0\r\n\r\n",
    "NUL in a name": START + b"X\0Y: b\r\nContent-Length: 0\r\n\r\n",
    "two hosts": START + HOST + b"Content-Length: 0\r\n\r\n",
    "no host": b"POST /mcp HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "two content types": START + b"Content-Type: text/zqxjkv\r\nContent-Length: 0\r\n\r\n",
    "chunk size overflow": START + CHUNKED + b"\r\nfffffffffffffffff\r\nzqxjkv\r\n0\r\n\r\n",
    "negative chunk size": START + CHUNKED + b"\r\n-1\r\nzqxjkv\r\n0\r\n\r\n",
    "chunk size with 0x": START + CHUNKED + b"\r\n0x2\r\nzq\r\n0\r\n\r\n",
    "LF in chunk extension": START + CHUNKED + b"\r\n2;\nzq\r\nzq\r\n0\r\n\r\n",
    "chunk longer than its size": START + CHUNKED + b"\r\n2\r\nzqxjkv\r\n0\r\n\r\n",
    "http/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http/1.2": b"POST /mcp HTTP/1.2\r\n" + HOST + b"\r\n",
    "http/0.9": b"GET /mcp HTTP/0.9\r\n" + HOST + b"\r\n",
    "http/2.0": b"GET /mcp HTTP/2.0\r\n" + HOST + b"\r\n",
    "http/1.0 chunked": b"POST /mcp HTTP/1.0\r\n" + HOST + CHUNKED + b"\r\n0\r\n\r\n",
    "no version": b"GET /mcp\r\n" + HOST + b"\r\n",
    "long line": b"GET /" + MARK * 2000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "long field": START + b"X: " + MARK * 2000 + b"\r\n\r\n",
    "many headers": START + b"".join(b"X-%d: zqxjkv\r\n" % number for number in range(200)) + b"\r\n",
    "garbage": b"zqxjkv zqxjkv zqxjkv\r\n\r\n",
    "websocket upgrade": START + b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n",
    "target with a space": b"GET /mcp zqxjkv HTTP/1.1\r\n" + HOST + b"\r\n",
    "authority form": b"CONNECT localhost:1 HTTP/1.1\r\n" + HOST + b"\r\n",
}


@pytest.mark.parametrize("vector", SMUGGLING.values(), ids=SMUGGLING.keys())
async def test_a_framing_attack_gets_at_most_one_answer_and_its_pipelined_request_none(vector: bytes) -> None:
    async with serving() as site, connect(site.port) as connection:
        await connection.send(vector + SMUGGLED)
        answers = await everything(connection)
        assert answers.count(b"HTTP/1.1 ") <= 1
        assert answers == b"" or answers.split(b" ", 2)[1] in (b"400", b"505")
        assert MARK not in answers
        assert b"smuggled" not in answers
        assert b"aiohttp/" not in answers
        assert site.services.metrics.render("")[0].count(b'method="GET",status="404"') == 0


async def everything(connection: Connection) -> bytes:
    """Read until the peer closes."""
    async with asyncio.timeout(5):
        try:
            return await connection.reader.read()
        except ConnectionError:
            return b""


@pytest.mark.parametrize("upgrade", ["h2c", "HTTP/2.0, TLS/1.0"])
async def test_an_upgrade_offer_of_a_java_client_is_ignored(upgrade: str) -> None:
    """The JDK's client offers HTTP/2 with its first request, with a body behind it."""
    data = modern("tools/list").replace(
        b"Host: localhost\r\n",
        b"Host: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: %b\r\n" % upgrade.encode(),
    )
    async with serving() as site:
        assert (await ask(site.port, data)).status == 200


async def test_a_parser_error_has_a_json_body_and_the_safe_headers() -> None:
    async with serving() as site:
        reply = await ask(site.port, b"zqxjkv zqxjkv zqxjkv\r\n\r\n")
        assert reply.status == 400
        assert reply.message == {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Bad request"}}
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["server"] == "mcp-gateway"


async def test_pipelined_requests_are_all_answered_in_order() -> None:
    """S14: a bounded number of them waits in the server."""
    async with serving() as site, connect(site.port) as connection:
        for number in range(200):
            connection.writer.write(modern("tools/list", identifier=number))
        for number in range(200):
            assert (await connection.reply()).message["id"] == number


@pytest.mark.parametrize(
    "start", [b"G", b"GET /mcp HTTP/1.1\r\nHost: local", b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n"]
)
async def test_a_header_block_that_is_not_complete_in_time_ends_the_connection(start: bytes) -> None:
    """S10."""
    async with serving(bounds=Bounds(header=0.05)) as site, connect(site.port) as connection:
        await connection.send(start)
        assert await connection.closed()
        assert 'reason="slow_header"' in site.services.metrics.render("")[0].decode()


async def test_a_drip_does_not_extend_the_time_for_headers() -> None:
    async with serving(bounds=Bounds(header=0.2)) as site, connect(site.port) as connection:
        async with asyncio.TaskGroup() as group:
            ended = group.create_task(connection.closed())
            for byte in b"GET /mcp HTTP/1.1\r\n" * 50:
                if ended.done():
                    break
                await connection.send(bytes([byte]))
                await asyncio.wait([ended], timeout=0.02)
        assert ended.result()


async def test_a_header_block_in_pieces_within_the_time_is_served() -> None:
    data = modern("tools/list")
    async with serving() as site, connect(site.port) as connection:
        for start in range(0, len(data), 16):
            await connection.send(data[start : start + 16])
        assert (await connection.reply()).status == 200


async def test_connections_over_the_cap_of_their_source_get_503() -> None:
    """S13."""
    async with serving(bounds=Bounds(per_source=2)) as site, connect(site.port) as first, connect(site.port):
        await first.send(modern("tools/list"))
        assert (await first.reply()).status == 200
        reply = await ask(site.port, b"")
        assert (reply.status, reply.headers["retry-after"]) == (503, "5")


async def test_connections_end_before_descriptors_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers, the audit log and files need some too; the limit is asked for each time, since it can be changed."""
    async with serving() as site, connect(site.port) as first, connect(site.port) as second:
        for connection in (first, second):
            await connection.send(modern("tools/list"))
            assert (await connection.reply()).status == 200
        monkeypatch.setattr(resource, "getrlimit", lambda kind: (3, 4096))
        assert (await ask(site.port, b"")).status == 503
        monkeypatch.undo()
        assert (await ask(site.port, modern("tools/list"))).status == 200


async def test_a_place_is_given_back_when_its_connection_ends() -> None:
    async with serving(bounds=Bounds(total=1)) as site:
        for _ in range(3):
            async with connect(site.port) as connection:
                await connection.send(modern("tools/list", mcp_method=None) + b"")
                assert (await connection.reply()).status == 400
            async with asyncio.timeout(5):
                while site.endpoint.server.connections:
                    await asyncio.sleep(0)


@asynccontextmanager
async def flooding(bounds: Bounds, reasons: list[str]) -> AsyncIterator[int]:
    """Serve answers that are larger than what any socket buffers."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b"x" * (32 * 2**20))

    runner = web.ServerRunner(Server(handler, bounds, reasons.append), shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def test_a_peer_that_takes_no_bytes_is_cut_off() -> None:
    """S12."""
    reasons: list[str] = []
    async with flooding(Bounds(write_stall=0.1), reasons) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(raw("GET / HTTP/1.1", [("Host", "localhost")]))
        await writer.drain()
        async with asyncio.timeout(5):
            while not reasons:
                await asyncio.sleep(0.01)
        assert reasons == ["slow_client"]
        writer.close()


async def test_a_slow_peer_that_keeps_taking_bytes_is_served_to_the_end() -> None:
    reasons: list[str] = []
    async with flooding(Bounds(write_stall=0.5), reasons) as port, connect(port) as connection:
        await connection.send(raw("GET / HTTP/1.1", [("Host", "localhost")]))
        assert len((await connection.reply()).body) == 32 * 2**20
        assert reasons == []


async def test_a_crash_of_our_own_is_a_generic_500() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        raise ValueError("secret zqxjkv")

    reasons: list[str] = []
    runner = web.ServerRunner(Server(handler, Bounds(), reasons.append), shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    reply = await ask(int(runner.addresses[0][1]), post({}))
    await runner.cleanup()
    assert reply.status == 500
    assert MARK not in reply.body
    assert reasons == ["internal"]


def test_a_peer_without_an_address_counts_as_one_source() -> None:
    assert source_address(asyncio.BaseTransport()) == ""
