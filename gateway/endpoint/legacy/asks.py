"""A server's questions to a client that shook hands: requests on the call's own stream, answered by other POSTs.

Answers count only in the session that was asked, under the id given out with the question (S96, G062, G063). Knows no
server and no pipeline: questions come in by key, answers go back by key.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.endpoint import fit
from gateway.endpoint.legacy.question_span import followed
from gateway.model.call import Call
from gateway.model.exchange import Ask, Exchange
from gateway.protocol import jsonrpc, methods, rawjson
from gateway.protocol.jsonrpc import ErrorObject, Id, Response
from gateway.protocol.rawjson import Members, Object, Raw, Value
from gateway.replicas.identity import is_replica_id
from gateway.telemetry.spans import OFF, Tracer

MAX_OPEN: Final = 256
"""Questions of one session that may wait for answers at once; one more is refused in the client's place."""

LONGEST: Final = 200 * 1024
"""Bytes of a question: what a stream can hold with room for the rest. A longer one is refused in its place too."""

Send: TypeAlias = Callable[[bytes], None]
"""Sends one message on a call's stream; never blocks."""


_MARK: Final = "ask-"


class Asks:
    """The questions of one session that wait for answers; each names the ``replica`` that asks, where it has a name."""

    def __init__(self, replica: str = "", tracer: Tracer = OFF) -> None:
        self.tracer = tracer
        self._mark = f"{_MARK}{replica}-" if replica else _MARK
        self._open: dict[Id, asyncio.Future[Response | None]] = {}
        self._numbers = itertools.count(1)

    def __len__(self) -> int:
        return len(self._open)

    def answer(self, response: Response) -> bool:
        """Take a client's response; False for one that answers nothing here."""
        waiting = self._open.pop(response.id, None)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(response)
        return True

    async def put(
        self, send: Send, method: str, params: Raw | None, asked: Callable[[Id], None] = lambda _: None
    ) -> Response | None:
        """Ask and wait for the response; None where the question cannot be asked, or is taken back meanwhile.

        ``asked`` is told the id under which it can be taken back.

        Cancelled, it tells the client that no answer is wanted any more (basic/utilities/cancellation).
        """
        identifier = f"{self._mark}{next(self._numbers)}"
        message = jsonrpc.encode_request(identifier, method, params)
        if len(self._open) >= MAX_OPEN or len(message) > LONGEST:
            return None
        waiting: asyncio.Future[Response | None] = asyncio.get_running_loop().create_future()
        self._open[identifier] = waiting
        try:
            send(message)
            asked(identifier)
            return await waiting
        except asyncio.CancelledError:
            send(_not_wanted(identifier))
            raise
        finally:
            self._open.pop(identifier, None)

    def take_back(self, identifier: Id, send: Send) -> None:
        """End a question whose answer nobody wants any more, and tell the client."""
        waiting = self._open.pop(identifier, None)
        if waiting is not None and not waiting.done():
            send(_not_wanted(identifier))
            waiting.set_result(None)


def replica_of(identifier: Id) -> str:
    """Return the replica that asked a question of this id; "" where it names none."""
    if not isinstance(identifier, str) or not identifier.startswith(_MARK):
        return ""
    name, dash, _ = identifier.removeprefix(_MARK).partition("-")
    return name if dash and is_replica_id(name) else ""


def _not_wanted(identifier: Id) -> bytes:
    return jsonrpc.encode_notification(methods.CANCELLED, {"requestId": identifier})


def _no_page(identifier: str) -> None:
    """Take the id of a page that nobody waits for."""


def asker(asks: Asks, send: Send, call: Call, exchange: Exchange, sent_to: Callable[[str], None] = _no_page) -> Ask:
    """Return what puts the questions of a call to its client, all of a round at once.

    ``sent_to`` takes the ids of pages that people are sent to.
    """
    ids: dict[str, Id] = {}
    gone: set[str] = set()

    def take_back(key: str) -> None:
        gone.add(key)
        if key in ids:
            asks.take_back(ids[key], send)

    async def one(key: str, item: Raw) -> Value:
        if key in gone:
            return None
        question = rawjson.decode_members(fit.question(call, exchange, item))
        page = rawjson.peek(question.get("params"))
        identifier = page.get("elicitationId") if isinstance(page, dict) else None
        if isinstance(identifier, str):
            sent_to(identifier)
        given, error = await _one(_Way(asks, send, call), question, lambda given: ids.update({key: given}))
        if error is not None:
            exchange.refusals[key] = error
        return given

    async def ask(questions: dict[str, Raw]) -> Object:
        answers = await asyncio.gather(*(one(key, item) for key, item in questions.items()))
        return dict(zip(questions, answers, strict=True))

    exchange.withdraw = take_back
    return ask


_Given: TypeAlias = tuple[Value, ErrorObject | None]


@dataclass(frozen=True, slots=True)
class _Way:
    """How the client of a call is asked."""

    asks: Asks
    send: Send
    call: Call


async def _one(way: _Way, members: Members, asked: Callable[[Id], None]) -> _Given:
    """Return an answer; for an error of the client what stands for it where errors are no answers, and the error."""
    method = rawjson.peek(members.get("method"))
    if not isinstance(method, str):
        return None, None

    async def put(params: Raw | None, sent: Callable[[Id], None]) -> Response | None:
        def told(identifier: Id) -> None:
            asked(identifier)
            sent(identifier)

        return await way.asks.put(way.send, method, params, told)

    response = await followed(way.asks.tracer, way.call, members, put)
    if response is not None and response.result is not None:
        return response.result, None
    # Elicitation has a word for "no answer"; the others have none, so that the call must do without.
    instead: Value = {"action": "cancel"} if method == methods.ELICIT else None
    return instead, None if response is None or response.error is None else _error(response.error)


def _error(said: Object) -> ErrorObject | None:
    """Read the error of a client; None for what is none."""
    code, message = said.get("code"), said.get("message")
    if not isinstance(code, int) or isinstance(code, bool) or not isinstance(message, str):
        return None
    return ErrorObject(code, message, rawjson.raw(said["data"]) if "data" in said else None)
