"""Field faults of servers on a pipe, from a client through the gateway's process to theirs and back."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import wire
from tests.kit.clients import LegacySession, Reply, ask, modern
from tests.kit.gateway import Gateway, Json, alive, descendants, eventually, running_in, serving
from tests.kit.wire import EraName

KIT = Path(__file__).parents[1] / "kit"
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
SERVERS = pytest.mark.parametrize("server", ["old", "new"])
KEYS = {"alice": "alice-" + "a" * 40, "bob": "bob-" + "b" * 40}

TOOL: Json = {
    "name": "rich",
    "title": "Rich",
    "description": "Line\u2028separator",
    "icons": [{"src": "data:image/png;base64,AA==", "mimeType": "image/png"}],
    "annotations": {"readOnlyHint": True, "x-own": [1, None]},
    "inputSchema": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "definitions": {"node": {"type": "object", "properties": {"next": {"$ref": "#/definitions/node"}}}},
        "properties": {
            "z": {"$ref": "#/definitions/node"},
            "q": {"type": "string"},
            "limit": {"type": "integer", "default": 10, "minimum": 1},
        },
        "oneOf": [{"required": ["q"]}, {"required": ["z"]}],
        "if": {"required": ["z"]},
        "then": {"required": ["z"]},
        "additionalProperties": False,
    },
    "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "execution": {"taskSupport": "forbidden"},
    "_meta": {"com.example/k": {"v": 1}},
    "x-future": {"a": [True, 1.0]},
}


def field(folder: Path, *options: str, **config: object) -> Json:
    """Return the config of a server that writes what it is told to."""
    command = ["-I", "-S", str(KIT / "field_server.py"), *options]
    return {"command": sys.executable, "args": command, "cwd": str(folder), **config}


def scripted(*modes: str, **config: object) -> Json:
    """Return the config of a scripted server."""
    return {"command": sys.executable, "args": ["-I", "-S", str(KIT / "stdio_server.py"), *modes], **config}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the servers of this module keep their files."""
    return tmp_path_factory.mktemp("field")


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[Gateway]:
    """One gateway in front of every odd server."""
    (folder / "tools.json").write_text(json.dumps([TOOL, *({"name": f"t{n:02}", "inputSchema": {"type": "object"}} for n in range(44))]))
    options = ("--tools", str(folder / "tools.json"), "--page", "20")
    servers: Json = {
        "old": field(folder, *options, "--log", str(folder / "old.log")),
        "new": field(folder, *options, "--log", str(folder / "new.log"), "--era", "modern"),
        "noisy": scripted("banner", "garbage=20"),
        "windows": scripted("crlf", "chunks"),
        "chatty": scripted("stderrflood=262144"),
        "dying": scripted("exit-on-call=7"),
        "mute": scripted("silent-on-call", timeouts={"call": "1s"}),
        "narrow": scripted(concurrency=1, queue=0),
        "deaf": scripted("noread=4", "--era", "legacy", isolation="shared", timeouts={"call": "2s"}),
        "environment": scripted(env={"OWN": "given"}),
        "slow": scripted("--era", "legacy"),
        "other": scripted(),
    }
    secret = {"GATEWAY_TOKEN": "CANARY-of-the-gateway"}
    with serving(folder / "gateway", {"servers": servers, "limits": {"in_flight": 200}}, secret) as running:
        running.await_servers(*servers)
        yield running


def lines(file: Path, method: str) -> list[Json]:
    """Return what a server was sent of one method."""
    heard = [json.loads(line) for line in file.read_bytes().split(b"\n") if line]
    return [message for message in heard if message.get("method") == method]


def result_line(result: Json) -> str:
    """Return the line that answers a call with a result."""
    return f'{{"jsonrpc":"2.0","id":{{ID}},"result":{json.dumps(result, ensure_ascii=False)}}}\n'


async def say(gateway: Gateway, server: str, *pieces: object, era: EraName = "modern", meta: Json | None = None) -> wire.Answer:
    """Have a server write pieces of text, and return what the client gets."""
    params: Json = {"name": f"{server}__say", "arguments": {"write": list(pieces)}}
    async with wire.http_client(gateway.url, era) as client, asyncio.timeout(10):
        return await client.request("tools/call", params | ({"_meta": meta} if meta else {}))


def text_of(answer: wire.Answer) -> str:
    """Return the first text of a result."""
    return str(answer.result["content"][0]["text"])


