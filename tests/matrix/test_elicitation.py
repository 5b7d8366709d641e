"""Questions that end otherwise than by an answer (2025-11-25 client/elicitation)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from tests.kit.clients import Json, connect
from tests.kit.extending import ERAS, Talker, extended, talker
from tests.kit.gateway import Gateway, serving
from tests.kit.wire import EraName

BOTH: Json = {"elicitation": {"form": {}, "url": {}}}
SEARCH: Json = {"extensions": {"com.example/search": {}}}
COMPLETE = "notifications/elicitation/complete"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    servers = {
        "old": extended("old", "legacy", {"com.example/search": {}}, asks=["elicitation"]),
        "other": extended("old", "legacy", asks=["elicitation"]),
    }
    with serving(tmp_path_factory.mktemp("elicitation"), {"servers": servers}) as running:
        running.await_servers(*servers)
        yield running


async def conversation(port: int, client: Talker, tool: str, answer: Json | None) -> list[Json]:
    """Call a tool and answer its question; returns every message of the call's stream, in order."""
    assert client.session is not None
    heard: list[Json] = []
    async with connect(port) as connection:
        await connection.send(client.request("tools/call", {"name": tool, "arguments": {}}))
        await connection.head()
        async for message in connection.messages():
            heard.append(message)
            if message.get("method") == "elicitation/create" and answer is not None:
                async with connect(port) as other:
                    await other.send(client.session.response(message["id"], answer))
                    assert (await other.reply()).status == 202
    return heard


def kinds(heard: list[Json]) -> list[str]:
    """Name messages by their methods, the answer by what it is."""
    return [message.get("method", "result" if "result" in message else "error") for message in heard]


async def test_the_end_of_a_page_is_told_on_the_call_of_the_client_that_was_sent_there(gateway: Gateway) -> None:
    """Once, under the server's own id; ids that this client was not asked under are nobody's."""
    client = await talker(gateway.port, "legacy", BOTH)
    heard = await conversation(gateway.port, client, "old__link", {"action": "accept"})
    assert kinds(heard) == ["elicitation/create", COMPLETE, "result"]
    assert heard[0]["params"]["elicitationId"] == "old-link"
    assert heard[1] == {"jsonrpc": "2.0", "method": COMPLETE, "params": {"elicitationId": "old-link"}}


async def test_the_end_of_a_page_of_an_error_is_told_later_on_the_stream_that_belongs_to_no_call(
    gateway: Gateway,
) -> None:
    """§URL Elicitation Required Error: a client may wait for it and try again; nobody else is told."""
    client, bystander = await talker(gateway.port, "legacy", BOTH), await talker(gateway.port, "legacy", BOTH)
    assert client.session is not None
    assert bystander.session is not None
    reply = await client.call("old__linked")
    assert reply.code == -32042
    async with connect(gateway.port) as mine, connect(gateway.port) as theirs:
        await mine.send(client.session.get())
        await mine.head()
        await theirs.send(bystander.session.get())
        await theirs.head()
        for server in ("other", "old", "old"):
            await client.call(f"{server}__finish", {"id": "old-linked"})
        await client.call("old__finish", {"id": "unheard-of"})
        for session in (client.session, bystander.session):
            async with connect(gateway.port) as last:
                await last.send(session.delete())
                assert (await last.reply()).status == 204
        told = [message async for message in mine.messages()]
        assert told == [{"jsonrpc": "2.0", "method": COMPLETE, "params": {"elicitationId": "old-linked"}}]
        assert [message async for message in theirs.messages()] == []


async def test_a_modern_client_finds_out_by_itself_and_is_told_nothing(gateway: Gateway) -> None:
    """2026-07-28: the notification and its id are gone; the client tries again."""
    client = await talker(gateway.port, "modern", BOTH)
    asked = (await client.call("old__link")).result
    ((key, question),) = asked["inputRequests"].items()
    assert question["params"]["url"] == "https://example.com/"
    again = {"name": "old__link", "arguments": {}, "requestState": asked["requestState"]}
    reply = await client.ask("tools/call", {**again, "inputResponses": {key: {"action": "accept"}}})
    assert reply.result["resultType"] == "complete"
    assert b"notifications/elicitation" not in reply.body


