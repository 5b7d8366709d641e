"""Questions to a client of the legacy era: what goes out on its stream, and which answer counts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.endpoint.legacy import asks as module
from gateway.endpoint.legacy.asks import LONGEST, MAX_OPEN, Asks, asker
from gateway.model.call import Call, Caller
from gateway.model.exchange import Exchange, InstanceFacts
from gateway.model.outcome import Complete, Outcome
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject, Response
from gateway.protocol.rawjson import Object, Raw, Value
from gateway.protocol.versions import Era
from tests.kit.calls import call
from tests.kit.clients import LegacySession, ask, connect
from tests.kit.endpoint import moment, serving

LEGACY = call(caller=Caller(Era.LEGACY, "2025-11-25", session="s"))
YES: Object = {"action": "accept", "content": {}}


def question(method: str = "elicitation/create", **params: Value) -> Raw:
    return rawjson.raw({"method": method, "params": params} if params else {"method": method})


class Stream:
    """The messages sent to a client; each is handed to ``heard`` a moment later."""

    def __init__(self, heard: Callable[[dict[str, Any]], object] = lambda message: None) -> None:
        self.sent: list[dict[str, Any]] = []
        self.first = asyncio.Event()
        self._heard = heard

    def __call__(self, data: bytes) -> None:
        self.sent.append(json.loads(data))
        self.first.set()
        asyncio.get_running_loop().call_soon(self._heard, self.sent[-1])


def answering(asks: Asks, result: Object | None, error: Object | None = None) -> Stream:
    return Stream(lambda message: asks.answer(Response(message["id"], result, error)))


async def sent(stream: Stream) -> None:
    """Wait for the first question."""
    async with asyncio.timeout(5):
        await stream.first.wait()


async def asked(asks: Asks, send: Stream, questions: dict[str, Raw], of: Call = LEGACY) -> Object:
    exchange = Exchange(instance=InstanceFacts("notes", "stdio", "pid:1", "f00d"))
    async with asyncio.timeout(5):
        return await asker(asks, send, of, exchange)(questions)


async def test_every_question_of_a_round_goes_out_under_an_id_of_its_own() -> None:
    asks = Asks()
    send = answering(asks, YES)
    answers = await asked(asks, send, {"a": question(message="one"), "b": question(message="two")})
    assert answers == {"a": YES, "b": YES}
    assert [each["method"] for each in send.sent] == ["elicitation/create"] * 2
    assert [each["params"]["message"] for each in send.sent] == ["one", "two"]
    assert len({each["id"] for each in send.sent}) == 2
    assert len(asks) == 0


async def test_the_client_is_told_which_server_asks() -> None:
    """S100."""
    asks = Asks()
    send = answering(asks, {"roots": []})
    assert await asked(asks, send, {"a": question("roots/list")}) == {"a": {"roots": []}}
    assert send.sent[0]["params"] == {"_meta": {"dev.mcp-gateway/instance": {"server": "notes"}}}


async def test_url_mode_gets_the_id_it_has_in_this_era() -> None:
    asks = Asks()
    send = answering(asks, YES)
    await asked(asks, send, {"a": question(mode="url", message="m", url="https://a.example/")})
    await asked(asks, send, {"a": question(mode="url", message="m", url="https://a.example/", elicitationId="own")})
    minted, kept = (each["params"]["elicitationId"] for each in send.sent)
    assert len(minted) == 36
    assert kept == "own"


@pytest.mark.parametrize(
    ("method", "instead"), [("elicitation/create", {"action": "cancel"}), ("sampling/createMessage", None)]
)
async def test_an_error_is_a_refusal_to_answer(method: str, instead: Value) -> None:
    asks = Asks()
    send = answering(asks, None, {"code": -1, "message": "no"})
    assert await asked(asks, send, {"a": question(method, x=1)}) == {"a": instead}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"code": -1, "message": "no", "data": [1]}, ErrorObject(-1, "no", rawjson.raw([1]))),
        ({"code": 0, "message": ""}, ErrorObject(0, "")),
        ({"code": True, "message": "no"}, None),
        ({"code": -1}, None),
        ({"code": "-1", "message": "no"}, None),
    ],
)
async def test_a_clients_error_is_kept_for_a_server_that_understands_it(said: Object, kept: ErrorObject | None) -> None:
    asks, exchange = Asks(), Exchange()
    async with asyncio.timeout(5):
        await asker(asks, answering(asks, None, said), LEGACY, exchange)({"a": question(x=1)})
    assert exchange.refusals == ({} if kept is None else {"a": kept})


async def test_an_answer_to_nothing_is_dropped() -> None:
    """S96, G062."""
    asks = Asks()
    assert not asks.answer(Response("ask-1", {}, None))
    send = answering(asks, YES)
    await asked(asks, send, {"a": question(x=1)})
    assert not asks.answer(Response(send.sent[0]["id"], {}, None))


async def test_an_id_of_another_type_is_another_id() -> None:
    asks, send = Asks(), Stream()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(asked(asks, send, {"a": question(x=1)}))
        await sent(send)
        number = send.sent[0]["id"]
        assert not asks.answer(Response(int(number.removeprefix("ask-")), YES, None))
        assert asks.answer(Response(number, YES, None))
    assert task.result() == {"a": YES}


async def test_a_call_that_ends_first_takes_its_questions_back() -> None:
    asks, send = Asks(), Stream()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(asked(asks, send, {"a": question(x=1)}))
        await sent(send)
        task.cancel()
    told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": send.sent[0]["id"]}}
    assert send.sent[1:] == [told]
    assert len(asks) == 0


async def test_a_question_too_many_or_too_long_is_refused_in_the_clients_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asks = Asks()
    assert await asked(asks, Stream(), {"a": question(message="x" * LONGEST)}) == {"a": {"action": "cancel"}}
    monkeypatch.setattr(module, "MAX_OPEN", 1)
    send = Stream(lambda message: asks.answer(Response(message["id"], YES, None)))
    assert await asked(asks, send, {"a": question(x=1), "b": question(x=2)}) == {"a": YES, "b": {"action": "cancel"}}
    assert MAX_OPEN == 256


async def test_over_http_the_answer_of_the_asked_session_counts_and_no_other() -> None:
    """G063: the same id from another session reaches nobody."""
    now = moment()

    async def chain(call: Call, exchange: Exchange) -> Outcome:
        assert exchange.ask is not None
        return Complete({"content": rawjson.raw(await exchange.ask({"k": question(message="m")}))})

    now.chain = chain
    async with serving(now) as site, connect(site.port) as connection:
        mine, other = LegacySession(site.port), LegacySession(site.port)
        await mine.begin()
        await other.begin()
        await connection.send(mine.request("tools/call", {"name": "notes__add"}))
        await connection.head()
        messages = connection.messages()
        identifier = (await anext(messages))["id"]
        assert (await ask(site.port, other.response(identifier, {"action": "stolen"}))).status == 202
        assert (await ask(site.port, mine.response(identifier, YES))).status == 202
        assert (await anext(messages))["result"]["content"] == {"k": YES}


async def test_a_client_that_reads_no_streams_is_asked_nothing() -> None:
    now = moment()

    async def chain(call: Call, exchange: Exchange) -> Outcome:
        return Complete({"content": rawjson.raw(exchange.ask is None)})

    now.chain = chain
    async with serving(now) as site:
        session = LegacySession(site.port)
        await session.begin()
        plain = replace(session, headers=[("Accept", "application/json")])
        assert (await plain.ask("tools/call", {"name": "notes__add"})).result["content"] is True


async def test_a_question_that_is_taken_back_ends_for_the_client_and_the_others_wait_on() -> None:
    asks, send, exchange = Asks(), Stream(), Exchange()
    pages: list[str] = []
    page = question(mode="url", url="https://example.com/", elicitationId="p1")
    ask = asker(asks, send, LEGACY, exchange, pages.append)
    async with asyncio.timeout(5):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_answers(ask({"a": page, "b": question(x=1), "c": question(x=2)})))
            await sent(send)
            exchange.withdraw("a")
            exchange.withdraw("a")
            exchange.withdraw("unknown")
            for message in send.sent[1:3]:
                asks.answer(Response(message["id"], {"action": "accept"}, None))
    assert task.result() == {"a": {"action": "cancel"}, "b": {"action": "accept"}, "c": {"action": "accept"}}
    told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": send.sent[0]["id"]}}
    assert send.sent[3:] == [told]
    assert pages == ["p1"]
    assert len(asks) == 0


async def test_a_question_that_was_taken_back_before_it_was_asked_is_not_asked() -> None:
    asks, send, exchange = Asks(), Stream(), Exchange()
    ask = asker(asks, send, LEGACY, exchange)
    exchange.withdraw("a")
    assert await ask({"a": question(x=1)}) == {"a": None}
    assert send.sent == []


async def _answers(asking: Awaitable[Object]) -> Object:
    return await asking
