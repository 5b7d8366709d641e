from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

import pytest

from gateway import __version__
from gateway.config.servers import Server
from gateway.downstream import client as module
from gateway.downstream.authorizer import Refusal
from gateway.downstream.client import HttpClient
from gateway.downstream.transport import Departure
from gateway.errors import DownstreamError, Reason
from tests.kit.http_server import Exchange, HttpServer, Script, serving

WAIT = 20.0
EMPTY: Mapping[str, str] = MappingProxyType({})


async def fine(exchange: Exchange) -> None:
    await exchange.json({})


@asynccontextmanager
async def client_of(url: str, **settings: object) -> AsyncIterator[HttpClient]:
    client = HttpClient(Server.model_validate({"url": url, **settings}))
    try:
        yield client
    finally:
        await client.aclose()


async def send(url: str, more: Mapping[str, str] = EMPTY, **settings: object) -> int:
    async with client_of(url, **settings) as client:
        response = await client.send("POST", more, b"{}", Departure())
        response.close()
        return response.status


async def failing(url: str, **settings: object) -> DownstreamError:
    with pytest.raises(DownstreamError) as caught:
        await send(url, EMPTY, **settings)
    return caught.value


def redirecting(status: int, location: str, then: Script = fine) -> Script:
    async def script(exchange: Exchange) -> None:
        if exchange.target == "/mcp":
            await exchange.answer(status, head={"Location": location})
        else:
            await then(exchange)

    return script


