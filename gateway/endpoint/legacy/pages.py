"""Pages that servers sent people to, and which session hears when they are done there (2025-11-25 client/elicitation).

Only the session that was asked is told, and only once: ids are the server's own, so they count together with its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from gateway.endpoint.legacy.session import Session
from gateway.endpoint.legacy.track import Track
from gateway.endpoint.services import Services
from gateway.endpoint.stream import CallStream
from gateway.model.call import Call
from gateway.model.outcome import Failure, Outcome
from gateway.pipeline import questions
from gateway.protocol import jsonrpc, methods

MAX_PAGES: Final = 64
"""Pages of one session that it may hear of; the oldest is forgotten for one more."""

MAX_ID: Final = 1024

_Key: TypeAlias = tuple[str, str]
_Place: TypeAlias = tuple[Session, CallStream]


class Pages:
    """The pages of all sessions whose end is not known yet."""

    def __init__(self, services: Services) -> None:
        self._open: dict[_Key, _Place] = {}
        self._of: dict[str, dict[_Key, None]] = {}
        self._unsubscribe = services.elicitations(self._done)

    def __len__(self) -> int:
        return len(self._open)

    def watch(self, session: Session, stream: CallStream, call: Call) -> Callable[[str], None]:
        """Return what takes the ids of pages that a call sends people to."""
        return lambda identifier: self._note((call.target.server, identifier), (session, stream))

    def of_error(self, session: Session, stream: CallStream, call: Call, outcome: Outcome) -> None:
        """Note the pages that an error asks for (§URL Elicitation Required Error)."""
        if isinstance(outcome, Failure) and questions.is_url_error(outcome):
            for page in questions.pages_of(outcome)[:MAX_PAGES]:
                identifier = page.get("elicitationId")
                if isinstance(identifier, str):
                    self.watch(session, stream, call)(identifier)

    def _note(self, key: _Key, place: _Place) -> None:
        session = place[0]
        if len(key[1]) > MAX_ID or session.ended:
            return
        if session.id not in self._of:
            session.subscriptions.append(lambda: self._forget(session.id))
        mine = self._of.setdefault(session.id, {})
        if len(mine) >= MAX_PAGES:
            self._open.pop(next(iter(mine)), None)
            del mine[next(iter(mine))]
        mine[key] = None
        self._open[key] = place

    def _forget(self, session: str) -> None:
        for key in self._of.pop(session, {}):
            place = self._open.get(key)
            if place is not None and place[0].id == session:
                del self._open[key]

    def _done(self, server: str, identifier: str) -> None:
        """Tell the session that was asked; an id that nobody waits for is of no use to anyone."""
        key = (server, identifier)
        place = self._open.pop(key, None)
        if place is None:
            return
        session, stream = place
        self._of.get(session.id, {}).pop(key, None)
        message = jsonrpc.encode_notification(methods.ELICITED, {"elicitationId": identifier})
        if session.tell(message):
            return
        if isinstance(stream, Track) and not stream.over:
            stream.send(message)
        else:
            session.keep(message)

    def close(self) -> None:
        """Hear of nothing any more."""
        self._unsubscribe()