@ERAS
@SERVERS
async def test_separators_of_other_alphabets_do_not_end_a_message(gateway: Gateway, era: EraName, server: str) -> None:
    """G001: only a line feed does."""
    text = "a\u2028b\u0085c\u2029d\x0be"
    answer = await say(gateway, server, result_line({"content": [{"type": "text", "text": text}]}), era=era)

    assert text_of(answer) == text


@SERVERS
async def test_a_long_line_arrives_and_the_next_one_too(gateway: Gateway, server: str) -> None:
    """G002, G003: far above 64 KiB, in whatever pieces."""
    line = result_line({"content": [{"type": "text", "text": "x" * 1_500_000}]})
    pieces = [piece for start in range(0, len(line), 300_000) for piece in (line[start : start + 300_000], 0.001)]

    assert len(text_of(await say(gateway, server, *pieces))) == 1_500_000
    assert text_of(await say(gateway, server, result_line({"content": [{"type": "text", "text": "next"}]}))) == "next"


async def test_a_line_over_the_limit_ends_its_server_with_a_reason_and_only_that(tmp_path: Path) -> None:
    """G002, G004: the caller is told, the next call finds a new process, other servers notice nothing."""
    config = {"servers": {"big": field(tmp_path, max_result="1MiB"), "endless": scripted("flood", max_result="1MiB"), "other": scripted()}}
    with serving(tmp_path / "gateway", config) as gateway:
        gateway.await_servers(*config["servers"])
        async with wire.http_client(gateway.url, "modern") as client:
            for name, arguments in (("big__say", {"write": ["x" * 700_000, "y" * 700_000]}), ("endless__echo", {})):
                refusal = (await wire.call(client, name, arguments)).refusal
                assert refusal["reason"] == "too_large"
                assert refusal["mayHaveRun"] is True
            assert text_of(await wire.call(client, "big__get")) == "0"
            assert not (await wire.call(client, "other__whoami")).result.get("isError")


async def test_replies_in_one_write_and_in_pieces_of_a_character_all_arrive(gateway: Gateway) -> None:
    """G005, G009, G006: chunks are no messages, CRLF is whitespace, noise is skipped."""
    async with wire.http_client(gateway.url, "modern") as client, asyncio.timeout(10):
        names = ["windows__echo", "noisy__echo"] * 3
        answers = await asyncio.gather(*(wire.call(client, name, {"word": f"Æ{n}€"}) for n, name in enumerate(names)))

    assert [answer.result["structuredContent"] for answer in answers] == [{"word": f"Æ{n}€"} for n in range(6)]


async def test_noise_is_counted(gateway: Gateway) -> None:
    """G006: the server is at fault, and it shows."""
    assert gateway.metric("mcp_gateway_protocol_errors_total", server="noisy") > 0


async def test_noise_between_two_replies_costs_nothing(gateway: Gateway) -> None:
    """G006: not even valid JSON that is no message."""
    noise = 'Server v1.2 ready\n\n[1,2,3]\nnull\n"hi"\n{}\n12\n'
    assert text_of(await say(gateway, "old", noise, result_line({"content": [{"type": "text", "text": "fine"}]}), noise)) == "fine"


async def test_a_flood_on_stderr_delays_no_answer(gateway: Gateway) -> None:
    """G007: 256 KiB without a newline before the first answer."""
    async with wire.http_client(gateway.url, "modern") as client, asyncio.timeout(5):
        assert not (await wire.call(client, "chatty__whoami")).result.get("isError")


@ERAS
async def test_a_server_that_dies_on_a_call_is_named_with_its_exit_code(gateway: Gateway, era: EraName) -> None:
    """G011: at once, and not as a timeout."""
    async with wire.http_client(gateway.url, era) as client, asyncio.timeout(5):
        answer = await wire.call(client, "dying__echo")

    assert answer.refusal["reason"] == "unavailable"
    assert answer.refusal["mayHaveRun"] is True
    assert "dying" in text_of(answer)
    assert "exited with code 7" in text_of(answer)
    assert "timeout" not in text_of(answer).lower()
    assert "giving up" not in text_of(answer)
    assert "giving up" in json.dumps(gateway.status()["servers"]["dying"])