async def test_exactly_the_wanted_headers_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """S130, S124: no cookies, no proxies, no netrc, no compression."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with serving(fine) as server:
        assert await send(server.url, {"X-Both": "request"}, headers={"x-both": "config", "X-Key": "secret"}) == 200
        assert server.seen[0].headers == {
            "host": f"127.0.0.1:{server.port}",
            "user-agent": f"aiohttp-mcp-gateway/{__version__}",
            "accept": "*/*",
            "accept-encoding": "identity",
            "content-type": "application/octet-stream",
            "content-length": "2",
            "x-both": "request",
            "x-key": "secret",
        }


async def test_cookies_are_forgotten() -> None:
    async with serving(lambda exchange: exchange.json({}, head={"Set-Cookie": "a=b; Path=/"})) as server:
        async with client_of(server.url) as client:
            for _ in range(2):
                (await client.send("POST", {}, b"", Departure())).close()
        assert "cookie" not in server.seen[1].headers


async def test_userinfo_is_sent_as_basic_and_the_query_is_kept() -> None:
    async with serving(fine) as server:
        url = server.url.replace("127.0.0.1", "us%40er:p%3Ass@127.0.0.1") + "?key=1"
        await send(url)
        assert server.seen[0].target == "/mcp?key=1"
        pair = base64.b64decode(server.seen[0].headers["authorization"].removeprefix("Basic "))
        assert pair == b"us@er:p:ss"
        assert "@" not in server.seen[0].headers["host"]


async def test_a_configured_authorization_wins_over_userinfo() -> None:
    async with serving(fine) as server:
        url = server.url.replace("127.0.0.1", "user:pass@127.0.0.1")
        await send(url, headers={"Authorization": "Bearer token"})
        assert server.seen[0].headers["authorization"] == "Bearer token"


async def test_a_server_without_a_url_is_an_error() -> None:
    with pytest.raises(DownstreamError, match="its url is no http or https address"):
        HttpClient(Server(command="something"))


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b", "\x7f"])
async def test_a_header_that_would_break_the_line_is_never_sent(value: str) -> None:
    """S129"""
    async with serving(fine) as server:
        for headers in ({"X-Config": value}, {value: "x"}):
            error = await failing(server.url, headers=headers)
            assert error.message.endswith("a header holds a character that cannot be sent")
        with pytest.raises(DownstreamError):
            await send(server.url, {"X-Request": value})
        assert server.connections == 0


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("location", ["/mcp/", "mcp/", "http://127.0.0.1:{port}/mcp/"])
async def test_a_same_origin_redirect_is_followed_with_method_and_body(status: int, location: str) -> None:
    """G025"""
    server: HttpServer

    async def script(exchange: Exchange) -> None:
        await redirecting(status, location.format(port=server.port))(exchange)

    async with serving(script) as server:
        assert await send(server.url, headers={"X-Key": "k"}) == 200
        assert [(seen.method, seen.target, seen.body) for seen in server.seen] == [
            ("POST", "/mcp", b"{}"),
            ("POST", "/mcp/", b"{}"),
        ]
        assert server.seen[1].headers["x-key"] == "k"


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_that_would_change_the_method_names_the_likely_cause(status: int) -> None:
    """G025, S119"""
    async with serving(redirecting(status, "/mcp/")) as server:
        error = await failing(server.url)
        assert error.reason is Reason.PROTOCOL_ERROR
        assert f"redirects ({status})" in error.message
        assert "trailing slash" in error.message
        assert error.may_have_run is (status == 303)
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:1/mcp",
        "https://127.0.0.1:{port}/mcp",
        "http://localhost:{port}/mcp",
        "http://169.254.169.254/latest",
        "//evil.example/mcp",
        "http://user@127.0.0.1:{port}/mcp/",
    ],
)
async def test_a_redirect_to_another_origin_is_refused(location: str) -> None:
    """S119, G025: other port, scheme, host, metadata."""
    server: HttpServer

    async def script(exchange: Exchange) -> None:
        await redirecting(307, location.format(port=server.port))(exchange)

    async with serving(script) as server:
        error = await failing(server.url)
        assert (error.reason, "another origin" in error.message) == (Reason.PROTOCOL_ERROR, True)
        assert len(server.seen) == 1
        assert location not in error.message


async def test_redirects_can_be_turned_off_and_never_go_in_circles() -> None:
    async with serving(redirecting(307, "/mcp/", redirecting(307, "/mcp/"))) as server:
        assert "not followed" in (await failing(server.url, redirects="none")).message

    async def circle(exchange: Exchange) -> None:
        await exchange.answer(308, head={"Location": exchange.target + "x"})

    async with serving(circle) as server:
        assert "more than once" in (await failing(server.url)).message
        assert len(server.seen) == 2


@pytest.mark.parametrize("location", ["", "http://[bad/", "mailto:x"])
async def test_a_redirect_to_nowhere_is_an_error(location: str) -> None:
    async with serving(redirecting(307, location)) as server:
        assert (await failing(server.url)).reason is Reason.PROTOCOL_ERROR


async def test_a_refused_connection_sent_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    departure = Departure(on_sent=lambda: pytest.fail("nothing was sent"))
    async with client_of(f"http://127.0.0.1:{port}/secret?key=s3cret") as client:
        with pytest.raises(DownstreamError) as caught:
            await client.send("POST", {}, b"{}", departure)
    assert caught.value.message == "the server cannot be reached: no connection: refused or unreachable"
    assert not departure.sent


async def test_an_unknown_name_sent_nothing() -> None:
    error = await failing("http://no-such-host.invalid/mcp")
    assert (error.reason, error.may_have_run) == (Reason.UNAVAILABLE, False)
    assert "no-such-host" not in error.message


async def test_an_address_nobody_may_dial_is_not_dialed() -> None:
    """S118: also for urls the operator wrote."""
    error = await failing("http://[::ffff:169.254.169.254]/latest/meta-data")
    assert error.message == "the server cannot be reached: its address must not be dialed: link-local"


async def test_a_connection_that_does_not_come_about_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """S122: TLS is part of connecting; this server accepts and says nothing."""
    monkeypatch.setattr(module, "CONNECT_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = await asyncio.wait_for(failing(f"https://127.0.0.1:{silent.getsockname()[1]}/mcp"), WAIT)
    assert (error.message, error.may_have_run) == ("the server cannot be reached: no connection within 0.2 s", False)


async def test_the_departure_is_noted_before_the_server_hears_anything() -> None:
    order: list[str] = []

    async def script(exchange: Exchange) -> None:
        order.append("heard")
        await exchange.json({})

    async with serving(script) as server, client_of(server.url) as client:
        for _ in range(2):
            departure = Departure(on_sent=lambda: order.append("sent"))
            (await client.send("POST", {}, b"{}", departure)).close()
        assert order == ["sent", "heard", "sent", "heard"]


async def test_a_connection_cut_before_the_answer_may_have_run() -> None:
    """S127: one delivery."""

    async def script(exchange: Exchange) -> None:
        exchange.close()

    async with serving(script) as server:
        error = await failing(server.url)
        assert (error.message, error.may_have_run) == ("the server disconnected before answering", True)
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 10_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    ],
)
async def test_an_answer_that_is_no_http_is_a_protocol_error(answer: bytes) -> None:
    """S123: header size too."""

    async def script(exchange: Exchange) -> None:
        await exchange.raw(answer)
        exchange.close()

    async with serving(script) as server:
        error = await failing(server.url)
        assert (error.reason, error.may_have_run) == (Reason.PROTOCOL_ERROR, True)


async def test_pins_without_tls_are_an_error() -> None:
    error = await failing("http://127.0.0.1/mcp", tls={"spki_sha256": ["00" * 32]})
    assert "spki_sha256 needs an https url" in error.message


@pytest.mark.parametrize(
    ("reference", "target"), [("/messages?s=1", "/messages?s=1"), ("sub/x#y", "/sub/x"), ("?s=2", "/mcp?s=2")]
)
async def test_posts_go_where_a_server_said_and_nothing_else_does(reference: str, target: str) -> None:
    async with serving(fine) as server, client_of(server.url) as client:
        client.post_to(reference)
        for method in ("POST", "GET"):
            (await client.send(method, {}, None, Departure())).close()
        assert [(seen.method, seen.target) for seen in server.seen] == [("POST", target), ("GET", "/mcp")]


@pytest.mark.parametrize("reference", ["", "http://other/x", "https://127.0.0.1/x", "http://127.0.0.1:1/x", "//u@[x"])
async def test_a_place_for_posts_at_another_origin_is_refused(reference: str) -> None:
    async with serving(fine) as server, client_of(server.url) as client:
        with pytest.raises(DownstreamError, match="not at its own origin") as caught:
            client.post_to(reference)
        assert (caught.value.reason, caught.value.may_have_run) == (Reason.PROTOCOL_ERROR, False)
        (await client.send("POST", {}, b"{}", Departure())).close()
        assert server.seen[0].target == "/mcp"


class Asked:
    """An authorizer that gives one token after the other."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.refusals: list[Refusal] = []

    async def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.tokens[0]}"}

    async def refused(self, refusal: Refusal) -> bool:
        self.refusals.append(refusal)
        if len(self.tokens) == 1:
            return False
        self.tokens.pop(0)
        return True


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_credential_is_replaced_and_the_request_sent_again(status: int) -> None:
    async def script(exchange: Exchange) -> None:
        good = exchange.headers["authorization"] == "Bearer new"
        head = {} if good else {"WWW-Authenticate": 'Bearer scope="x"'}
        await exchange.json({}, 200 if good else status, head)

    asked = Asked("old", "new")
    async with serving(script) as http:
        client = HttpClient(Server.model_validate({"url": http.url}), authorizer=asked)
        response = await client.send("POST", {}, b"{}", Departure())
        response.close()
        await client.aclose()
        assert response.status == 200
        assert [seen.body for seen in http.seen] == [b"{}", b"{}"]
    assert [refusal.status for refusal in asked.refusals] == [status]
    assert asked.refusals[0].challenges == ('Bearer scope="x"',)


