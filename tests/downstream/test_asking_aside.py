"""Questions that an HTTP server of the legacy era asks on the stream that belongs to no call (S96).

Many do: an official server object that is not told which call it asks for asks there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import pytest

from gateway.downstream import legacy
from gateway.downstream.connection import Connection
from gateway.downstream.handshake import handshake
from gateway.downstream.legacy import Legacy
from gateway.downstream.parking import Asking
from gateway.downstream.setup import Setup
from gateway.downstream.transport import Reply
from gateway.model.call import Call, Caller
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, InputRequired, Outcome
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era
from tests.kit.transport import LEGACY, WAIT, FakeHttp, Heard, Sent, but, call, peer, reply, server

ELICIT = "elicitation/create"
DECLARES: Object = {"elicitation": {"form": {}}}
CANCEL = {"action": rawjson.raw("cancel")}


class Inbox:
    """Hands what the transport says straight to the dialect."""

    def __init__(self, dialect: Legacy) -> None:
        self.notification = dialect.notification
        self.ask = dialect.ask

    def violation(self, kind: str, detail: str) -> None:
        raise AssertionError(kind)

    def closed(self, reason: str) -> None:
        raise AssertionError(reason)


class Server:
    """A server whose calls wait until the test ends them; ``stream`` is its answer to GET."""

    def __init__(self, stream: Callable[[Mapping[str, str]], Awaitable[int]] | None = None) -> None:
        self.ends = asyncio.Semaphore(0)
        self.transport = FakeHttp(but(LEGACY, {"tools/call": self._call, "ping": lambda sent: reply()}), stream)

    async def _call(self, sent: Sent) -> Reply:
        await self.ends.acquire()
        return reply(content=[])

    def end_call(self) -> None:
        """Let one call end."""
        self.ends.release()


async def connect(asker: Server) -> Legacy:
    made = peer(asker.transport, Heard(), asks=["elicitation"])
    dialect = Legacy(made, await handshake(made, 5, DECLARES), Asking(DECLARES))
    asker.transport.inbox = Inbox(dialect)
    return dialect


@asynccontextmanager
async def calling(dialect: Legacy, made: Call | None = None) -> AsyncIterator[asyncio.Task[Outcome]]:
    """Have a call under way for a block."""
    made = made or call(caller=Caller(Era.MODERN, "2026-07-28", capabilities=DECLARES))
    task = asyncio.get_running_loop().create_task(dialect.call(made, Exchange()))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_the_only_call_in_flight_is_asked() -> None:
    asker = Server()
    dialect = await connect(asker)
    async with asyncio.timeout(WAIT), calling(dialect) as task:
        await asker.transport.reached("tools/call")

        answer = asker.transport.ask(ELICIT, message="sure?")

        assert isinstance(answer, asyncio.Future)
        outcome = await task
        assert isinstance(outcome, InputRequired)
        assert [rawjson.decode_value(each) for each in outcome.requests.values()] == [
            {"method": ELICIT, "params": {"message": "sure?"}}
        ]
    await dialect.aclose()


async def test_without_a_call_nobody_is_asked() -> None:
    asker = Server()
    dialect = await connect(asker)

    assert asker.transport.ask(ELICIT, message="sure?") == CANCEL

    await dialect.aclose()


async def test_of_two_calls_none_is_asked_and_from_then_on_they_take_turns() -> None:
    asker = Server()
    dialect = await connect(asker)
    async with asyncio.timeout(WAIT), calling(dialect) as one, calling(dialect) as other:
        await asker.transport.reached("tools/call", 2)
        assert asker.transport.ask(ELICIT, message="whose?") == CANCEL
        asker.end_call()
        asker.end_call()
        assert isinstance(await one, Complete)
        assert isinstance(await other, Complete)

    async with asyncio.timeout(WAIT), calling(dialect) as third, calling(dialect) as fourth:
        await asker.transport.reached("tools/call", 3)
        asker.end_call()
        assert isinstance(await third, Complete)
        await asker.transport.reached("tools/call", 4)
        assert isinstance(asker.transport.ask(ELICIT, message="sure?"), asyncio.Future)
        assert isinstance(await fourth, InputRequired)
    await dialect.aclose()


async def test_a_question_after_a_cancelled_call_is_not_taken_for_the_next_ones() -> None:
    asker = Server()
    dialect = await connect(asker)
    async with asyncio.timeout(WAIT), calling(dialect):
        await asker.transport.reached("tools/call")

    async with asyncio.timeout(WAIT), calling(dialect) as task:
        await asker.transport.reached("tools/call", 2)
        assert asker.transport.ask(ELICIT, message="for the cancelled one") == CANCEL
        asker.end_call()
        assert isinstance(await task, Complete)

    async with asyncio.timeout(WAIT), calling(dialect) as task:
        await asker.transport.reached("tools/call", 3)
        # It has answered a ping since: what it asks now is this call's.
        assert asker.transport.methods()[-2:] == ["ping", "tools/call"]
        assert isinstance(asker.transport.ask(ELICIT, message="sure?"), asyncio.Future)
        assert isinstance(await task, InputRequired)
    await dialect.aclose()


async def test_a_call_waits_until_questions_can_be_heard() -> None:
    agreed = asyncio.Event()

    async def stream(headers: Mapping[str, str]) -> int:
        await asyncio.Event().wait()
        return 200

    asker = Server(stream)
    opening = asker.transport.stream

    async def slowly(headers: Mapping[str, str], on_open: Callable[[], None]) -> int:
        await agreed.wait()
        return await opening(headers, on_open)

    asker.transport.stream = slowly  # type: ignore[method-assign]  # reason: this server takes its time.
    dialect = await connect(asker)
    listening = asyncio.get_running_loop().create_task(dialect.listen())
    async with asyncio.timeout(WAIT), calling(dialect) as task:
        # Far more turns of the loop than a call needs to leave.
        for _ in range(100):
            await asyncio.sleep(0)
        assert asker.transport.of("tools/call") == []

        agreed.set()

        await asker.transport.reached("tools/call")
        asker.end_call()
        assert isinstance(await task, Complete)
    listening.cancel()
    await asyncio.wait({listening})
    await dialect.aclose()


@pytest.mark.parametrize("answer", [405, None])
async def test_a_server_without_a_stream_or_without_an_answer_is_not_waited_for(
    answer: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(legacy, "STREAM_WAIT", 0.05)
    asker = Server()

    async def stream(headers: Mapping[str, str], on_open: Callable[[], None]) -> int:
        if answer is None:
            await asyncio.Event().wait()
        return answer or 405

    asker.transport.stream = stream  # type: ignore[method-assign]  # reason: it never agrees.
    dialect = await connect(asker)
    listening = asyncio.get_running_loop().create_task(dialect.listen())
    async with asyncio.timeout(WAIT), calling(dialect) as task:
        await asker.transport.reached("tools/call")
        asker.end_call()
        assert isinstance(await task, Complete)
    listening.cancel()
    await asyncio.wait({listening})
    await dialect.aclose()


@pytest.mark.parametrize(("declares", "streams"), [(DECLARES, 1), ({}, 0)])
async def test_only_a_connection_whose_server_may_ask_has_the_stream(declares: Object, streams: int) -> None:
    made = Server().transport
    setup = Setup("a", server(url="http://a", protocol="legacy"), lambda name, config: made, asking=Asking(declares))
    connection = Connection(setup)
    await connection.open()
    # A stream would be asked for in the first turn of the loop.
    await asyncio.sleep(0)

    assert len(made.streams) == streams

    await connection.aclose()