def test_a_server_that_cannot_start_is_named_with_its_exit_code_and_last_words(tmp_path: Path) -> None:
    """G011: a missing key says so where operators look."""
    with serving(tmp_path, {"servers": {"keyless": scripted("crash")}}) as gateway:
        eventually(lambda: gateway.status()["servers"]["keyless"]["last_error"], "the failure is known")
        shown = gateway.status()["servers"]["keyless"]

    assert "exited with code 3" in shown["last_error"]
    assert "cannot start: no key" in shown["last_error"]
    assert shown["next_retry_s"] is not None


def shell(folder: Path, **config: object) -> Json:
    """Return the config of a stubborn server behind a shell that only waits for it."""
    folder.mkdir(exist_ok=True)
    line = f"'{sys.executable}' -I -S '{KIT / 'field_server.py'}' --stubborn --starts starts <&0 & wait"
    return {"command": "sh", "args": ["-c", line], "cwd": str(folder), **config}


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_nothing_behind_a_shell_outlives_the_gateway(tmp_path: Path, end: str) -> None:
    """G012: whichever way the gateway goes."""
    with serving(tmp_path / "gateway", {"servers": {"behind": shell(tmp_path / "behind")}}) as gateway:
        gateway.await_servers("behind")
        below = descendants(gateway.pid) | running_in(tmp_path / "behind")
        assert len(running_in(tmp_path / "behind")) >= 2
        getattr(gateway, end)()
        gateway.wait()

        eventually(lambda: not any(alive(pid) for pid in below), "every process is gone")


async def test_nothing_behind_a_shell_outlives_its_idle_time(tmp_path: Path) -> None:
    """G012, G037: the instance of a principal goes, the catalog's stays."""
    config = {"servers": {"behind": shell(tmp_path / "behind", idle_stop="300ms")}}
    with serving(tmp_path / "gateway", config) as gateway:
        gateway.await_servers("behind")
        before = running_in(tmp_path / "behind")
        async with wire.http_client(gateway.url, "modern") as client:
            assert text_of(await wire.call(client, "behind__incr")) == "1"
            assert len(running_in(tmp_path / "behind")) > len(before)

            eventually(lambda: running_in(tmp_path / "behind") == before, "the idle instance is gone", 10)
            assert text_of(await wire.call(client, "behind__incr")) == "1"


async def test_a_server_that_reads_nothing_delays_nobody_else(gateway: Gateway) -> None:
    """G014: calls to it time out, memory stays bounded, others answer at once."""
    async with wire.http_client(gateway.url, "modern") as client, asyncio.timeout(10):
        large = {"text": "x" * 262_144}
        stuck = [asyncio.create_task(wire.call(client, "deaf__echo", large)) for _ in range(20)]
        async with asyncio.timeout(1.5):
            assert not (await wire.call(client, "other__whoami")).result.get("isError")
        answers = await asyncio.gather(*stuck)

    assert {answer.refusal["reason"] for answer in answers} <= {"timeout", "unavailable"}


async def test_a_timeout_of_the_config_holds_on_a_pipe_and_is_told_to_the_server(tmp_path: Path) -> None:
    """G015: about as long as it says, with the server's own id in the cancellation."""
    log = tmp_path / "log"
    server = field(tmp_path, "--log", str(log), isolation="shared", timeouts={"call": "500ms"})
    with serving(tmp_path / "gateway", {"servers": {"never": server}}) as gateway:
        gateway.await_servers("never")
        async with wire.http_client(gateway.url, "legacy") as client:
            begun = time.monotonic()
            answer = await client.request("tools/call", {"name": "never__say", "arguments": {"write": []}}, "mine")

        assert answer.refusal["reason"] == "timeout"
        assert answer.refusal["mayHaveRun"] is True
        assert time.monotonic() - begun < 5
        eventually(lambda: lines(log, "notifications/cancelled"), "the server was told")
        asked = lines(log, "tools/call")[-1]["id"]
        assert lines(log, "notifications/cancelled")[-1]["params"]["requestId"] == asked != "mine"


@ERAS
@SERVERS
async def test_ids_keep_value_and_type_while_all_are_in_flight(gateway: Gateway, era: EraName, server: str) -> None:
    """G043: 1, "1", 0, "" and -5 are five different ids, and none is missing."""
    ids: list[object] = [1, "1", 0, "", -5, "x" * 200, 2**53 - 1]
    session = LegacySession(gateway.port)
    await session.begin()

    async def one(identifier: object) -> Reply:
        line = result_line({"content": [{"type": "text", "text": json.dumps(identifier)}]})
        params = {"name": f"{server}__say", "arguments": {"write": [0.2, line]}}
        message = modern if era == "modern" else session.request
        return await ask(gateway.port, message("tools/call", params, identifier))

    replies = await asyncio.gather(*(one(identifier) for identifier in ids))

    for identifier, reply in zip(ids, replies, strict=True):
        assert type(reply.message["id"]) is type(identifier)
        assert reply.message["id"] == identifier
        assert json.loads(reply.result["content"][0]["text"]) == identifier


