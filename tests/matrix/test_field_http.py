"""Field faults of servers over HTTP, from a client through the gateway's process to a scripted server and back."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.kit import http_server, wire
from tests.kit.clients import LegacySession, ask, modern, post
from tests.kit.field import listening, serving_beside, text_of, until
from tests.kit.gateway import Json, free_port
from tests.kit.http_server import SESSION, Exchange, HttpServer, McpServer
from tests.kit.wire import EraName

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
KEYS = {"alice": "alice-" + "a" * 40, "bob": "bob-" + "b" * 40}
CLIENTS = {name: {"key": key} for name, key in KEYS.items()}


class Odd(McpServer):
    """Answers tools/call as ``odd`` says; the rest as a sound server does."""

    async def _call(self, exchange: Exchange, params: Json) -> None:
        self.calls.append(params)
        await self.odd(exchange)

    async def odd(self, exchange: Exchange) -> None:
        raise NotImplementedError


def body(exchange: Exchange, **result: object) -> bytes:
    """Return the result of a call as text."""
    return json.dumps({"jsonrpc": "2.0", "id": exchange.message["id"], "result": {"content": [], **result}}).encode()


class Events(Odd):
    """Streams what parsers stumble over before the answer, which is cut into several data lines."""

    async def odd(self, exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(b": hb\n\nid: 7\ndata:\n\nevent: ping\ndata: not json\n\nretry: 100\n\n")
        await exchange.chunk(
            body(exchange, resultType="complete", big="x" * 117_000)
            .replace(b', "', b',\r\ndata: "')
            .join((b"data: ", b"\r\n\r\n"))
        )
        await exchange.end_stream()


class Ends(Odd):
    """Ends its stream after one report, without an answer."""

    async def odd(self, exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.event(
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "x", "progress": 1}}
        )
        await exchange.end_stream()


class Short(Odd):
    """Sends less than it announced, the first time."""

    async def odd(self, exchange: Exchange) -> None:
        if len(self.calls) > 1:
            await exchange.answer(200, body(exchange), "application/json")
            return
        await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{")
        exchange.close()


async def test_answers_cut_and_mixed_in_any_legal_way_are_read_and_broken_ones_are_disconnects(tmp_path: Path) -> None:
    """G017, G018, G022: what is legal is read. G021, G121: the rest is no timeout, and the next call works."""
    odd = {
        f"{kind.__name__.lower()}-{era}": kind(era) for kind in (Events, Ends, Short) for era in ("modern", "legacy")
    }
    async with AsyncExitStack() as stack:
        urls = {
            name: (await stack.enter_async_context(http_server.serving(one.script))).url for name, one in odd.items()
        }
        config = {"servers": {name: {"url": url} for name, url in urls.items()}}
        gateway = await stack.enter_async_context(serving_beside(tmp_path, config, *odd))
        client = await stack.enter_async_context(wire.http_client(gateway.url, "modern"))
        async with asyncio.timeout(10):
            answers = {name: await wire.call(client, f"{name}__echo") for name in odd}
            again = [await wire.call(client, f"short-{era}__echo") for era in ("modern", "legacy")]

    for name, answer in answers.items():
        if name.startswith("events"):
            assert len(answer.result["big"]) == 117_000
            continue
        assert answer.refusal["reason"] in ("unavailable", "protocol_error")
        assert answer.refusal["mayHaveRun"] is True
        assert "in time" not in text_of(answer)
        assert len(odd[name].calls) == (1 if name.startswith("ends") else 2)
    assert not any(answer.result.get("isError") for answer in again)


async def test_a_server_without_a_stream_is_asked_for_one_once_and_nobody_hears_of_changes(tmp_path: Path) -> None:
    """G024: 405 to GET is no failure, no change, and no reason to ask again."""
    quiet = McpServer("legacy")

    async def script(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.answer(405)
        else:
            await quiet.script(exchange)

    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(http_server.serving(script))
        servers = {"quiet": {"url": http.url}}
        gateway = await stack.enter_async_context(serving_beside(tmp_path, {"servers": servers}, "quiet"))
        heard = await stack.enter_async_context(listening(gateway, "modern"))
        before = len(http.seen)
        await asyncio.sleep(1)

        assert heard == []
        assert Counter(exchange.method for exchange in http.seen)["GET"] == 1
        assert len(http.seen) - before <= 1
        assert gateway.metric("mcp_gateway_downstream_restarts_total", server="quiet") == 0


@ERAS
async def test_changes_reach_those_who_may_see_them_and_nobody_else(tmp_path: Path, era: EraName) -> None:
    """G055, G056: a server's change, and a change of policy, in both eras of clients."""
    server = McpServer("modern", "one")
    other = McpServer("legacy", "two")
    async with http_server.serving(server.script) as one, http_server.serving(other.script) as two:
        urls = {"one": one.url, "two": two.url}

        def config(alice: list[str]) -> Json:
            policies = [
                {"name": "a", "clients": ["alice"], "allow": alice},
                {"name": "b", "clients": ["bob"], "allow": ["two/*"]},
            ]
            return {
                # A new tool that waits for its approval would be a change that nobody sees.
                "servers": {name: {"url": url, "pin": {"new_tools": "allow"}} for name, url in urls.items()},
                "clients": CLIENTS,
                "policies": policies,
            }

        async with (
            serving_beside(tmp_path, config(["one/*"]), "one", "two") as gateway,
            listening(gateway, era, KEYS["alice"]) as alice,
            listening(gateway, era, KEYS["bob"]) as bob,
        ):
            await until(lambda: server.listeners and other.listeners)
            await server.change()
            await until(lambda: alice)
            assert (alice, bob) == (["notifications/tools/list_changed"], [])
            await other.change()
            await until(lambda: bob)
            assert len(alice) == len(bob) == 1

            await asyncio.to_thread(gateway.reload, config(["one/extra*"]))
            await until(lambda: len(alice) > 1)
            assert len(bob) == 1


