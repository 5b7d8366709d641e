"""Trace context through a real gateway, both ways in all four cells (2026-07-28 basic/index §_meta; S71)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.kit.clients import Json, connect
from tests.kit.extending import ERAS, extended, talker
from tests.kit.extension_server import TRACE
from tests.kit.gateway import Gateway, serving
from tests.kit.wire import EraName

SERVERS = ("new", "old")
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
KEPT = {"traceparent": TRACE["traceparent"], "tracestate": TRACE["tracestate"]}
FORMS: Json = {"elicitation": {}}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    servers = {
        "new": extended("new", "modern", asks=["elicitation"]),
        "old": extended("old", "legacy", asks=["elicitation"]),
    }
    with serving(tmp_path_factory.mktemp("trace"), {"servers": servers}) as running:
        running.await_servers(*servers)
        yield running


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_clients_trace_reaches_the_server_and_baggage_does_not(
    gateway: Gateway, era: EraName, server: str
) -> None:
    client = await talker(gateway.port, era)
    meta = {"traceparent": PARENT, "tracestate": "a=1", "baggage": "user=alice"}
    heard = (await client.told(f"{server}__meta", meta))["meta"]
    assert {key: heard.get(key) for key in meta} == {"traceparent": PARENT, "tracestate": "a=1", "baggage": None}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "meta",
    [
        {"traceparent": PARENT.upper()},
        {"traceparent": PARENT + "\r\nx: y", "tracestate": "a=1"},
        {"traceparent": f"00-{'0' * 32}-00f067aa0ba902b7-01"},
        {"traceparent": 1},
        {"tracestate": "a=1"},
        {"baggage": "x=" + "y" * 10240},
    ],
    ids=["case", "crlf", "zero", "number", "state alone", "baggage"],
)
async def test_what_is_no_trace_context_is_dropped(gateway: Gateway, era: EraName, server: str, meta: Json) -> None:
    heard = (await (await talker(gateway.port, era)).told(f"{server}__meta", meta))["meta"]
    assert not {"traceparent", "tracestate", "baggage"} & heard.keys()


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_servers_trace_reaches_the_client_with_notifications(
    gateway: Gateway, era: EraName, server: str
) -> None:
    client = await talker(gateway.port, era)
    meta: Json = {"progressToken": "t", "io.modelcontextprotocol/logLevel": "info"}
    if era == "legacy":
        await client.ask("logging/setLevel", {"level": "info"})
        meta = {"progressToken": "t"}
    reply = await client.call(f"{server}__tell", meta=meta)
    told = {event["method"]: event["params"] for event in reply.events if "method" in event}
    assert told["notifications/progress"]["_meta"] == {**KEPT, "com.example/k": 1}
    assert "_meta" not in told["notifications/message"]
    assert {key: reply.result["_meta"].get(key) for key in KEPT} == KEPT


@pytest.mark.parametrize("server", SERVERS)
async def test_a_question_carries_its_trace_to_a_modern_client(gateway: Gateway, server: str) -> None:
    client = await talker(gateway.port, "modern", FORMS)
    asked = (await client.call(f"{server}__question")).result
    (question,) = asked["inputRequests"].values()
    assert question["params"]["_meta"] == KEPT


@pytest.mark.parametrize("server", SERVERS)
async def test_a_question_carries_its_trace_to_a_legacy_client(gateway: Gateway, server: str) -> None:
    client = await talker(gateway.port, "legacy", FORMS)
    assert client.session is not None
    async with connect(gateway.port) as connection:
        await connection.send(client.request("tools/call", {"name": f"{server}__question", "arguments": {}}))
        assert (await connection.head())[0] == 200
        async for message in connection.messages():
            if message.get("method") == "elicitation/create":
                meta = message["params"]["_meta"]
                assert {key: meta.get(key) for key in (*KEPT, "baggage")} == {**KEPT, "baggage": None}
                async with connect(gateway.port) as other:
                    await other.send(client.session.response(message["id"], {"action": "accept", "content": {}}))
                    assert (await other.reply()).status == 202
            elif "result" in message:
                text = json.loads(message["result"]["content"][0]["text"])
                assert "accept" in json.dumps(text["answer"])


async def test_what_else_a_modern_server_says_with_its_questions_reaches_a_modern_client(gateway: Gateway) -> None:
    """Members that nobody here knows stay, byte for byte."""
    client = await talker(gateway.port, "modern", FORMS)
    reply = await client.call("new__question")
    assert b'"x-future":[1.5]' in reply.body.replace(b" ", b"")
    assert reply.result["_meta"]["com.example/k"] == 1
    assert reply.result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "aiohttp-mcp-gateway"
    assert reply.result["resultType"] == "input_required"