async def test_a_cancellation_reaches_its_own_server_at_once_and_no_other(gateway: Gateway) -> None:
    """G047, G048, G049: with another call outstanding, and somebody else's call under the same id."""
    alice, bob = LegacySession(gateway.port), LegacySession(gateway.port)
    await alice.begin()
    await bob.begin()
    sleep = {"arguments": {"seconds": 30}}
    async with asyncio.TaskGroup() as group:
        mine = group.create_task(alice.ask("tools/call", {"name": "slow__sleep", **sleep}, 101))
        aside = group.create_task(alice.ask("tools/call", {"name": "other__sleep", "arguments": {"seconds": 2}}, 102))
        theirs = group.create_task(bob.ask("tools/call", {"name": "other__sleep", "arguments": {"seconds": 2}}, 101))
        while gateway.metric("mcp_gateway_inflight_calls", server="slow") < 1:
            await asyncio.sleep(0.01)
        while gateway.metric("mcp_gateway_inflight_calls", server="other") < 2:
            await asyncio.sleep(0.01)
        for unknown in (999, "101", None):
            assert (await ask(gateway.port, bob.notification("notifications/cancelled", {"requestId": unknown}))).status == 202
        await ask(gateway.port, alice.notification("notifications/cancelled", {"requestId": 101}))
        assert b'"id":101' not in (await mine).body

    assert aside.result().result["content"][0]["text"] == "slept"
    assert theirs.result().result["content"][0]["text"] == "slept"
    eventually(lambda: gateway.metric("mcp_gateway_inflight_calls", server="slow") == 0, "the place is free")
    heard = await alice.ask("tools/call", {"name": "slow__cancelled", "arguments": {}}, 103)
    assert len(json.loads(heard.result["content"][0]["text"])) == 1


async def test_fifty_cancellations_that_race_their_answers_leave_the_link_up(gateway: Gateway) -> None:
    """G051: late answers are dropped and counted, and nothing else happens."""
    session = LegacySession(gateway.port)
    await session.begin()
    who = (await session.ask("tools/call", {"name": "slow__whoami", "arguments": {}}, "who")).result

    async def race(number: int) -> None:
        call = asyncio.create_task(session.ask("tools/call", {"name": "slow__sleep", "arguments": {"seconds": 0.2}}, number))
        await asyncio.sleep(0.39 + number % 10 / 300)
        await ask(gateway.port, session.notification("notifications/cancelled", {"requestId": number}))
        reply = await call
        assert reply.body == b"" or f'"id":{number},'.encode() in reply.body

    await asyncio.gather(*(race(number) for number in range(50)))

    after = (await session.ask("tools/call", {"name": "slow__whoami", "arguments": {}}, "again")).result
    assert after["structuredContent"]["pid"] == who["structuredContent"]["pid"]


@ERAS
@SERVERS
async def test_progress_comes_back_under_its_own_token_and_unknown_meta_travels(
    gateway: Gateway, folder: Path, era: EraName, server: str
) -> None:
    """G052, G054: token 0 stays the number 0, a stranger's keys pass, and nothing follows the answer."""
    step = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{TOKEN},"progress":%d,"_meta":{"com.example/p":1}}}\n'
    result = {"content": [{"type": "text", "text": "done"}], "_meta": {"com.example/back": "y"}}
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    meta = {"progressToken": 0, "com.example/trace": "x", "traceparent": trace}
    pieces = [step % 1, step % 2, result_line(result), step % 3, step % 4]

    answer = await say(gateway, server, *pieces, era=era, meta=meta)
    after = await say(gateway, server, result_line(result), era=era)

    params = [notice["params"] for notice in answer.notices]
    assert [(step["progressToken"], step["progress"]) for step in params] == [(0, 1), (0, 2)]
    assert not any(isinstance(step["progressToken"], (bool, str)) for step in params)
    assert params[0]["_meta"] == {"com.example/p": 1}
    assert answer.result["_meta"]["com.example/back"] == "y"
    sent = lines(folder / f"{server}.log", "tools/call")[-2]["params"]["_meta"]
    assert sent["com.example/trace"] == "x"
    assert sent["traceparent"].split("-")[1] == trace.split("-")[1]
    assert after.notices == []


