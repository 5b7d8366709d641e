"""Answers matched by id on a channel that carries everything; over real channels in test_stdio and test_sse."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.downstream.transport import Answer, Later, Owed, Reply, Request
from gateway.downstream.waitlist import Waiting, Waitlist
from gateway.errors import DownstreamError, Reason
from gateway.protocol import jsonrpc, rawjson
from gateway.protocol.jsonrpc import Id
from gateway.protocol.rawjson import Members


class Channel:
    """A waitlist, what it sent, and what it handed up."""

    def __init__(self) -> None:
        self.sent: list[object] = []
        self.aside: list[object] = []
        self.heard: list[tuple[str, str]] = []
        self.later: Later | None = None
        self.owed = Owed()
        self.list = Waitlist(self.owed, lambda data: self.aside.append(json.loads(data)))
        self.list.begin(self)

    def notification(self, method: str, params: Members) -> None:
        self.heard.append(("notification", method))

    def ask(self, method: str, params: Members) -> Answer | Later:
        self.heard.append(("ask", method))
        return self.later if self.later is not None else {}

    def violation(self, kind: str, detail: str) -> None:
        self.heard.append((kind, detail))

    def closed(self, reason: str) -> None:
        self.heard.append(("closed", reason))

    async def send(self, data: bytes, waiting: Waiting) -> None:
        waiting.departure.leave()
        self.sent.append(json.loads(data))

    def start(self, request: Request) -> asyncio.Task[Reply]:
        return asyncio.get_running_loop().create_task(self.list.request(request, self.send))

    def say(self, **message: object) -> None:
        self.list.take(jsonrpc.split(json.dumps({"jsonrpc": "2.0", **message}).encode()))


async def test_who_asks_is_told_the_id_on_the_wire_before_anything_is_sent() -> None:
    channel = Channel()
    told: list[tuple[Id, int]] = []
    asked = channel.start(Request("a", None, on_id=lambda identifier: told.append((identifier, len(channel.sent)))))
    await asyncio.sleep(0)
    channel.say(id=1, result={})
    await asked
    assert told == [(1, 0)]


async def test_answers_find_their_requests_in_any_order_and_once() -> None:
    channel, told = Channel(), []
    one = channel.start(Request("a", {"n": 1}, on_answer=lambda: told.append("a")))
    two = channel.start(Request("b", None))
    await asyncio.sleep(0)
    assert channel.sent == [
        {"jsonrpc": "2.0", "id": 1, "method": "a", "params": {"n": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "b"},
    ]
    channel.say(id=2, error={"code": -1, "message": "no"})
    channel.say(id=1, result={"x": 1})
    channel.say(id=1, result={"x": 2})
    assert told == ["a"]
    assert (await one).result == {"x": rawjson.raw(1)}
    assert (await two).result is None
    channel.say(id=2, result={})
    channel.say(id="2", result={})
    assert channel.heard == [("unknown_id", "1"), ("unknown_id", "2"), ("unknown_id", "2")]


async def test_what_has_not_left_cannot_have_an_answer() -> None:
    channel, gate = Channel(), asyncio.Event()

    async def send(data: bytes, waiting: Waiting) -> None:
        await gate.wait()

    task = asyncio.get_running_loop().create_task(channel.list.request(Request("a", None), send))
    await asyncio.sleep(0)
    channel.say(id=1, result={})
    assert channel.heard == [("unknown_id", "1")]
    channel.list.fail(DownstreamError(Reason.UNAVAILABLE, "over", may_have_run=True))
    gate.set()
    with pytest.raises(DownstreamError) as caught:
        await task
    assert not caught.value.may_have_run


async def test_whoever_stops_waiting_cancels_in_the_words_of_who_asked_but_not_what_is_answered() -> None:
    channel = Channel()
    request = Request("a", None, timeout=0.02, cancel=lambda identifier: ("cancel", {"id": identifier}))
    with pytest.raises(DownstreamError) as caught:
        await channel.start(request)
    assert (caught.value.reason, caught.value.may_have_run) == (Reason.TIMEOUT, True)
    task = channel.start(request)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    task = channel.start(request)
    await asyncio.sleep(0)
    channel.say(id=3, result={})
    task.cancel()
    await asyncio.wait([task])
    assert channel.aside == [
        {"jsonrpc": "2.0", "method": "cancel", "params": {"id": identifier}} for identifier in (1, 2)
    ]


async def test_a_request_of_the_server_is_answered_aside_at_once_or_later_or_not_at_all() -> None:
    channel = Channel()
    channel.say(id="now", method="ping")
    for name in ("later", "never"):
        channel.later = asyncio.get_running_loop().create_future()
        channel.say(id=name, method="ask")
        if name == "later":
            channel.later.set_result({"done": rawjson.raw(True)})
        else:
            channel.owed.withdraw(name)
        await asyncio.sleep(0)
    channel.say(method="note")
    assert channel.aside == [
        {"jsonrpc": "2.0", "id": "now", "result": {}},
        {"jsonrpc": "2.0", "id": "later", "result": {"done": True}},
    ]
    assert channel.heard == [("ask", "ping"), ("ask", "ask"), ("ask", "ask"), ("notification", "note")]


async def test_what_is_no_message_is_counted_and_a_request_that_it_names_learns_of_it() -> None:
    channel = Channel()
    task = channel.start(Request("a", None))
    await asyncio.sleep(0)
    assert not channel.list.garbled("bad_json", b"\x1b[31m{", None)
    assert channel.list.garbled("not_jsonrpc", b"{}", 1)
    assert not channel.list.garbled("not_jsonrpc", b"{}", 1)
    with pytest.raises(DownstreamError) as caught:
        await task
    assert (caught.value.reason, caught.value.may_have_run) == (Reason.PROTOCOL_ERROR, True)
    assert channel.heard[0] == ("bad_json", "\\x1b[31m{")


async def test_an_end_fails_all_that_wait_and_is_told_once() -> None:
    channel = Channel()
    task = channel.start(Request("a", None))
    await asyncio.sleep(0)
    channel.list.finish(DownstreamError(Reason.UNAVAILABLE, "it ended"))
    channel.list.finish(DownstreamError(Reason.UNAVAILABLE, "it ended again"))
    channel.say(id=1, result={})
    channel.say(method="note")
    with pytest.raises(DownstreamError) as caught:
        await task
    assert (caught.value.message, caught.value.may_have_run) == ("it ended", True)
    assert channel.heard == [("closed", "it ended")]
    assert channel.list.end is not None
    assert channel.list.end.message == "it ended"
