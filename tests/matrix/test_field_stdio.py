"""Field faults of servers on a pipe, from a client through the gateway's process to theirs and back."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import wire
from tests.kit.clients import LegacySession, Reply, ask, modern
from tests.kit.field import NAMES, TOOL, field, heard_of_cancellations, lines, result_line, say, scripted, text_of
from tests.kit.gateway import Gateway, Json, eventually, serving
from tests.kit.peers import driver
from tests.kit.wire import EraName

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
SERVERS = pytest.mark.parametrize("server", ["old", "new"])
DONE: Json = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the servers of this module keep their files."""
    return tmp_path_factory.mktemp("field")


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[Gateway]:
    """One gateway in front of every odd server."""
    (folder / "tools.json").write_text(
        json.dumps([TOOL, *({"name": f"t{n:02}", "inputSchema": {"type": "object"}} for n in range(44))])
    )
    options = ("--tools", str(folder / "tools.json"), "--page", "20")
    odd: list[Json] = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in NAMES]
    (folder / "odd.json").write_text(json.dumps([*odd, {**odd[0], "description": "second"}]))
    servers: Json = {
        "enterprise-billing-production": field(
            folder, "--tools", str(folder / "odd.json"), "--log", str(folder / "odd.log")
        ),
        "old": field(folder, *options, "--log", str(folder / "old.log")),
        "new": field(folder, *options, "--log", str(folder / "new.log"), "--era", "modern"),
        "noisy": scripted("banner", "garbage=20"),
        "windows": scripted("crlf", "chunks"),
        "chatty": scripted("stderrflood=262144"),
        **{name: scripted("exit-on-call=7") for name in ("dying", "dying-modern", "dying-legacy")},
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


@ERAS
@SERVERS
async def test_separators_of_other_alphabets_do_not_end_a_message(gateway: Gateway, era: EraName, server: str) -> None:
    """G001: only a line feed does."""
    text = "a\u2028b\u0085c\u2029d\x0be"
    answer = await say(gateway, server, result_line({"content": [{"type": "text", "text": text}]}), era=era)
    assert text_of(answer) == text


@pytest.mark.parametrize("client", ["mcp1-legacy", "ts2-modern"])
def test_an_official_client_reads_what_odd_servers_wrote(gateway: Gateway, client: str, tmp_path: Path) -> None:
    """G001, G002, G005, G006, G009, G011: separators, long lines, pieces, noise, CRLF, a crash."""
    fine = result_line({"content": [{"type": "text", "text": "x…x"}]})
    long = [piece for part in fine.split("…") for piece in (part, ["y", 200_000])][:-1]
    with driver(client, gateway.url, tmp_path / "stderr") as connected:
        results = [
            connected.ok("call", name="slow__u2028", arguments={}),
            connected.ok("call", name="old__say", arguments={"write": ["noise\n\nnull\n", *long, "[1]\n"]}),
            connected.ok("call", name="windows__echo", arguments={"word": "Æ€"}),
            connected.ok("call", name="dying__echo", arguments={}),
        ]
    texts = [result["content"][0]["text"] for result in results]
    assert texts[0] == "a\u2028b\u0085c\u2029d\re"
    assert texts[1] == "x" + "y" * 200_000 + "x"
    assert json.loads(texts[2]) == {"word": "Æ€"}
    assert results[3]["isError"] is True
    assert "code 7" in texts[3]


@SERVERS
async def test_a_long_line_arrives_and_the_next_one_too(gateway: Gateway, server: str) -> None:
    """G002, G003: far above 64 KiB, in whatever pieces."""
    head, tail = result_line({"content": [{"type": "text", "text": "…"}]}).split("…")
    pieces = [head, *([["x", 100_000], 0.001] * 15), tail]

    assert len(text_of(await say(gateway, server, *pieces))) == 1_500_000
    assert text_of(await say(gateway, server, result_line({"content": [{"type": "text", "text": "next"}]}))) == "next"


async def test_replies_in_one_write_and_in_pieces_of_a_character_all_arrive(gateway: Gateway) -> None:
    """G005, G009, G006: chunks are no messages, CRLF is whitespace, noise is skipped."""
    async with wire.http_client(gateway.url, "modern") as client, asyncio.timeout(10):
        names = ["windows__echo", "noisy__echo"] * 3
        answers = await asyncio.gather(*(wire.call(client, name, {"word": f"Æ{n}€"}) for n, name in enumerate(names)))

    assert [answer.result["structuredContent"] for answer in answers] == [{"word": f"Æ{n}€"} for n in range(6)]


async def test_noise_between_two_replies_costs_nothing(gateway: Gateway) -> None:
    """G006: not even valid JSON that is no message. The server is at fault, and it shows."""
    assert gateway.metric("mcp_gateway_downstream_protocol_errors_total", server="noisy") > 0
    noise = 'Server v1.2 ready\n\n[1,2,3]\nnull\n"hi"\n{}\n12\n'
    assert (
        text_of(await say(gateway, "old", noise, result_line({"content": [{"type": "text", "text": "fine"}]}), noise))
        == "fine"
    )


async def test_a_flood_on_stderr_delays_no_answer(gateway: Gateway) -> None:
    """G007: 256 KiB without a newline before the first answer."""
    async with wire.http_client(gateway.url, "modern") as client, asyncio.timeout(20):
        assert not (await wire.call(client, "chatty__whoami")).result.get("isError")


@ERAS
async def test_a_server_that_dies_on_a_call_is_named_with_its_exit_code(gateway: Gateway, era: EraName) -> None:
    """G011: at once, and not as a timeout."""
    async with wire.http_client(gateway.url, era) as client, asyncio.timeout(20):
        answer = await wire.call(client, f"dying-{era}__echo")

    assert answer.refusal["reason"] == "unavailable"
    assert answer.refusal["mayHaveRun"] is True
    assert f"dying-{era}" in text_of(answer)
    assert "exited with code 7" in text_of(answer)
    assert "timeout" not in text_of(answer).lower()
    assert "giving up" not in text_of(answer)
    assert "giving up" in json.dumps(gateway.status()["servers"][f"dying-{era}"])


async def test_a_server_that_reads_nothing_delays_nobody_else(gateway: Gateway) -> None:
    """G014: calls to it time out, memory stays bounded, others answer at once."""
    large = {"text": "x" * 262_144}
    async with wire.http_client(gateway.url, "modern") as client, asyncio.timeout(10), asyncio.TaskGroup() as group:
        stuck = [group.create_task(wire.call(client, "deaf__echo", large)) for _ in range(20)]
        async with asyncio.timeout(1.5):
            assert not (await wire.call(client, "other__whoami")).result.get("isError")
    assert {call.result().refusal["reason"] for call in stuck} <= {"timeout", "unavailable"}


@ERAS
@SERVERS
async def test_ids_keep_value_and_type_while_all_are_in_flight(gateway: Gateway, era: EraName, server: str) -> None:
    """G043: 1, "1", 0, "" and -5 are five different ids, and none is missing."""
    ids: list[object] = [1, "1", 0, "", -5, "x" * 128, 2**53 - 1]
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
    await alice.ask("tools/call", {"name": "slow__whoami", "arguments": {}}, "up")
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
            assert (
                await ask(gateway.port, bob.notification("notifications/cancelled", {"requestId": unknown}))
            ).status == 202
        await ask(gateway.port, alice.notification("notifications/cancelled", {"requestId": 101}))
        assert b'"id":101' not in (await mine).body

    assert aside.result().result["content"][0]["text"] == "slept"
    assert theirs.result().result["content"][0]["text"] == "slept"
    eventually(lambda: gateway.metric("mcp_gateway_inflight_calls", server="slow") == 0, "the place is free")
    async with asyncio.timeout(20):
        # The server takes each message in a thread of its own.
        while len(await heard_of_cancellations(alice, "slow")) != 1:
            await asyncio.sleep(0.02)
    assert await heard_of_cancellations(alice, "other") == []


async def test_fifty_cancellations_that_race_their_answers_leave_the_link_up(gateway: Gateway) -> None:
    """G051: late answers are dropped and counted, and nothing else happens."""
    session = LegacySession(gateway.port)
    await session.begin()
    who = (await session.ask("tools/call", {"name": "slow__whoami", "arguments": {}}, "who")).result

    async def race(number: int) -> None:
        sleep = {"name": "slow__sleep", "arguments": {"seconds": 0.2}}
        async with asyncio.TaskGroup() as group:
            call = group.create_task(session.ask("tools/call", sleep, number))
            await asyncio.sleep(0.39 + number % 10 / 300)
            await ask(gateway.port, session.notification("notifications/cancelled", {"requestId": number}))
        reply = call.result()
        streamed = reply.headers.get("content-type", "").startswith("text/event-stream")
        # Cancelled it has no answer; what took long was a stream by then, which may have begun without a message.
        answers = reply.events if streamed else [reply.message]
        assert [answer["id"] for answer in answers] in ([], [number])

    await asyncio.gather(*(race(number) for number in range(50)))

    after = (await session.ask("tools/call", {"name": "slow__whoami", "arguments": {}}, "again")).result
    assert after["structuredContent"]["pid"] == who["structuredContent"]["pid"]


@ERAS
@SERVERS
async def test_progress_comes_back_under_its_own_token_and_unknown_meta_travels(
    gateway: Gateway, folder: Path, era: EraName, server: str
) -> None:
    """G052, G054: token 0 stays the number 0, a stranger's keys pass, and nothing follows the answer."""
    head = '{"jsonrpc":"2.0","method":"notifications/progress",'
    step = head + '"params":{"progressToken":{TOKEN},"progress":%d,"_meta":{"com.example/p":1}}}\n'
    result = {"content": [{"type": "text", "text": "done"}], "_meta": {"com.example/back": "y"}}
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    meta = {"progressToken": 0, "com.example/trace": "x", "traceparent": trace}
    pieces = [step % 1, step % 2, result_line(result), step % 3, step % 4]

    answer = await say(gateway, server, *pieces, era=era, meta=meta)
    after = await say(gateway, server, result_line(result), era=era)

    params = [notice["params"] for notice in answer.notices]
    assert [(step["progressToken"], step["progress"]) for step in params] == [(0, 1), (0, 2)]
    assert type(params[0]["progressToken"]) is int
    assert params[0]["_meta"] == {"com.example/p": 1}
    assert answer.result["_meta"]["com.example/back"] == "y"
    sent = lines(folder / f"{server}.log", "tools/call")[-2]["params"]["_meta"]
    assert sent["com.example/trace"] == "x"
    assert sent["traceparent"].split("-")[1] == trace.split("-")[1]
    assert after.notices == []


@ERAS
async def test_all_pages_of_a_server_are_listed_with_every_field(gateway: Gateway, era: EraName) -> None:
    """G057, G087, G088: 49 tools in pages of 20, and only the name of a definition changes.

    But for what legacy tools say of tasks: modern clients cannot have any of a legacy server.
    """
    async with wire.http_client(gateway.url, era) as client:
        tools = await wire.every(client, "tools/list", "tools")

    for server in ("old", "new"):
        own = [tool for tool in tools if tool["name"].startswith(f"{server}__")]
        assert len(own) == 49
        rich = next(tool for tool in own if tool["name"] == f"{server}__rich")
        foreign = ("execution",) if (era, server) == ("modern", "old") else ()
        same = {key: value for key, value in TOOL.items() if key not in foreign}
        assert json.dumps(rich) == json.dumps({**same, "name": f"{server}__rich"})


@ERAS
@SERVERS
async def test_structured_content_and_blocks_of_every_kind_arrive_unchanged(
    gateway: Gateway, era: EraName, server: str
) -> None:
    """G089, G090: also without content, with unknown kinds, and beside isError."""
    blocks = [
        {"type": "text", "text": "t", "annotations": {"audience": ["user"], "priority": 1.0}},
        {"type": "image", "data": "AA==", "mimeType": "image/png", "x-own": 1},
        {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 5},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "b", "_meta": {"k": 1}}},
        {"type": "hologram", "depth": [1, {"n": None}]},
    ]
    results: list[Json] = [
        {"content": [], "structuredContent": {"n": 1, "extra": None}, "_meta": {"k": 1}},
        {"content": blocks, "isError": True},
        {"content": [{"type": "text", "text": "failed"}], "isError": True, "structuredContent": {"not": "the schema"}},
    ]
    for result in results:
        answer = (await say(gateway, server, result_line(result), era=era)).result

        assert {key: answer[key] for key in result if key != "_meta"} == {
            key: result[key] for key in result if key != "_meta"
        }
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
    wrongs: list[object] = [None, [], "x", 5]
    for wrong in wrongs:
        reply = await ask(gateway.port, message("tools/call", {**tool, "arguments": wrong}))
        assert reply.code == -32602
    numbers = '{"a":9007199254740993,"b":1.0,"c":1E2,"d":0.1000000000000000055,"e":-0.0,"f":9223372036854775807}'
    request = message("tools/call", {**tool, "arguments": {"numbers": "HERE"}})
    head, _, body = request.partition(b"\r\n\r\n")
    body = body.replace(b'{"numbers": "HERE"}', numbers.encode())
    head = b"\r\n".join(
        f"Content-Length: {len(body)}".encode() if line.startswith(b"Content-Length") else line
        for line in head.split(b"\r\n")
    )
    assert "isError" not in (await ask(gateway.port, head + b"\r\n\r\n" + body)).result
    assert lines(log, "tools/call")[-1]["params"]["arguments"] == json.loads(numbers)
    assert '"f":9223372036854775807' in log.read_text().splitlines()[-1].replace(" ", "")


