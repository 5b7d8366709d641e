"""Finds every fenced block of the documentation, with what its page says about how it is checked.

A comment in front of a block, ``<!-- snippet: run demo -->``, is read by tests alone; docs/README.md has the words.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.kit.gateway import ROOT

PAGES: Final = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
NOT_RUN: Final = {
    "installs": "downloads, builds or runs everything; CI does the same by other ways",
    "cluster": "needs a cluster or a container engine, and tests have neither",
    "theirs": "is a command of somebody else's program that test machines do not have",
    "person": "needs a person, at a browser or a service",
    "form": "shows the form of something, with … for what differs",
}
"""Why a block may say ``not-run REASON``."""
_FENCE: Final = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[\w.+-]*)(?P<rest>.*)$")
_MARK: Final = re.compile(r"^ *<!-- snippet: (.+?) -->$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. ``mark`` are the words of the comment in front of it; ``heading`` is what it is under."""

    page: Path
    line: int
    language: str
    text: str
    mark: tuple[str, ...]
    heading: str

    @property
    def name(self) -> str:
        """How a failing test calls it."""
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"

    @property
    def first(self) -> str:
        """Its first line."""
        return self.text.partition("\n")[0]


def blocks_of(page: Path, text: str) -> Iterator[Block]:
    """Yield the blocks of one page in order.

    Raises:
        ValueError: a fence is never closed, or a mark stands in front of no block.
    """
    lines = text.splitlines()
    mark: tuple[str, ...] = ()
    heading = ""
    at = 0
    while at < len(lines):
        line = lines[at]
        opened = _FENCE.match(line)
        marked = _MARK.match(line)
        at += 1
        if opened is None:
            if mark and line.strip():
                raise ValueError(f"{page}:{at}: a mark stands in front of a block and of nothing else")
            if marked is not None:
                mark = tuple(shlex.split(marked[1]))
            if line.startswith("#"):
                heading = line.lstrip("#").strip()
            continue
        begin = at
        closing = re.compile(rf"^ {{0,{len(opened['indent'])}}}{re.escape(opened['fence'])}\s*$")
        while at < len(lines) and not closing.match(lines[at]):
            at += 1
        if at == len(lines):
            raise ValueError(f"{page}:{begin}: a block is never closed")
        cut = len(opened["indent"])
        body = "".join(f"{one[cut:]}\n" for one in lines[begin:at])
        yield Block(page, begin, opened["language"], body, mark, heading)
        mark = ()
        at += 1


def every_block() -> list[Block]:
    """Return the blocks of README and docs, in order of pages and lines."""
    return [block for page in PAGES if page.exists() for block in blocks_of(page, page.read_text("utf-8"))]


@dataclass(frozen=True, slots=True)
class Command:
    """A command line of a console block, and the lines that the page shows as its output."""

    line: str
    output: tuple[str, ...]


def commands(block: Block) -> list[Command]:
    """Split a console block into commands. One begins with ``$ `` and goes on over a backslash or an open quote.

    Raises:
        ValueError: the block begins with output.
    """
    found: list[Command] = []
    lines = block.text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].startswith("$ "):
            if not found:
                raise ValueError(f"{block.name}: a console block begins with `$ `")
            found[-1] = Command(found[-1].line, (*found[-1].output, lines[at]))
            at += 1
            continue
        line = lines[at][2:]
        at += 1
        while at < len(lines) and (line.endswith("\\") or not _whole(line)):
            line += f"\n{lines[at]}"
            at += 1
        found.append(Command(line, ()))
    return found


def _whole(line: str) -> bool:
    try:
        shlex.split(line, comments=True)
    except ValueError:
        return False
    return True


_ALIKE: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?"), "<time>"),
    (re.compile(r"\b\d+m\d\ds\b|\b\d+h\d\dm\b"), "<span>"),
    (re.compile(r"\b\d+(\.\d+)? ?ms\b"), "<ms>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,64}\b"), "<hex>"),
    (re.compile(r"\b01[0-9A-Z]{24}\b"), "<ulid>"),
    (re.compile(r"\bpid:?\s?\d+"), "<pid>"),
    (re.compile(r"  +"), "  "),
)
"""What differs from run to run and is taken for the same: times, durations, digests, ids, widths of columns."""


def alike(line: str) -> str:
    """Write a line of output without what differs from run to run."""
    for pattern, instead in _ALIKE:
        line = pattern.sub(instead, line)
    return line.rstrip()


def fits(shown: tuple[str, ...], said: str) -> bool:
    """Tell whether output is what a page shows: ``…`` stands for anything in a line, alone for any lines."""
    pattern = ""
    for line in shown:
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += r"[^\n]*?".join(re.escape(piece) for piece in alike(line).split("…")) + "\n"
    text = "".join(f"{alike(line)}\n" for line in said.splitlines())
    return re.fullmatch(pattern, text) is not None
