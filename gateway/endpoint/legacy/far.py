"""What a session's client sends here about things at other replicas: answers to questions that were asked there, and
cancellations of calls that run there.

Questions name the replica that asked; of calls nobody knows where they run, so that all hear of a cancellation. A
letter counts only in the session that it names, for the principal who sent it (S88, S96). An answer is as long as a
request may be, and takes no room in the store unless a replica of that name listens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from gateway.endpoint.legacy.asks import replica_of
from gateway.endpoint.legacy.session import Session
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import Response
from gateway.protocol.rawjson import JsonError, Members, Object
from gateway.replicas.post import Letter, LetterLost, LetterTooLong, Post
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger

_ANSWER: Final = "session.answer"
_CANCEL: Final = "session.cancel"
_log = get_logger("endpoint")

Find: TypeAlias = Callable[[str], Session | None]
"""Returns the session of this id, where it is known here."""


class Far:
    """Passes on to other replicas, and takes from them."""

    def __init__(self, post: Post, find: Find, tasks: TaskSet) -> None:
        self._post = post
        self._find = find
        self._tasks = tasks
        post.on(_ANSWER, self._arrived)
        post.on(_CANCEL, self._arrived)

    async def answer(self, session: Session, response: Response) -> None:
        """Pass an answer on to the replica that asked, and wait until it has it."""
        home = replica_of(response.id)
        if home in ("", self._post.replica):
            return
        body: Object = {"id": response.id, "result": response.result, "error": response.error}
        try:
            if not await self._post.deliver(home, _ANSWER, _of(session) | body):
                _log.info("answer_found_nobody", replica=home)
        except LetterTooLong:
            _log.warning("answer_too_long", replica=home)

    async def cancel(self, session: Session, identifier: object) -> None:
        """Have a call cancelled wherever it runs."""
        if isinstance(identifier, (int, str)) and not isinstance(identifier, bool):
            try:
                await self._post.broadcast(_CANCEL, _of(session) | {"id": identifier})
            except LetterTooLong:
                return

    def _arrived(self, letter: Letter) -> None:
        self._tasks.start(self._take(letter), "letter about a session")

    async def _take(self, letter: Letter) -> None:
        try:
            said = await self._post.read(letter)
            session = self._session(said)
            identifier = rawjson.peek(said.get("id"))
            if session is None or isinstance(identifier, bool) or not isinstance(identifier, (int, str)):
                return
            if letter.kind == _CANCEL:
                session.cancel(identifier)
                return
            session.asks.answer(Response(identifier, _object(said, "result"), _object(said, "error")))
        except (LetterLost, JsonError):
            return

    def _session(self, said: Members) -> Session | None:
        identifier, principal = rawjson.peek(said.get("session")), rawjson.peek(said.get("principal"))
        session = self._find(identifier) if isinstance(identifier, str) else None
        return session if session is not None and session.principal.id == principal else None


def _of(session: Session) -> Object:
    return {"session": session.id, "principal": session.principal.id}


def _object(said: Members, key: str) -> Object | None:
    value = rawjson.decode_value(said[key]) if key in said else None
    return value if isinstance(value, dict) else None
