"""The approvals in the document ``approvals.json``, each one sealed, since arguments may hold secrets. Blocks.

What cannot be read is never taken for empty: a file that somebody changed might hold a yes that nobody gave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, ParamSpec, TypeVar

from gateway.approvals.entry import Asker, Entry, Need, State, Subject, Vote
from gateway.errors import ConfigError, Problem
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value
from gateway.protocol.shapes import a_list, a_number, a_text, an_object, texts
from gateway.state.documents import ABSENT, Documents, Version
from gateway.state.sealing import Sealer, SealError

FILE: Final = "approvals.json"
_FORMAT: Final = 1
_PURPOSE: Final = "approval"
P = ParamSpec("P")
T = TypeVar("T")


class ApprovalFile:
    """The document of one gateway, or of all replicas of one."""

    def __init__(self, documents: Documents, sealer: Sealer) -> None:
        self._documents = documents
        self._sealer = sealer

    @property
    def shared(self) -> bool:
        """Whether other replicas read and write it too."""
        return self._documents.shared

    async def beside(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work that reads or writes it beside the loop; see ``Documents``."""
        return await self._documents.beside(work, *args, **kwargs)

    def load(self) -> tuple[list[Entry], Version]:
        """Read every entry, and which version that is; no document is as good as an empty one.

        Raises:
            ConfigError: it is there, but is not what was written.
        """
        try:
            document = self._documents.load(FILE)
        except OSError as error:
            raise self._damaged(error.strerror or type(error).__name__) from None
        if document is None:
            return [], ABSENT
        try:
            value = rawjson.decode_value(document.data)
        except JsonError as error:
            raise self._damaged(str(error)) from None
        sealed = value.get("entries") if isinstance(value, dict) and value.get("v") == _FORMAT else None
        if not isinstance(sealed, dict):
            raise self._damaged("is not of this version")
        try:
            return [self._open(name, item) for name, item in sealed.items()], document.version
        except (SealError, JsonError, ValueError):
            raise self._damaged("holds something that this gateway did not seal") from None

    def write(self, entries: Iterable[Entry], expected: Version) -> Version:
        """Put entries in place of the version that is expected; returns the new one.

        Raises:
            Conflict: another version is there, which stays.
            OSError: it cannot be written; the old contents are still there.
        """
        return self._documents.replace(FILE, self.encoded(entries), expected)

    def encoded(self, entries: Iterable[Entry]) -> bytes:
        """Return entries as they are kept."""
        body: Object = {"v": _FORMAT, "entries": {entry.id: self._seal(entry) for entry in entries}}
        return rawjson.encode(body) + b"\n"

    def _seal(self, entry: Entry) -> str:
        return self._sealer.seal(_PURPOSE, rawjson.encode(_value(entry)), entry.id.encode())

    def _open(self, name: str, item: Value) -> Entry:
        text = self._sealer.open(_PURPOSE, a_text(item), name.encode())
        return _read(name, an_object(rawjson.decode_value(text)))

    def _damaged(self, why: str) -> ConfigError:
        hint = "restore it, with the sealing keys it was written with; or remove it, and what waited is asked for again"
        place = self._documents.place(FILE)
        return ConfigError([Problem(f"the file of approvals cannot be used: {why}", file=place, hint=hint)])


def _value(entry: Entry) -> Object:
    subject, asker = entry.subject, entry.subject.asker
    return {
        "asker": [asker.id, asker.kind, asker.label, asker.issuer],
        "subject": [
            subject.method,
            subject.server,
            subject.kind,
            subject.name,
            subject.arguments,
            subject.definition,
        ],
        "needs": [[need.policy, need.rule, *sorted(need.by)] for need in entry.needs],
        "asked_at": entry.asked_at,
        "ends_at": entry.ends_at,
        "state": entry.state.value,
        "votes": [[vote.user, vote.at] for vote in entry.votes],
        "reason": entry.reason,
    }


def _read(name: str, body: Object) -> Entry:
    identifier, kind, label, issuer = texts(body.get("asker"))
    subject = Subject(Asker(identifier, kind, label, issuer), *texts(body.get("subject"), 6))
    needs = [texts(item) for item in a_list(body.get("needs"))]
    votes = [a_list(item) for item in a_list(body.get("votes"))]
    return Entry(
        id=name,
        key=subject.key,
        subject=subject,
        needs=tuple(Need(policy, rule, frozenset(by)) for policy, rule, *by in needs),
        asked_at=a_number(body.get("asked_at")),
        ends_at=a_number(body.get("ends_at")),
        state=State(a_text(body.get("state"))),
        votes=tuple(Vote(a_text(user), a_number(at)) for user, at in votes),
        reason=a_text(body.get("reason")),
    )