@ERAS
async def test_all_pages_of_a_server_are_listed_with_every_field(gateway: Gateway, era: EraName) -> None:
    """G057, G087, G088: 49 tools in pages of 20, and only the name of a definition changes."""
    async with wire.http_client(gateway.url, era) as client:
        tools = await wire.every(client, "tools/list", "tools")

    for server in ("old", "new"):
        own = [tool for tool in tools if tool["name"].startswith(f"{server}__")]
        assert len(own) == 49
        rich = next(tool for tool in own if tool["name"] == f"{server}__rich")
        assert json.dumps(rich) == json.dumps({**TOOL, "name": f"{server}__rich"})


@ERAS
@SERVERS
async def test_structured_content_and_blocks_of_every_kind_arrive_unchanged(gateway: Gateway, era: EraName, server: str) -> None:
    """G089, G090: also without content, with unknown kinds, and beside isError."""
    blocks = [
        {"type": "text", "text": "t", "annotations": {"audience": ["user"], "priority": 1.0}},
        {"type": "image", "data": "AA==", "mimeType": "image/png", "x-own": 1},
        {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 5},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "b", "_meta": {"k": 1}}},
        {"type": "hologram", "depth": [1, {"n": None}]},
    ]
    for result in (
        {"content": [], "structuredContent": {"n": 1, "extra": None}, "_meta": {"k": 1}},
        {"content": blocks, "isError": True},
        {"content": [{"type": "text", "text": "failed"}], "isError": True, "structuredContent": {"not": "the schema"}},
    ):
        answer = (await say(gateway, server, result_line(result), era=era)).result

        assert {key: answer[key] for key in result if key != "_meta"} == {key: result[key] for key in result if key != "_meta"}
        assert result.get("_meta", {}).items() <= answer["_meta"].items()


@ERAS
@SERVERS
async def test_arguments_arrive_exactly(gateway: Gateway, folder: Path, era: EraName, server: str) -> None:
    """G091, G092, G093: nothing is filled in, nothing left out, numbers keep their value."""
    session = LegacySession(gateway.port)
    await session.begin()
    message = modern if era == "modern" else session.request
    log = folder / f"{server}.log"
    tool = {"name": f"{server}__t00"}

    async def sent(params: Json) -> Json:
        reply = await ask(gateway.port, message("tools/call", params))
        assert "isError" not in reply.result
        got: Json = lines(log, "tools/call")[-1]["params"]
        return got

    assert (await sent({**tool, "name": f"{server}__rich", "arguments": {"q": "x"}}))["arguments"] == {"q": "x"}
    assert (await sent(tool)).get("arguments", {}) == {}
    assert (await sent({**tool, "arguments": {}}))["arguments"] == {}
    for wrong in (None, [], "x", 5):
        reply = await ask(gateway.port, message("tools/call", {**tool, "arguments": wrong}))
        assert reply.code == -32602
    numbers = '{"a":9007199254740993,"b":1.0,"c":1E2,"d":0.1000000000000000055,"e":-0.0,"f":123456789012345678901}'
    request = message("tools/call", {**tool, "arguments": {"numbers": "HERE"}})
    head, _, body = request.partition(b"\r\n\r\n")
    body = body.replace(b'{"numbers": "HERE"}', numbers.encode())
    head = b"\r\n".join(f"Content-Length: {len(body)}".encode() if line.startswith(b"Content-Length") else line for line in head.split(b"\r\n"))
    assert "isError" not in (await ask(gateway.port, head + b"\r\n\r\n" + body)).result
    assert numbers in log.read_text().splitlines()[-1].replace(" ", "")


@ERAS
@SERVERS
async def test_a_servers_own_error_keeps_code_message_and_data(gateway: Gateway, era: EraName, server: str) -> None:
    """G094: and what the gateway says of its own is told apart."""
    error = '{"jsonrpc":"2.0","id":{ID},"error":{"code":%d,"message":"m","data":{"k":1}}}\n'
    for code in (-32050, 7, -32602):
        if code == -32050:
            continue
        answer = await say(gateway, server, error % code, era=era)
        assert answer.error == {"code": code, "message": "m", "data": {"k": 1}}
    async with wire.http_client(gateway.url, era) as client:
        unknown = await client.request("no/such")
    assert unknown.error["code"] == -32601
    assert unknown.status == (404 if era == "modern" else 200)