async def test_redirects_within_an_origin_keep_method_and_body_and_all_others_are_refused(tmp_path: Path) -> None:
    """G025: no credential and no body goes to another origin."""
    server, elsewhere = McpServer("modern"), McpServer("modern")
    targets: dict[str, tuple[int, str]] = {}

    async def script(exchange: Exchange) -> None:
        if (found := targets.get(exchange.target)) is not None:
            await exchange.answer(found[0], head={"Location": found[1]})
        else:
            await server.script(exchange)

    async with http_server.serving(script) as http, http_server.serving(elsewhere.script) as foreign:
        targets |= {"/slash": (307, "/slash/"), "/moved": (302, "/moved/"), "/away": (307, foreign.url)}
        base = http.url.removesuffix("/mcp")
        secret = {"X-Api-Key": "CANARY", "Authorization": "Bearer CANARY"}
        servers = {name: {"url": f"{base}/{name}", "headers": secret} for name in ("slash", "moved", "away")}
        async with (
            serving_beside(tmp_path, {"servers": servers}, "slash") as gateway,
            wire.http_client(gateway.url, "modern") as client,
        ):
            assert (await wire.call(client, "slash__echo", {"n": 1})).result["structuredContent"] == {"n": 1}
            await until(lambda: all(gateway.status()["servers"][name]["last_error"] for name in ("moved", "away")))
            shown = {name: gateway.status()["servers"][name]["last_error"] for name in ("moved", "away")}

    assert "302" in shown["moved"]
    assert "slash" in shown["moved"]
    assert "another origin" in shown["away"] or "origin" in shown["away"]
    assert foreign.seen == []


class Forgetful(McpServer):
    """A legacy server whose sessions can be ended all at once."""

    def forget(self) -> None:
        self.ended |= set(self.sessions)


