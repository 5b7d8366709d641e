"""Edits of a signed audit log as somebody who may write its files, but has no key, could make them.

What comes first in the edited files that did not stand there before is the first bad line; ``verify`` must name it.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.audit.verify import verify
from gateway.protocol import rawjson

Files = dict[str, list[bytes]]


@dataclass(frozen=True, slots=True)
class Miss:
    """An edit that was not found, or not at its line."""

    kind: str
    number: int
    expected: str
    found: str


def _flip(files: Files, dice: random.Random, name: str, at: int) -> None:
    data = bytearray(files[name][at])
    data[dice.randrange(len(data))] ^= dice.randrange(1, 256)
    files[name][at] = bytes(data)


def _delete(files: Files, dice: random.Random, name: str, at: int) -> None:
    del files[name][at : at + dice.randrange(1, 4)]


def _insert(files: Files, dice: random.Random, name: str, at: int) -> None:
    files[name].insert(at, dice.choice(files[dice.choice(sorted(files))]))


def _swap(files: Files, dice: random.Random, name: str, at: int) -> None:
    other = dice.randrange(len(files[name]))
    files[name][at], files[name][other] = files[name][other], files[name][at]


def _move(files: Files, dice: random.Random, name: str, at: int) -> None:
    line = files[name].pop(at)
    target = files[dice.choice([each for each in sorted(files) if each != name])]
    target.insert(dice.randrange(len(target) + 1), line)


def _number(files: Files, dice: random.Random, name: str, at: int) -> None:
    record = _read(files[name][at])
    files[name][at] = rawjson.canonical_plain({**record, "mono_us": dice.randrange(2**40)}) + b"\n"


def _cut(files: Files, dice: random.Random, name: str, at: int) -> None:
    for later in [each for each in files if each > name]:
        del files[later]
    del files[name][max(at, 1) :]
    files[name][-1] = files[name][-1][: dice.choice([None, dice.randrange(1, len(files[name][-1]))])]


def _exchange(files: Files, dice: random.Random, name: str, at: int) -> None:
    other = dice.choice([each for each in sorted(files) if each != name])
    files[name], files[other] = files[other], files[name]


def _drop(files: Files, dice: random.Random, name: str, at: int) -> None:
    del files[name]


def _append(files: Files, dice: random.Random, name: str, at: int) -> None:
    files[max(files)].append(dice.choice(files[name]))


EDITS: Final[dict[str, Callable[[Files, random.Random, str, int], None]]] = {
    "flip": _flip,
    "delete": _delete,
    "insert": _insert,
    "swap": _swap,
    "move": _move,
    "number": _number,
    "cut": _cut,
    "exchange": _exchange,
    "drop": _drop,
    "append": _append,
}


def rewritten(lines: list[bytes], at: int) -> list[bytes]:
    """Change a record and make the hashes of it and of all behind it fit again, which needs no key."""
    found = lines[:at]
    prev = ""
    for index, line in enumerate(lines[at:]):
        record = _read(line)
        if index == 0:
            record["count"] = 1_000_001
        else:
            record["prev"] = prev
        body = rawjson.canonical_plain({key: value for key, value in record.items() if key != "hash"})
        prev = hashlib.sha256(b"mcp-gateway-audit-v1\n" + body).hexdigest()
        found.append(rawjson.canonical_plain({**record, "hash": prev}) + b"\n")
    return found


def edit_at_random(log: Path, work: Path, count: int, seed: int) -> Iterator[Miss | None]:
    """Make so many edits of a copy of a log; yields None for each that was found at its line."""
    dice = random.Random(seed)
    names = sorted(path.name for path in log.glob("*.jsonl"))
    original: Files = {name: (log / name).read_bytes().splitlines(keepends=True) for name in names}
    kinds = sorted(EDITS)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        edited = {name: [*lines] for name, lines in original.items()}
        name = dice.choice(names)
        EDITS[kind](edited, dice, name, dice.randrange(len(edited[name])))
        edited = {name: b"".join(lines).splitlines(keepends=True) for name, lines in edited.items()}
        expected = first_bad(original, edited)
        if expected is None:
            yield None
            continue
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(log, work)
        for name in names:
            (work / name).unlink()
        for name, lines in edited.items():
            (work / name).write_bytes(b"".join(lines))
        fault = verify(work).fault
        found = "nothing" if fault is None else f"{fault.segment}:{fault.line}"
        yield None if found == expected else Miss(kind, number, expected, f"{found} {fault}")


def first_bad(original: Files, edited: Files) -> str | None:
    """Return the place of the first line that did not stand there, or where one is missing; None without an edit."""
    before = [(name, line, text) for name in sorted(original) for line, text in enumerate(_lines(original[name]), 1)]
    after = [(name, line, text) for name in sorted(edited) for line, text in enumerate(_lines(edited[name]), 1)]
    for index, place in enumerate(after):
        if index >= len(before) or place != before[index]:
            return f"{place[0]}:{place[1]}"
    if len(after) == len(before):
        return None
    return f"{after[-1][0]}:{after[-1][1] + 1}"


def _lines(lines: list[bytes]) -> list[bytes]:
    """Split a file at its line feeds alone; a last line without one is another line than with it."""
    *whole, rest = b"".join(lines).split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def _read(line: bytes) -> rawjson.Object:
    record = rawjson.decode_value(line)
    assert isinstance(record, dict)
    return record
