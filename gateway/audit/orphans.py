"""Which calls have begun and not ended, as the log tells it. Pure.

A call is open from ``call.start`` to ``call.end``. While it waits for its client's answers and nothing of it runs here
(``call.round`` with ``held: false``) it is nobody's to close.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.protocol.rawjson import Object

MAX_OPEN: Final = 65_536
"""Calls that may be open at once; more starts are refused."""
_PART: Final = 200


class OpenCalls:
    """Call ids and the ``seq`` of each one's last start, with a way back to the last durable state."""

    def __init__(self, known: Mapping[str, int] | None = None) -> None:
        self._open = dict(known or {})
        self._undo: list[tuple[str, int | None]] = []

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._open

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._open)

    def start_of(self, record: Object) -> int | None:
        """Return the ``seq`` that a record's call began with."""
        call_id = record.get("call_id")
        return self._open.get(call_id) if isinstance(call_id, str) else None

    def apply(self, record: Object, seq: int) -> None:
        """Take note of a record that was written as number ``seq``."""
        call_id = record.get("call_id")
        if not isinstance(call_id, str):
            return
        match record.get("event"):
            case "call.start":
                self._set(call_id, seq)
            case "call.end" | "call.orphaned" | "call.denied":
                self._set(call_id, None)
            case "call.round":
                detail = record.get("round")
                held = isinstance(detail, dict) and detail.get("held") is True
                self._set(call_id, self._open.get(call_id, seq) if held else None)

    def keep(self) -> None:
        """The state is durable: there is no way back behind it."""
        self._undo.clear()

    def mark(self) -> int:
        """Return a mark to which ``revert`` can go back, until the next ``keep``."""
        return len(self._undo)

    def revert(self, mark: int = 0) -> None:
        """Go back to a mark, or to the last durable state."""
        while len(self._undo) > mark:
            call_id, before = self._undo.pop()
            self._put(call_id, before)

    def parts(self) -> list[Object]:
        """Return the open calls in portions that each fit in one record; one empty portion where there are none."""
        items = list(self._open.items())
        return [dict(items[start : start + _PART]) for start in range(0, max(len(items), 1), _PART)]

    def _set(self, call_id: str, seq: int | None) -> None:
        self._undo.append((call_id, self._open.get(call_id)))
        self._put(call_id, seq)

    def _put(self, call_id: str, seq: int | None) -> None:
        if seq is None:
            self._open.pop(call_id, None)
        else:
            self._open[call_id] = seq


def gather(parts: Iterable[Object]) -> dict[str, int]:
    """Join the portions that a segment's head holds."""
    return {
        call_id: seq
        for part in parts
        for call_id, seq in part.items()
        if isinstance(seq, int) and not isinstance(seq, bool)
    }
