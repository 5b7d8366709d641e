"""The approvals in ``state.dir/approvals.json``, each one sealed, since arguments may hold secrets. Blocks on the disk.

What cannot be read is never taken for empty: a file that somebody changed might hold a yes that nobody gave.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gateway.approvals.entry import Asker, Entry, Need, State, Subject, Vote
from gateway.errors import ConfigError, Problem
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value
from gateway.state.files import write_atomic
from gateway.state.sealing import Sealer, SealError

FILE: Final = "approvals.json"
_FORMAT: Final = 1
_MAX_BYTES: Final = 64 * 2**20
_PURPOSE: Final = "approval"


class ApprovalFile:
    """The file of one gateway."""

    def __init__(self, path: Path, sealer: Sealer) -> None:
        self._path = path
        self._sealer = sealer
        self._lock = threading.Lock()
        self._written = 0

    def load(self) -> list[Entry]:
        """Read every entry; no file is as good as an empty one.

        Raises:
            ConfigError: it is there, but is not what was written.
        """
        try:
            if self._path.stat().st_mode & 0o022:
                raise self._damaged("others than its owner may write it")
            with self._path.open("rb") as file:
                value = rawjson.decode_value(file.read(_MAX_BYTES))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._damaged(error.strerror or type(error).__name__) from None
        except JsonError as error:
            raise self._damaged(str(error)) from None
        sealed = value.get("entries") if isinstance(value, dict) and value.get("v") == _FORMAT else None
        if not isinstance(sealed, dict):
            raise self._damaged("is not of this version")
        try:
            return [self._open(name, item) for name, item in sealed.items()]
        except (SealError, JsonError, ValueError):
            raise self._damaged("holds something that this gateway did not seal") from None

    def write(self, entries: Iterable[Entry], version: int) -> None:
        """Replace the file, unless a later version was written already.

        Raises:
            OSError: it cannot be written; the old contents are still there.
        """
        body: Object = {"v": _FORMAT, "entries": {entry.id: self._seal(entry) for entry in entries}}
        with self._lock:
            # Whoever gave up waiting left a thread behind, which must not put an old state in place of a newer one.
            if version > self._written:
                write_atomic(self._path, rawjson.encode(body) + b"\n")
                self._written = version

    def _seal(self, entry: Entry) -> str:
        return self._sealer.seal(_PURPOSE, rawjson.encode(_value(entry)), entry.id.encode())

    def _open(self, name: str, item: Value) -> Entry:
        text = self._sealer.open(_PURPOSE, _text(item), name.encode())
        return _read(name, _object(rawjson.decode_value(text)))

    def _damaged(self, why: str) -> ConfigError:
        hint = "restore it, with the sealing keys it was written with; or remove it, and what waited is asked for again"
        return ConfigError([Problem(f"the file of approvals cannot be used: {why}", file=str(self._path), hint=hint)])


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
    identifier, kind, label, issuer = _texts(body.get("asker"))
    subject = Subject(Asker(identifier, kind, label, issuer), *_texts(body.get("subject"), 6))
    needs = [_texts(item) for item in _list(body.get("needs"))]
    votes = [_list(item) for item in _list(body.get("votes"))]
    return Entry(
        id=name,
        key=subject.key,
        subject=subject,
        needs=tuple(Need(policy, rule, frozenset(by)) for policy, rule, *by in needs),
        asked_at=_number(body.get("asked_at")),
        ends_at=_number(body.get("ends_at")),
        state=State(_text(body.get("state"))),
        votes=tuple(Vote(_text(user), _number(at)) for user, at in votes),
        reason=_text(body.get("reason")),
    )


def _object(value: Value) -> Object:
    if not isinstance(value, dict):
        raise ValueError
    return value


def _list(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise ValueError
    return value


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _texts(value: Value, count: int = 0) -> list[str]:
    texts = [_text(item) for item in _list(value)]
    if count and len(texts) != count:
        raise ValueError
    return texts


def _number(value: Value) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError
    return float(value)