async def test_a_server_that_refuses_everything_is_not_asked_for_ever() -> None:
    async def never(exchange: Exchange) -> None:
        await exchange.answer(401)

    asked = Asked("1", "2", "3", "4", "5")
    async with serving(never) as http:
        client = HttpClient(Server.model_validate({"url": http.url}), authorizer=asked)
        response = await client.send("POST", {}, b"{}", Departure())
        response.close()
        await client.aclose()
        assert (response.status, len(http.seen)) == (401, module.MAX_REFUSALS + 1)


async def test_a_token_beats_nothing_else_in_its_header_but_the_configured_one() -> None:
    async with serving(fine) as http:
        server = Server.model_validate({"url": http.url, "headers": {"Authorization": "old", "X-Key": "k"}})
        client = HttpClient(server, authorizer=Asked("t"))
        response = await client.send("POST", {}, b"{}", Departure())
        response.close()
        await client.aclose()
        seen = http.seen[0].headers
    assert (seen["authorization"], seen["x-key"]) == ("Bearer t", "k")


@pytest.mark.parametrize("target", ["/v1/a%2F..%2fb;x?q=%2B+1&r=[]", "/", "/%2e%2e/x"])
async def test_a_target_takes_the_place_of_path_and_query_exactly_as_written(target: str) -> None:
    async with serving(fine) as server, client_of(server.url + "?key=s3cret") as client:
        for method in ("GET", "POST"):
            (await client.send(method, EMPTY, None, Departure(), target)).close()
    assert {each.target for each in server.seen} == {target}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
async def test_nothing_is_sent_twice_where_a_connection_breaks(method: str) -> None:
    """Whether something may be sent again is for others to decide."""

    async def script(exchange: Exchange) -> None:
        if len(server.seen) == 1:
            await exchange.json({})
        else:
            exchange.close()

    async with serving(script) as server, client_of(server.url) as client:
        first = await client.send(method, EMPTY, None, Departure(), "/a")
        await first.read()
        with pytest.raises(DownstreamError) as caught:
            await client.send(method, EMPTY, None, Departure(), "/a")
        assert caught.value.may_have_run
        assert [each.connection for each in server.seen] == [1, 1]