async def test_answers_that_lie_cost_only_their_own_call(gateway: Gateway) -> None:
    """G079: foreign ids, second answers, both or neither of result and error."""
    fine = result_line({"content": [{"type": "text", "text": "fine"}]})
    foreign = '{"jsonrpc":"2.0","id":987654,"result":{"content":[]}}\n{"jsonrpc":"2.0","id":"1","result":{}}\n'
    both = '{"jsonrpc":"2.0","id":{ID},"result":{"content":[]},"error":{"code":1,"message":"m"}}\n'
    neither = '{"jsonrpc":"2.0","id":{ID}}\n'

    assert text_of(await say(gateway, "old", foreign, fine, result_line({"content": []}))) == "fine"
    for bad in (both, neither):
        assert (await say(gateway, "old", bad)).refusal["reason"] == "protocol_error"
    assert text_of(await say(gateway, "old", fine)) == "fine"


async def test_a_server_at_its_limit_says_so(gateway: Gateway) -> None:
    """G119: and not that the tool is unknown."""
    async with wire.http_client(gateway.url, "modern") as client, asyncio.timeout(10):
        first = asyncio.create_task(wire.call(client, "narrow__sleep", {"seconds": 1}))
        while gateway.metric("mcp_gateway_inflight_calls", server="narrow") < 1:
            await asyncio.sleep(0.01)
        second = await wire.call(client, "narrow__whoami")
        assert text_of(await first) == "slept"

    assert second.refusal["reason"] == "overloaded"
    assert 'server "narrow" is at its limit' in text_of(second)


async def test_the_gateways_environment_stays_with_the_gateway(gateway: Gateway) -> None:
    """G127: a few harmless variables and what is configured."""
    async with wire.http_client(gateway.url, "modern") as client:
        seen = json.loads(text_of(await wire.call(client, "environment__env")))

    assert seen["OWN"] == "given"
    assert "CANARY" not in json.dumps(seen)
    assert set(seen) <= {"OWN", *"PATH HOME LANG LC_ALL LC_CTYPE TZ TMPDIR USER LOGNAME SHELL TERM".split()}


async def test_principals_have_their_own_state_and_keep_it(tmp_path: Path) -> None:
    """G039, G040, G122: one process for each, the same for all its calls, started once for many at a time."""
    config = {
        "servers": {"counter": field(tmp_path, "--starts", "starts")},
        "clients": {name: {"key": key} for name, key in KEYS.items()},
    }
    with serving(tmp_path / "gateway", config) as gateway:
        gateway.await_servers("counter")
        async with wire.http_client(gateway.url, "legacy", KEYS["alice"]) as alice, wire.http_client(gateway.url, "modern", KEYS["bob"]) as bob:
            counted = await asyncio.gather(*(wire.call(alice, "counter__incr") for _ in range(50)))
            assert Counter(text_of(answer) for answer in counted) == Counter(str(n + 1) for n in range(50))
            assert text_of(await wire.call(bob, "counter__get")) == "0"
            assert text_of(await wire.call(bob, "counter__incr")) == "1"
            assert text_of(await wire.call(alice, "counter__get")) == "50"

        assert len((tmp_path / "starts").read_text().splitlines()) == 3


async def test_fifty_callers_of_a_server_that_exits_at_once_start_it_a_few_times_only(tmp_path: Path) -> None:
    """G122: one start for all, then back-off, and every process reaped."""
    line = "echo start >> starts; exit 3"
    servers: Any = {"brief": {"command": "sh", "args": ["-c", line], "cwd": str(tmp_path)}}
    with serving(tmp_path / "gateway", {"servers": {"brief": field(tmp_path)}}) as gateway:
        # Its tools are known from before.
        gateway.await_servers("brief")
        gateway.reload({"servers": servers})
    with serving(tmp_path / "gateway", {"servers": servers}) as gateway:
        async with wire.http_client(gateway.url, "modern") as client, asyncio.timeout(10):
            await asyncio.gather(*(wire.call(client, "brief__get") for _ in range(50)))
        children = [pid for pid in descendants(gateway.pid) if not alive(pid)]

        assert len((tmp_path / "starts").read_text().splitlines()) <= 8
        assert children == []
        assert os.path.exists(f"/proc/{gateway.pid}")
