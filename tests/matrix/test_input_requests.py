"""A server's questions in all four cells: whoever asks and whoever answers, each in the words of its own era."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import wire
from tests.kit.clients import Json, LegacySession, ask, connect, modern
from tests.kit.field import scripted
from tests.kit.gateway import Gateway, eventually, serving

ELICITATION: Json = {"elicitation": {}}
ACCEPTED: Json = {"action": "accept", "content": {"word": "yes"}}
SERVERS = ("new", "old")
"""A server of either era; both know the tool ``ask``."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose servers may ask, and one that may not."""
    servers = {
        "new": scripted("--era", "modern", "--name", "new", asks=["elicitation"]),
        "old": scripted("--era", "legacy", "--name", "old", asks=["elicitation"]),
        "mute": scripted("--era", "modern", "--name", "mute"),
    }
    limits = [{"name": "all", "clients": ["anonymous"], "allow": ["*/*"], "limits": [{"rate": "60/minute"}]}]
    folder = tmp_path_factory.mktemp("asking")
    with serving(folder, {"servers": servers, "policies": limits}) as running:
        running.await_servers(*servers)
        yield running


def asks(name: str, **members: object) -> Json:
    """Return the params of a call of ``ask`` by a client that can be asked."""
    meta = wire.modern_meta(ELICITATION)
    return {"name": f"{name}__ask", "arguments": {}, "_meta": meta, **members}


def heard(result: Json) -> Json:
    """Return what the server says it was answered."""
    found: Json = json.loads(result["content"][0]["text"])
    return found


def rounds_of(gateway: Gateway, server: str) -> list[list[str]]:
    """Return the events of each finished call of a server, call by call."""
    by_call: dict[str, list[str]] = {}
    for record in gateway.records():
        if record.get("server") == server and str(record["event"]).startswith("call."):
            by_call.setdefault(record["call_id"], []).append(record["event"])
    return list(by_call.values())


@pytest.mark.parametrize("server", SERVERS)
async def test_a_modern_client_comes_back_with_the_answer(gateway: Gateway, server: str) -> None:
    """S98, G137: the state is the gateway's own, and one call has one id in the log through all of its rounds."""
    first = (await ask(gateway.port, modern("tools/call", asks(server)))).result
    assert first["resultType"] == "input_required"
    [(key, question)] = first["inputRequests"].items()
    assert question["method"] == "elicitation/create"
    assert question["params"]["message"] == "Which word?"
    assert f"{server}-state" not in first["requestState"]
    assert first["_meta"]["dev.mcp-gateway/instance"]["server"] == server

    again = asks(server, inputResponses={key: ACCEPTED}, requestState=first["requestState"])
    last = (await ask(gateway.port, modern("tools/call", again, identifier=2))).result

    assert last["resultType"] == "complete"
    assert heard(last)["answer"] == ACCEPTED
    if server == "new":
        assert heard(last)["state"] == "new-state"
    whole = ["call.start", "call.round", "call.round", "call.end"]
    eventually(lambda: whole in rounds_of(gateway, server), "the call is recorded as one")


@pytest.mark.parametrize("server", SERVERS)
async def test_a_legacy_client_is_asked_on_the_stream_of_its_call(gateway: Gateway, server: str) -> None:
    """S96: the question goes to the client whose call it is, on that call's stream."""
    session = LegacySession(gateway.port)
    await session.begin(ELICITATION)
    async with connect(gateway.port) as connection:
        await connection.send(session.request("tools/call", {"name": f"{server}__ask"}, identifier=7))
        status, _ = await connection.head()
        assert status == 200
        messages = connection.messages()
        question = await anext(messages)
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "Which word?"
        assert question["params"]["_meta"]["dev.mcp-gateway/instance"] == {"server": server}
        reply = await ask(gateway.port, session.response(question["id"], ACCEPTED))
        assert (reply.status, reply.body) == (202, b"")
        last = await anext(messages)
    assert last["id"] == 7
    assert "resultType" not in last["result"]
    assert heard(last["result"])["answer"] == ACCEPTED
    eventually(lambda: any("call.round" in events for events in rounds_of(gateway, server)), "the round is recorded")