@ERAS
@SERVERS
async def test_a_servers_own_error_keeps_code_message_and_data(gateway: Gateway, era: EraName, server: str) -> None:
    """G094: and what the gateway says of its own is told apart."""
    error = '{"jsonrpc":"2.0","id":{ID},"error":{"code":%d,"message":"m","data":{"k":1}}}\n'
    for code in (7, -31999, -32602):
        answer = await say(gateway, server, error % code, era=era)
        assert answer.error == {"code": code, "message": "m", "data": {"k": 1}}
    reserved = (await say(gateway, server, error % -32050, era=era)).error
    if era == "modern":
        assert reserved["code"] == -31004
        reserved = reserved["data"]["server"]
    assert reserved == {"code": -32050, "message": "m", "data": {"k": 1}}
    async with wire.http_client(gateway.url, era) as client:
        unknown = await client.request("no/such")
    assert unknown.error["code"] == -32601
    assert unknown.status == (404 if era == "modern" else 200)


async def test_a_request_of_a_modern_server_gets_no_response_and_its_call_goes_on(
    gateway: Gateway, folder: Path
) -> None:
    """G139: 2026-07-28 stdio §Sending Messages."""
    asked = '{"jsonrpc":"2.0","id":"r-1","method":"roots/list"}\n'
    assert text_of(await say(gateway, "new", asked, result_line(DONE))) == "done"
    assert text_of(await say(gateway, "new", result_line(DONE))) == "done"
    heard = [json.loads(line) for line in (folder / "new.log").read_bytes().splitlines()]
    assert [message for message in heard if "method" not in message] == []
    await say(gateway, "old", asked, result_line(DONE))
    (answer,) = [json.loads(line) for line in (folder / "old.log").read_bytes().splitlines() if b'"method"' not in line]
    assert (answer["id"], answer["error"]["code"]) == ("r-1", -32601)


