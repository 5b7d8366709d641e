"""What both HTTP transports share; how each answers is in test_http and test_sse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.downstream import remote
from gateway.downstream.remote import Remote
from gateway.downstream.transport import Answer, Later, Request
from gateway.errors import DownstreamError, Reason
from gateway.protocol.rawjson import Members
from tests.kit.http_server import Exchange, serving
from tests.kit.processes import eventually
from tests.kit.transport import server


class Inbox:
    """Notes what a transport hands up."""

    def __init__(self) -> None:
        self.violations: list[tuple[str, str]] = []

    def notification(self, method: str, params: Members) -> None:
        raise AssertionError(method)

    def ask(self, method: str, params: Members) -> Answer | Later:
        raise AssertionError(method)

    def violation(self, kind: str, detail: str) -> None:
        self.violations.append((kind, detail))

    def closed(self, reason: str) -> None:
        raise AssertionError(reason)


class Taker:
    """A server that takes POSTs and answers with a status, once it is let."""

    def __init__(self, status: int = 202) -> None:
        self.status = status
        self.ready = asyncio.Event()
        self.bodies: list[bytes] = []

    async def script(self, exchange: Exchange) -> None:
        self.bodies.append(exchange.body)
        await self.ready.wait()
        await exchange.answer(self.status)


@asynccontextmanager
async def reaching(taker: Taker) -> AsyncIterator[tuple[Remote, Inbox]]:
    async with serving(taker.script) as http:
        made, inbox = Remote("a", server(url=http.url), generation=3), Inbox()
        made._prepare()
        made._inbox = inbox
        try:
            yield made, inbox
        finally:
            taker.ready.set()
            await made.aclose()


async def test_a_conversation_has_a_name_and_no_last_words() -> None:
    made = Remote("a", server(url="http://127.0.0.1:1"), generation=3)
    assert (made.instance, made.last_words, made.key_digest) == ("http#3", "", "")


async def test_a_notification_is_accepted_or_refused_with_the_status() -> None:
    taker = Taker()
    taker.ready.set()
    async with reaching(taker) as (made, _):
        await made.notify(Request("notifications/x", {"n": 1}))
        assert taker.bodies == [b'{"jsonrpc":"2.0","method":"notifications/x","params":{"n":1}}']
        taker.status = 500
        with pytest.raises(DownstreamError) as caught:
            await made.notify(Request("notifications/x", None))
    assert (caught.value.reason, caught.value.may_have_run) == (Reason.UNAVAILABLE, True)
    assert "status 500" in caught.value.message


async def test_a_notification_that_is_not_answered_has_an_end() -> None:
    async with reaching(Taker()) as (made, _):
        with pytest.raises(DownstreamError) as caught:
            await made.notify(Request("notifications/x", None, timeout=0.05))
    assert (caught.value.reason, caught.value.may_have_run) == (Reason.TIMEOUT, True)


async def test_only_so_much_goes_on_that_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_ASIDE", 2)
    taker = Taker()
    async with reaching(taker) as (made, inbox):
        for number in range(3):
            made._aside(str(number).encode(), {})
        assert inbox.violations == [("answer_dropped", "too many at once")]
        await eventually(lambda: len(taker.bodies) == 2)
        taker.ready.set()
        await eventually(lambda: made._has_place())
        made._aside(b"3", {})
        await eventually(lambda: len(taker.bodies) == 3)


async def test_nothing_is_sent_once_it_is_closed() -> None:
    taker = Taker()
    async with reaching(taker) as (made, inbox):
        await made.aclose()
        made._aside(b"0", {})
        with pytest.raises(DownstreamError):
            await made.notify(Request("notifications/x", None))
        assert (taker.bodies, inbox.violations) == ([], [])