async def test_expired_sessions_are_renewed_once_for_all_who_wait(tmp_path: Path) -> None:
    """G031, G032: each principal's own, and no call is lost."""
    server = Forgetful("legacy")
    async with http_server.serving(server.script) as http:
        config = {"servers": {"web": {"url": http.url}}, "clients": CLIENTS}
        async with (
            serving_beside(tmp_path, config, "web") as gateway,
            wire.http_client(gateway.url, "legacy", KEYS["alice"]) as alice,
            wire.http_client(gateway.url, "modern", KEYS["bob"]) as bob,
        ):
            for client in (alice, bob):
                await wire.call(client, "web__echo")
            sessions = len(server.sessions)
            server.forget()
            answers = await asyncio.gather(
                *(wire.call(client, "web__echo", {"n": n}) for n in range(20) for client in (alice, bob))
            )

            assert [answer.result["structuredContent"]["n"] for answer in answers] == [
                n for n in range(20) for _ in "ab"
            ]
            assert len(server.sessions) == sessions + 2
            # What was sent before may arrive among what was sent again; from now on there are the new ones alone.
            before = len(http.seen)
            for client in (alice, bob):
                await wire.call(client, "web__echo")
            used = {exchange.headers.get(SESSION) for exchange in http.seen[before:]} - {None}
            assert used == set(server.sessions[-2:])
            assert gateway.status()["servers"]["web"]["state"] == "up"
        # G041: what was opened is ended on the way out.
        assert set(server.sessions[-2:]) <= server.ended


async def test_nothing_a_client_sends_beside_the_message_reaches_a_server(tmp_path: Path) -> None:
    """G098, G077: only configured headers go out."""
    server, old = McpServer("modern"), McpServer("legacy")
    async with http_server.serving(server.script) as one, http_server.serving(old.script) as two:
        servers = {"one": {"url": one.url, "headers": {"X-Own": "configured"}}, "two": {"url": two.url}}
        async with serving_beside(
            tmp_path, {"servers": servers, "clients": {"alice": {"key": "CANARY-" + "c" * 40}}}, "one", "two"
        ) as gateway:
            session = LegacySession(gateway.port, [("Authorization", "Bearer CANARY-" + "c" * 40)])
            await session.begin()
            extra = {
                "Authorization": "Bearer CANARY-" + "c" * 40,
                "Cookie": "c=CANARY",
                "X-Custom": "CANARY",
                "X-Forwarded-For": "CANARY",
                "X-User": "CANARY",
            }
            for name in ("one__echo", "two__echo"):
                reply = await ask(gateway.port, modern("tools/call", {"name": name}, **extra))
                assert "isError" not in reply.result
                params = {"name": name}
                head = [*session.head(), *((key, value) for key, value in extra.items() if key != "Authorization")]
                message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
                assert "isError" not in (await ask(gateway.port, post(message, head))).result

    heard = [(exchange.target, exchange.headers, exchange.body) for exchange in [*one.seen, *two.seen]]
    assert len(server.calls) == len(old.calls) == 2
    assert "CANARY" not in repr(heard)
    assert {exchange.headers["x-own"] for exchange in one.seen} == {"configured"}


async def test_secrets_of_an_address_are_told_to_nobody(tmp_path: Path) -> None:
    """G100: a refused connection names the server and a plain reason."""
    port = free_port()
    url = f"http://user:CANARYPW@127.0.0.1:{port}/mcp?key=CANARYKEY"
    config = {"servers": {"gone": {"url": url, "protocol": "modern"}}}
    server = McpServer("modern")
    async with serving_beside(tmp_path, config) as gateway:
        await until(lambda: gateway.status()["servers"]["gone"]["last_error"])
        # G118: it comes up late, is found, and its tools appear.
        async with listening(gateway, "modern") as heard, http_server_on(port, server.script) as http:
            await until(lambda: gateway.status()["servers"]["gone"]["state"] == "up", 10)
            await until(lambda: heard)
            async with wire.http_client(gateway.url, "modern") as client:
                assert not (await wire.call(client, "gone__echo")).result.get("isError")
                assert http.seen[-1].headers["authorization"].startswith("Basic ")
        async with wire.http_client(gateway.url, "modern") as client:
            answer = await wire.call(client, "gone__echo")
        shown = json.dumps(gateway.status()) + gateway.cli("status", "-c", gateway.file).stdout

    assert answer.refusal["reason"] == "unavailable"
    assert '"gone"' in text_of(answer)
    for text in (json.dumps(answer.message), shown, gateway.log.read_text(), json.dumps(gateway.records())):
        assert "CANARY" not in text