@ERAS
@SERVERS
async def test_a_notification_too_large_for_any_stream_is_lost_and_the_call_answered(
    gateway: Gateway, server: str, era: EraName
) -> None:
    def log(size: int) -> str:
        params = {"level": "info", "data": "x" * size}
        return json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params}) + "\n"

    async with wire.http_client(gateway.url, era) as client, asyncio.timeout(20):
        if era == "legacy":
            await client.request("logging/setLevel", {"level": "info"})
        params: Json = {"name": f"{server}__say", "arguments": {"write": [log(10), log(300_000), result_line(DONE)]}}
        meta = {"io.modelcontextprotocol/logLevel": "info"} if era == "modern" else {}
        answer = await client.request("tools/call", {**params, "_meta": meta})
    assert text_of(answer) == "done"
    assert [notice["params"]["data"] for notice in answer.notices] == ["x" * 10]


async def test_odd_names_become_safe_ones_and_the_server_gets_its_own(gateway: Gateway, folder: Path) -> None:
    """G082, G083, G084, G072: stable and unique, the first of two equal ones, and matched exactly."""
    async with wire.http_client(gateway.url, "modern") as client:
        tools = await wire.every(client, "tools/list", "tools")
        own = [tool for tool in tools if tool.get("description") in NAMES]
        for tool in own:
            assert not (await wire.call(client, tool["name"], {"n": 1})).result.get("isError")
        shouted = await wire.call(client, own[0]["name"].upper())

    assert [tool["description"] for tool in own] == NAMES
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,48}", tool["name"]) for tool in own)
    assert len({tool["name"].casefold() for tool in own}) == len(NAMES)
    assert [call["params"]["name"] for call in lines(folder / "odd.log", "tools/call")] == NAMES
    assert shouted.error["code"] == -32602
    held = gateway.status()["servers"]["enterprise-billing-production"]["held_back"]
    assert [item["name"] for item in held] == ["_x"]


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
    async with wire.http_client(gateway.url, "modern") as client, asyncio.timeout(10), asyncio.TaskGroup() as group:
        first = group.create_task(wire.call(client, "narrow__sleep", {"seconds": 1}))
        while gateway.metric("mcp_gateway_inflight_calls", server="narrow") < 1:
            await asyncio.sleep(0.01)
        second = await wire.call(client, "narrow__whoami")

    assert text_of(first.result()) == "slept"
    assert second.refusal["reason"] == "overloaded"
    assert 'Server "narrow" is at its limit' in text_of(second)


async def test_the_gateways_environment_stays_with_the_gateway(gateway: Gateway) -> None:
    """G127: a few harmless variables and what is configured."""
    async with wire.http_client(gateway.url, "modern") as client:
        seen = json.loads(text_of(await wire.call(client, "environment__env")))

    assert seen["OWN"] == "given"
    assert "CANARY" not in json.dumps(seen)
    harmless = ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "TERM"]
    assert set(seen) <= {"OWN", *harmless}