async def test_an_error_of_a_legacy_client_reaches_a_legacy_server_as_it_is(gateway: Gateway) -> None:
    """2025-11-25 client/elicitation §Error Handling; a modern server, which knows no such answer, hears of a cancel."""
    error = {"code": -1, "message": "User rejected", "data": {"k": [1]}}
    said = {}
    for server in SERVERS:
        session = LegacySession(gateway.port)
        await session.begin(ELICITATION)
        async with connect(gateway.port) as connection:
            await connection.send(session.request("tools/call", {"name": f"{server}__ask"}))
            await connection.head()
            messages = connection.messages()
            question = await anext(messages)
            assert (await ask(gateway.port, session.response(question["id"], error=error))).status == 202
            said[server] = heard((await anext(messages))["result"])
    assert said["old"] == {"answer": None, "error": error}
    assert said["new"]["answer"] == {"action": "cancel"}


@pytest.mark.parametrize("server", SERVERS)
async def test_the_answer_of_another_session_counts_for_nothing(gateway: Gateway, server: str) -> None:
    """G063: what another client answers under the same id reaches no server."""
    session, stranger = LegacySession(gateway.port), LegacySession(gateway.port)
    await session.begin(ELICITATION)
    await stranger.begin(ELICITATION)
    async with connect(gateway.port) as connection:
        await connection.send(session.request("tools/call", {"name": f"{server}__ask"}))
        await connection.head()
        messages = connection.messages()
        question = await anext(messages)
        stolen = {"action": "accept", "content": {"word": "stolen"}}
        assert (await ask(gateway.port, stranger.response(question["id"], stolen))).status == 202
        await ask(gateway.port, session.response(question["id"], ACCEPTED))
        last = await anext(messages)
    assert heard(last["result"])["answer"] == ACCEPTED


async def test_a_client_that_declares_nothing_is_asked_nothing(gateway: Gateway) -> None:
    """S97: nothing of the question reaches the client; what the server did without asking is its own fault."""
    plain = {"name": "new__ask", "arguments": {}}
    refused = (await ask(gateway.port, modern("tools/call", plain))).refusal
    assert refused["reason"] == "protocol_error"
    declined = (await ask(gateway.port, modern("tools/call", {**plain, "name": "old__ask"}))).result
    assert declined["resultType"] == "complete"
    assert "accept" not in declined["content"][0]["text"]


async def test_a_server_that_may_not_ask_is_denied(gateway: Gateway) -> None:
    """S97."""
    assert (await ask(gateway.port, modern("tools/call", asks("mute")))).refusal["reason"] == "denied"


@pytest.mark.parametrize("server", SERVERS)
async def test_a_state_is_good_for_its_own_request_alone(gateway: Gateway, server: str) -> None:
    """S98."""
    first = (await ask(gateway.port, modern("tools/call", asks(server)))).result
    state = first["requestState"]
    other = "old" if server == "new" else "new"
    for params in (
        asks(other, requestState=state),
        asks(server, requestState=state, arguments={"more": 1}),
        asks(server, requestState=state[:-1] + ("A" if state[-1] != "A" else "B")),
        asks(server, requestState=7),
    ):
        reply = await ask(gateway.port, modern("tools/call", params))
        assert (reply.status, reply.code) == (400, -32602)
        assert reply.message["error"]["message"] == "Invalid or expired requestState"
    rejected = [record for record in gateway.records() if record["event"] == "security.state_rejected"]
    assert rejected
    key = next(iter(first["inputRequests"]))
    again = asks(server, inputResponses={key: ACCEPTED}, requestState=state)
    assert (await ask(gateway.port, modern("tools/call", again))).result["resultType"] == "complete"


async def test_answers_of_no_use_are_asked_for_again(gateway: Gateway) -> None:
    first = (await ask(gateway.port, modern("tools/call", asks("new", inputResponses={"word": 7})))).result
    assert first["resultType"] == "input_required"
    for given in ({}, {"other": ACCEPTED}, {"word": 7}, {"word": None}):
        again = asks("new", inputResponses=given, requestState=first["requestState"])
        first = (await ask(gateway.port, modern("tools/call", again))).result
        assert first["resultType"] == "input_required"
        assert "word" in first["inputRequests"]


