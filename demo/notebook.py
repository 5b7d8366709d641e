"""The notes of one dataset and the file that keeps them; knows nothing of MCP."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

MAX_NOTES: Final = 10_000


class ToolError(Exception):
    """Ends a tool call with a text that the model can act on (2025-11-25 tools §Error Handling)."""


@dataclass(frozen=True, slots=True)
class Note:
    """One note."""

    id: str
    title: str
    text: str
    tags: tuple[str, ...] = ()


class Notebook:
    """The notes of one dataset, kept in a JSON file."""

    def __init__(self, dataset: str, file: Path) -> None:
        self.dataset = dataset
        self._file = file
        self._notes: dict[str, Note] = {}
        if file.exists():
            for item in json.loads(file.read_text("utf-8")):
                note = Note(item["id"], item["title"], item["text"], tuple(item.get("tags", ())))
                self._notes[note.id] = note

    def __len__(self) -> int:
        return len(self._notes)

    def __iter__(self) -> Iterator[Note]:
        return iter(self._notes.values())

    def get(self, note_id: str) -> Note | None:
        """Return a note, or None."""
        return self._notes.get(note_id)

    def add(self, title: str, text: str, tags: tuple[str, ...]) -> Note:
        """Keep a new note under the next free id."""
        if len(self._notes) >= MAX_NOTES:
            raise ToolError(f"The notebook is full: it holds {MAX_NOTES} notes. Delete some first.")
        numbers = [int(found[1]) for key in self._notes if (found := re.fullmatch(r"n([0-9]+)", key))]
        note = Note(f"n{max(numbers, default=0) + 1}", title, text, tags)
        self._notes[note.id] = note
        self._save()
        return note

    def delete(self, note_id: str) -> None:
        """Forget a note that is there."""
        del self._notes[note_id]
        self._save()

    def tags(self) -> list[str]:
        """Return every tag once, in order of the alphabet."""
        return sorted({tag for note in self for tag in note.tags})

    def _save(self) -> None:
        """Write everything anew beside the file, then put it in its place: a crash leaves the old or the new one."""
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps([asdict(note) for note in self], indent=1), "utf-8")
        os.replace(beside, self._file)