async def test_a_question_that_its_server_takes_back_is_taken_back_from_a_legacy_client(gateway: Gateway) -> None:
    """basic/utilities/cancellation: either side may cancel its own request."""
    client = await talker(gateway.port, "legacy", {**BOTH, **SEARCH})
    heard: list[Json] = []
    async with connect(gateway.port) as connection:
        await connection.send(client.request("tools/call", {"name": "old__withdraw", "arguments": {}}))
        await connection.head()
        async for message in connection.messages():
            heard.append(message)
            if message.get("method") == "elicitation/create":
                assert client.session is not None
                assert "result" in (await client.session.ask("search/run", {"signal": True}, "signal")).message
    assert kinds(heard) == ["elicitation/create", "notifications/cancelled", "result"]
    assert heard[1]["params"]["requestId"] == heard[0]["id"]
    assert json.loads(heard[-1]["result"]["content"][0]["text"]) == {"went": "on"}


async def test_a_round_whose_question_was_taken_back_ends_with_the_call(gateway: Gateway) -> None:
    """The client that comes back for it is told how the call ended, whatever it answered."""
    client = await talker(gateway.port, "modern", {**BOTH, **SEARCH})
    asked = (await client.call("old__withdraw")).result
    (key,) = asked["inputRequests"]
    assert "result" in (await client.ask("search/run", {"signal": True})).message
    again = {"name": "old__withdraw", "arguments": {}, "requestState": asked["requestState"]}
    ended = (await client.ask("tools/call", {**again, "inputResponses": {key: {"action": "accept"}}})).result
    assert json.loads(ended["content"][0]["text"]) == {"went": "on"}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "data:text/html,x", "http://evil.example/", "https://me:secret@example.com/", "file:///x"],
)
async def test_nobody_is_sent_to_a_page_that_is_not_safe(gateway: Gateway, era: EraName, url: str) -> None:
    """S100: the question is answered in the client's place, and the record says so without the URL."""
    client = await talker(gateway.port, era, BOTH)
    reply = await client.call("old__page", {"url": url})
    assert json.loads(reply.result["content"][0]["text"]) == {"answer": {"action": "cancel"}}
    assert b"elicitation/create" not in reply.body
    notes = [record.get("notes") for record in gateway.records() if record["event"] == "call.end"]
    assert {"asks": "elicitation/create declined: the URL is neither https nor loopback"} in notes


@pytest.mark.parametrize("field", ["password", "apiKey", "otp"])
async def test_a_form_that_asks_for_a_secret_is_flagged_and_says_who_asks(gateway: Gateway, field: str) -> None:
    """S100."""
    client = await talker(gateway.port, "modern", BOTH)
    asked = (await client.call("old__form", {"field": field})).result
    assert asked["_meta"]["dev.mcp-gateway/instance"]["server"] == "old"
    rounds = [record for record in gateway.records() if record["event"] == "call.round"]
    assert {"asks": f"elicitation/create asks for {field}"} in [record.get("notes") for record in rounds]


async def test_a_state_that_is_used_twice_at_once_goes_on_once(gateway: Gateway) -> None:
    """S99: the second request is told of the same end; its server heard one answer, and the log has one end."""
    client = await talker(gateway.port, "modern", BOTH)
    asked = (await client.call("old__form", {"field": "word"})).result
    (key,) = asked["inputRequests"]
    again: Json = {"name": "old__form", "arguments": {"field": "word"}, "requestState": asked["requestState"]}
    answers = [{"inputResponses": {key: {"action": "accept", "content": {"word": word}}}} for word in ("a", "b")]
    replies = await asyncio.gather(*(client.ask("tools/call", again | answer) for answer in answers))
    texts = {reply.result["content"][0]["text"] for reply in replies}
    assert len(texts) == 1
    (start,) = [record for record in gateway.records() if record["event"] == "call.start"][-1:]
    mine = [record["event"] for record in gateway.records() if record.get("call_id") == start["call_id"]]
    assert mine.count("call.end") == 1