@pytest.mark.parametrize("server", SERVERS)
async def test_a_legacy_client_that_cancels_while_it_is_asked_frees_the_server(gateway: Gateway, server: str) -> None:
    """The question is taken back, the call ends as cancelled, and the server serves the next one."""
    session = LegacySession(gateway.port)
    await session.begin(ELICITATION)
    async with connect(gateway.port) as connection:
        await connection.send(session.request("tools/call", {"name": f"{server}__ask"}, identifier=3))
        await connection.head()
        messages = connection.messages()
        question = await anext(messages)
        await ask(gateway.port, session.notification("notifications/cancelled", {"requestId": 3}))
        taken_back = [message async for message in messages]
    assert [message["method"] for message in taken_back] == ["notifications/cancelled"]
    assert taken_back[0]["params"]["requestId"] == question["id"]
    assert (await session.ask("tools/call", {"name": f"{server}__echo"}, 4)).result["structuredContent"] == {}


async def test_a_client_that_never_comes_back_has_its_held_call_ended_and_accounted_for(tmp_path: Path) -> None:
    """S157: the call is cancelled at its server when the time for people is over, and the log says how it ended."""
    servers = {"old": scripted("--era", "legacy", "--name", "old", asks=["elicitation"], timeouts={"asks": "1s"})}
    with serving(tmp_path, {"servers": servers}) as gateway:
        gateway.await_servers("old")
        first = (await ask(gateway.port, modern("tools/call", asks("old")))).result
        assert first["resultType"] == "input_required"
        whole = ["call.start", "call.round", "call.end"]
        eventually(lambda: whole in rounds_of(gateway, "old"), "the call is closed")
        [end] = [record for record in gateway.records() if record["event"] == "call.end"]
    assert end["outcome"]["status"] == "timeout"
    assert end["outcome"]["detail"] == "the client never answered"
    assert end["decision"]["action"] == "allow"


async def test_a_client_that_comes_back_to_a_call_that_has_ended_is_told_and_the_log_has_one_end(
    tmp_path: Path,
) -> None:
    """S157: the end is in the log when it happens; who comes for it afterwards, or twice, is a further round."""
    servers = {"old": scripted("--era", "legacy", "--name", "old", asks=["elicitation"])}
    with serving(tmp_path, {"servers": servers}) as gateway:
        gateway.await_servers("old")
        first = (await ask(gateway.port, modern("tools/call", asks("old")))).result
        [(key, _)] = first["inputRequests"].items()
        [asked] = [record for record in gateway.records() if record["event"] == "call.round"]
        process = asked["downstream"]["instance"].removeprefix("pid:").partition("#")[0]
        os.kill(int(process), signal.SIGKILL)
        whole = ["call.start", "call.round", "call.end"]
        eventually(lambda: whole in rounds_of(gateway, "old"), "the call is closed")
        again = asks("old", inputResponses={key: ACCEPTED}, requestState=first["requestState"])
        for identifier in (2, 3):
            late = await ask(gateway.port, modern("tools/call", again, identifier=identifier))
            assert (late.refusal["reason"], late.refusal["mayHaveRun"]) == ("unavailable", True)
        assert rounds_of(gateway, "old") == [[*whole, *["call.round"] * 4]]
        [end] = [record for record in gateway.records() if record["event"] == "call.end"]
    assert end["outcome"]["status"] == "unavailable"


async def test_a_client_with_an_open_question_is_served_its_other_calls(gateway: Gateway) -> None:
    """A person who takes time holds up the call that asked, and no other of the same caller."""
    first = (await ask(gateway.port, modern("tools/call", asks("old")))).result
    other = (await ask(gateway.port, modern("tools/call", asks("old"), identifier=2))).result
    answers = []
    for asked in (other, first):
        [(key, _)] = asked["inputRequests"].items()
        again = asks("old", inputResponses={key: ACCEPTED}, requestState=asked["requestState"])
        answers.append((await ask(gateway.port, modern("tools/call", again, identifier=3))).result)
    assert [heard(each)["answer"] for each in answers] == [ACCEPTED] * 2
