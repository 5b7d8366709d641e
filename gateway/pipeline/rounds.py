"""Takes a call through its server's questions (basic/patterns/mrtr): round after round, until there is another end.

A client that can be asked while its call runs is asked here; for one that comes back by itself the questions are the
outcome. What the client cannot take is declined in its place. Knows no wire: the exchange says whether and how to ask.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from gateway.audit import record
from gateway.audit.record import Ending
from gateway.config.servers import Server
from gateway.errors import AuditUnavailable, Reason
from gateway.model.call import Call
from gateway.model.outcome import LOOK, Failure, InputRequired, Outcome
from gateway.pipeline import questions
from gateway.pipeline.account import Account
from gateway.pipeline.interceptor import CallNext, Passage
from gateway.protocol.rawjson import Object, Raw
from gateway.protocol.versions import Era

MAX_ROUNDS: Final = 10
FIRST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 5.0
"""Seconds between two tries of a call whose server wants it again without an answer."""

_NOT_RECORDED: Final = Failure(
    Reason.AUDIT_UNAVAILABLE,
    "The gateway's audit log cannot be written, so this call does not go on. It may have run in part. "
    "The gateway's operators need to look at it.",
    may_have_run=True,
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a server may ask clients for, and for how many seconds one of its calls may wait for people."""

    patience: float
    asks: frozenset[str] = frozenset()

    @classmethod
    def of(cls, server: Server) -> Terms:
        """Read them from a server's config."""
        return cls(server.timeouts.asks, frozenset(server.asks))


@dataclass(slots=True)
class _Waiting:
    """What is left of the time a call may wait for people, in seconds, and the next pause."""

    left: float
    pause: float


class Rounds:
    """``terms`` are those of a server by its name; ``pause`` is in seconds."""

    name = "rounds"

    def __init__(
        self,
        account: Account,
        terms: Callable[[str], Terms],
        pin_state: Callable[[str], str],
        pause: float = FIRST_PAUSE,
    ) -> None:
        self._account = account
        self._terms = terms
        self._pin_state = pin_state
        self._pause = pause

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        outcome = await call_next(call, passage)
        if isinstance(outcome, Failure) and questions.is_url_error(outcome):
            outcome = questions.of_url_error(call, outcome, self._terms(call.target.server).asks)
        if not isinstance(outcome, InputRequired):
            return outcome
        patience = max(0.0, self._terms(call.target.server).patience - passage.waited)
        waiting = _Waiting(patience, self._pause)
        for _ in range(MAX_ROUNDS):
            if not isinstance(outcome, InputRequired):
                return outcome
            asked = _judged(call, passage, outcome)
            if not asked.held and None in asked.answered.values():
                # Nothing can stand for these answers: who asked would wait for them for ever.
                return _refused(call, [outcome.requests[key] for key, it in asked.answered.items() if it is None])
            if _is_for_client(call, asked):
                return asked
            try:
                answers = await self._answers(call, passage, asked, waiting)
            except asyncio.CancelledError:
                passage.exchange.abandon()
                raise
            if isinstance(answers, Failure):
                passage.exchange.abandon()
                return answers
            passage.rounds += 1
            call = replace(call, input_responses=answers, request_state=asked.state, round=passage.rounds)
            outcome = await call_next(call, passage)
            if isinstance(outcome, Failure):
                # It may be a refusal on the way there, and the client's only request ends with it.
                passage.exchange.abandon()
        if not isinstance(outcome, InputRequired):
            return outcome
        passage.exchange.abandon()
        return _too_often(call)

    async def _answers(self, call: Call, passage: Passage, asked: InputRequired, waiting: _Waiting) -> Object | Failure:
        """Get the answers of a round, after the log knows of it."""
        if len(asked.requests) > questions.MAX_QUESTIONS:
            return _too_many(call)
        try:
            await self._record(call, passage, asked)
        except AuditUnavailable:
            return _NOT_RECORDED
        answers = dict(asked.answered)
        if asked.requests and passage.exchange.ask is not None:
            began = time.monotonic()
            try:
                async with asyncio.timeout(waiting.left):
                    answers |= await passage.exchange.ask(asked.requests)
            except TimeoutError:
                return _unanswered(call)
            waiting.left -= time.monotonic() - began
        elif not answers:
            await asyncio.sleep(waiting.pause)
            waiting.pause = min(waiting.pause * 2, LONGEST_PAUSE)
        if None in answers.values() and not asked.held:
            return _refused(call, asked.requests.values())
        return answers

    async def _record(self, call: Call, passage: Passage, asked: InputRequired) -> None:
        exchange = passage.exchange
        if exchange.instance is not None:
            exchange.instance = replace(exchange.instance, pin=self._pin_state(call.target.server))
        ending = Ending(exchange, asked, time.monotonic(), passage.rounds)
        # The call stays open in this process while it waits, whoever holds its state.
        entry = record.call_round(self._account.describe(call, passage), ending, held=True)
        await self._account.log.append(entry, durable=self._account.durable_end)


def _judged(call: Call, passage: Passage, outcome: InputRequired) -> InputRequired:
    """Take out what the client cannot be asked; the record says what and why."""
    judged = questions.judge(outcome.requests, call.caller.capabilities if _can_ask(call, passage) else {})
    if judged.notes:
        passage.exchange.notes["asks"] = "; ".join(judged.notes)
    return replace(outcome, requests=judged.open, answered=judged.answered)


def _can_ask(call: Call, passage: Passage) -> bool:
    return call.caller.era is Era.MODERN or passage.exchange.ask is not None


def _is_for_client(call: Call, asked: InputRequired) -> bool:
    """Tell whether a client gets the questions as its result: a modern one, unless nothing is left for it to do."""
    if len(asked.requests) > questions.MAX_QUESTIONS:
        return False
    return call.caller.era is Era.MODERN and (bool(asked.requests) or not asked.answered)


def _too_many(call: Call) -> Failure:
    what = f"asked more than {questions.MAX_QUESTIONS} questions at once"
    return Failure.by_server(call.target.server, Reason.PROTOCOL_ERROR, what, LOOK)


def _too_often(call: Call) -> Failure:
    what = f"asked for input more than {MAX_ROUNDS} times"
    return Failure.by_server(call.target.server, Reason.PROTOCOL_ERROR, what, LOOK)


def _unanswered(call: Call) -> Failure:
    return Failure.by_server(call.target.server, Reason.TIMEOUT, "asked a question that was not answered in time")


def _refused(call: Call, requests: Iterable[Raw]) -> Failure:
    wanted = questions.methods_of(requests)
    what = f"needs an answer that the client did not give ({wanted})"
    return Failure.by_server(call.target.server, Reason.CANCELLED, what)
