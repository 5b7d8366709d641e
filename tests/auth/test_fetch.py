"""Documents of an issuer come in bounded time and size, from where they may (S42, S118)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from gateway.auth import fetch
from gateway.auth.fetch import FetchError, Line, context
from gateway.errors import ConfigError
from gateway.network import Dialing
from tests.kit.certificates import Certificate, make

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
OPERATORS = Dialing(trusted=True)


@asynccontextmanager
async def answering(
    handle: Handle, secured: Certificate | None = None, folder: Path | None = None
) -> AsyncIterator[int]:
    """Serve one handler on loopback; yields the port."""
    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.5)
    await runner.setup()
    tls = secured.server_context(folder) if secured is not None and folder is not None else None
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def hello(request: web.BaseRequest) -> web.StreamResponse:
    assert "Authorization" not in request.headers
    assert "Cookie" not in request.headers
    return web.Response(text="hello")


async def test_a_document_comes_without_anything_of_ours_in_the_request() -> None:
    async with answering(hello) as port:
        assert await Line(context("")).get(f"http://127.0.0.1:{port}/jwks", OPERATORS) == b"hello"


@pytest.mark.parametrize("status", [204, 301, 302, 307, 308, 401, 404, 500])
async def test_no_other_status_is_a_document_and_no_redirect_is_followed(status: int) -> None:
    seen: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.path)
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    async with answering(handle) as port:
        with pytest.raises(FetchError, match=f"^status {status}$"):
            await Line(context("")).get(f"http://127.0.0.1:{port}/jwks", OPERATORS)
    assert seen == ["/jwks"]


async def test_a_document_over_a_mebibyte_is_cut_off() -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b"x" * (fetch.MAX_DOCUMENT + int(request.query["over"])))

    async with answering(handle) as port:
        line = Line(context(""))
        assert len(await line.get(f"http://127.0.0.1:{port}/?over=0", OPERATORS)) == fetch.MAX_DOCUMENT
        with pytest.raises(FetchError, match="longer than"):
            await line.get(f"http://127.0.0.1:{port}/?over=1", OPERATORS)


async def test_an_issuer_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT", 0.2)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(200):
            await response.write(b" ")
            await asyncio.sleep(0.05)
        return response

    async with answering(handle) as port:
        with pytest.raises(FetchError, match="no answer within"):
            await Line(context("")).get(f"http://127.0.0.1:{port}/", OPERATORS)


async def test_an_address_that_somebody_else_named_must_be_public_or_allowed() -> None:
    """S118: judged where it is dialed, and counted."""
    blocked: list[None] = []
    async with answering(hello) as port:
        line = Line(context(""), lambda: blocked.append(None))
        for host in ("127.0.0.1", "localhost"):
            with pytest.raises(FetchError, match="must not be dialed"):
                await line.get(f"http://{host}:{port}/", Dialing())
        with pytest.raises(FetchError, match="link-local"):
            await line.get("http://169.254.169.254/", OPERATORS)
        assert len(blocked) >= 3


async def test_a_closed_port_and_a_broken_answer_are_told_without_the_url() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        with pytest.raises(FetchError, match=r"^no connection$"):
            await Line(context("")).get(f"http://127.0.0.1:{reserved.getsockname()[1]}/secret", OPERATORS)

    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"no http\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(garbage, "127.0.0.1", 0)
    async with server:
        with pytest.raises(FetchError, match="no usable answer") as caught:
            await Line(context("")).get(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/secret", OPERATORS)
    assert "secret" not in str(caught.value)


async def test_a_certificate_is_verified_against_the_given_authority(tmp_path: Path) -> None:
    authority = make("authority")
    own = make("idp", authority)
    (tmp_path / "server").mkdir()
    async with answering(hello, own, tmp_path / "server") as port:
        url = f"https://127.0.0.1:{port}/"
        assert await Line(context(authority.write(tmp_path / "ca.pem"))).get(url, OPERATORS) == b"hello"
        for other in ("", make("other").write(tmp_path / "other.pem")):
            with pytest.raises(FetchError, match="certificate cannot be trusted"):
                await Line(context(other)).get(url, OPERATORS)


def test_an_unreadable_file_of_authorities_is_the_operators_mistake(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for path in (tmp_path / "none.pem", tmp_path / "empty.pem"):
        with pytest.raises(ConfigError) as caught:
            context(str(path))
        assert caught.value.problems[0].path == "auth.jwt.ca"
