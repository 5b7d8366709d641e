"""A server's questions to a client that shook hands: requests on the call's own stream, answered by other POSTs.

Answers count only in the session that was asked, under the id given out with the question (S96, G062, G063). Knows no
server and no pipeline: questions come in by key, answers go back by key.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Final, TypeAlias

from gateway.endpoint import fit
from gateway.model.call import Call
from gateway.model.exchange import Ask, Exchange
from gateway.protocol import jsonrpc, methods, rawjson
from gateway.protocol.jsonrpc import Id, Response
from gateway.protocol.rawjson import Object, Raw, Value

MAX_OPEN: Final = 256
"""Questions of one session that may wait for answers at once; one more is refused in the client's place."""

LONGEST: Final = 200 * 1024
"""Bytes of a question: what a stream can hold with room for the rest. A longer one is refused in its place too."""

Send: TypeAlias = Callable[[bytes], None]
"""Sends one message on a call's stream; never blocks."""


class Asks:
    """The questions of one session that wait for answers."""

    def __init__(self) -> None:
        self._open: dict[Id, asyncio.Future[Response]] = {}
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

    async def put(self, send: Send, method: str, params: Raw | None) -> Response | None:
        """Ask and wait for the response; None where the question cannot be asked.

        Cancelled, it tells the client that no answer is wanted any more (basic/utilities/cancellation).
        """
        identifier = f"ask-{next(self._numbers)}"
        message = jsonrpc.encode_request(identifier, method, params)
        if len(self._open) >= MAX_OPEN or len(message) > LONGEST:
            return None
        waiting: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._open[identifier] = waiting
        try:
            send(message)
            return await waiting
        except asyncio.CancelledError:
            send(jsonrpc.encode_notification(methods.CANCELLED, {"requestId": identifier}))
            raise
        finally:
            self._open.pop(identifier, None)


def asker(asks: Asks, send: Send, call: Call, exchange: Exchange) -> Ask:
    """Return what puts the questions of a call to its client, all of a round at once."""

    async def ask(questions: dict[str, Raw]) -> Object:
        fitted = [fit.question(call, exchange, item) for item in questions.values()]
        answers = await asyncio.gather(*(_one(asks, send, question) for question in fitted))
        return dict(zip(questions, answers, strict=True))

    return ask


async def _one(asks: Asks, send: Send, question: Raw) -> Value:
    members = rawjson.decode_members(question)
    method = rawjson.peek(members.get("method"))
    if not isinstance(method, str):
        return None
    response = await asks.put(send, method, members.get("params"))
    if response is not None and response.result is not None:
        return response.result
    # Elicitation has a word for "no answer"; the others have none, so that the call must do without.
    return {"action": "cancel"} if method == methods.ELICIT else None
