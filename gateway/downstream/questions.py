"""A server's questions within one call: put under keys, answered by key, declined where nobody can be asked.

Knows neither who asked nor how a question reaches a client; says what stands in for an answer that none will give.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from gateway.downstream.dialect import Peer
from gateway.downstream.transport import Answer, Later
from gateway.protocol import codes, meta, methods, rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members, Object, Raw

MAX_OPEN: Final = 16
"""Questions of one call at once."""


@dataclass(slots=True)
class Roots:
    """The roots last heard of from whoever shares a connection; a server may ask for them outside of calls."""

    last: Members = field(default_factory=lambda: {"roots": rawjson.raw([])})


def declined(method: str, roots: Roots) -> Answer:
    """Return the answer to a question that reaches nobody (contract: Capabilities)."""
    match method:
        case methods.ELICIT:
            return {"action": rawjson.raw("cancel")}
        case methods.ROOTS:
            return roots.last
        case _:
            return ErrorObject(codes.METHOD_NOT_FOUND, "Method not found")


@dataclass(slots=True, eq=False)
class _Question:
    method: str
    request: Raw
    answer: Later


def told(peer: Peer, method: str, params: Members) -> bool:
    """Take what a server says of its own questions: not wanted any more, or seen to elsewhere. False for all else."""
    match method:
        case methods.CANCELLED:
            identifier = rawjson.peek(params.get("requestId"))
            if isinstance(identifier, (int, str)):
                peer.transport.owed.withdraw(identifier)
        case methods.ELICITED:
            page = rawjson.peek(params.get("elicitationId"))
            if isinstance(page, str):
                peer.events.elicited(page)
        case _:
            return False
    return True


def _nothing(key: str) -> None:
    """Take the key of a question that nobody cares for."""


class Questions:
    """The open questions of one call; ``roots`` learns from the answers.

    ``withdrawn`` takes the key of a question that its server does not want answered any more.
    """

    def __init__(self, roots: Roots, withdrawn: Callable[[str], None] = _nothing) -> None:
        self._roots = roots
        self._withdrawn = withdrawn
        self._keys = itertools.count(1)
        self._open: dict[str, _Question] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all that are open."""
        return frozenset(self._open)

    @property
    def requests(self) -> dict[str, Raw]:
        """What to put to the client, by key."""
        return {key: each.request for key, each in self._open.items()}

    def put(self, method: str, params: Members) -> Later | None:
        """Take a question and return where its answer will be; None where there are too many."""
        if len(self._open) >= MAX_OPEN:
            return None
        said = meta.without_reserved(params)
        request = rawjson.raw({"method": method, "params": said} if said else {"method": method})
        later: Later = asyncio.get_running_loop().create_future()
        key = f"ask-{next(self._keys)}"
        self._open[key] = _Question(method, request, later)
        later.add_done_callback(lambda done: self._given_up(key) if done.cancelled() else None)
        return later

    def _given_up(self, key: str) -> None:
        if self._open.pop(key, None) is not None:
            self._withdrawn(key)

    def answer(self, keys: Set[str], responses: Object, errors: Mapping[str, ErrorObject] | None = None) -> None:
        """Take answers to those of the keys; null is a question that was refused, other values are no answers.

        ``errors`` are the words in which a client of the server's own era refused: they are the answer then.
        """
        for key in keys & self._open.keys() & responses.keys():
            value, question = responses[key], self._open[key]
            answer: Answer
            if errors is not None and key in errors:
                answer = errors[key]
            elif value is None:
                answer = declined(question.method, self._roots)
            elif isinstance(value, dict):
                answer = {name: rawjson.raw(item) for name, item in value.items()}
                if question.method == methods.ROOTS:
                    self._roots.last = answer
            else:
                continue
            del self._open[key]
            if not question.answer.done():
                question.answer.set_result(answer)

    def drop(self) -> None:
        """Give all up: no answer is of use any more."""
        dropped, self._open = self._open, {}
        for key, question in dropped.items():
            question.answer.cancel()
            self._withdrawn(key)