@asynccontextmanager
async def http_server_on(port: int, script: http_server.Script) -> AsyncIterator[HttpServer]:
    """Serve on a port that was chosen before."""
    server = HttpServer(script, port=port)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", port)
    try:
        yield server
    finally:
        listener.close()
        for exchange in server.seen:
            exchange.writer.transport.abort()
        await asyncio.sleep(0)


async def test_a_dead_and_a_silent_server_delay_nobody(tmp_path: Path) -> None:
    """G117: the cost is that of the sound one."""

    async def silent(exchange: Exchange) -> None:
        await exchange.until_gone()
        exchange.close()

    sound = McpServer("modern")
    async with http_server.serving(sound.script) as one, http_server.serving(silent) as two:
        servers = {
            "sound": {"url": one.url},
            "silent": {"url": two.url},
            "dead": {"url": f"http://127.0.0.1:{free_port()}/mcp"},
        }
        async with serving_beside(tmp_path, {"servers": servers}, "sound") as gateway:
            begun = time.monotonic()
            async with wire.http_client(gateway.url, "legacy") as client:
                tools = await wire.every(client, "tools/list", "tools")
            assert time.monotonic() - begun < 2
            assert [tool["name"] for tool in tools] == ["sound__echo"]
            shown = gateway.status()["servers"]
            assert shown["sound"]["last_round_trip"]
            assert shown["silent"]["state"] != "up"
            assert shown["dead"]["last_error"]


async def test_every_hop_has_the_version_its_server_agreed_to(tmp_path: Path) -> None:
    """G124: the client's header goes nowhere. G067: a modern server gets headers that name its own tool."""

    class Old(McpServer):
        async def script(self, exchange: Exchange) -> None:
            if exchange.method == "POST" and exchange.message.get("method") == "initialize":
                self.sessions.append(f"old-{len(self.sessions)}")
                hello = {
                    "protocolVersion": "2025-03-26",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "old", "version": "1"},
                }
                await exchange.result(hello, {"Mcp-Session-Id": self.sessions[-1]})
            else:
                await super().script(exchange)

    servers = {"old": Old("legacy"), "newer": McpServer("legacy"), "newest": McpServer("modern")}
    async with (
        http_server.serving(servers["old"].script) as old,
        http_server.serving(servers["newer"].script) as newer,
        http_server.serving(servers["newest"].script) as newest,
    ):
        http = {"old": old, "newer": newer, "newest": newest}
        async with serving_beside(
            tmp_path, {"servers": {name: {"url": one.url} for name, one in http.items()}}, *http
        ) as gateway:
            for era in ("modern", "legacy"):
                async with wire.http_client(gateway.url, era) as client:
                    for name in http:
                        assert not (await wire.call(client, f"{name}__echo")).result.get("isError")
            refused = await ask(gateway.port, modern("tools/list", mcp_protocol_version="1999-01-01"))

    def versions(one: HttpServer) -> set[str | None]:
        return {
            exchange.headers.get("mcp-protocol-version") for exchange in one.seen if b'"tools/call"' in exchange.body
        }

    assert refused.status == 400
    assert versions(old) <= {"2025-03-26", None}
    assert versions(newer) == {"2025-11-25"}
    assert versions(newest) == {"2026-07-28"}
    call = next(exchange for exchange in newest.seen if b'"tools/call"' in exchange.body)
    assert call.headers["mcp-name"] == call.message["params"]["name"] == "echo"
    assert call.headers["mcp-method"] == "tools/call"
