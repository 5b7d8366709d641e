"""``${…}`` in every string of a config, whichever file it came from.

``${NAME}`` and ``${env:NAME}`` are variables, ``${NAME:-default}`` has a default for one that is unset or empty,
``${file:/path}`` is the text of a file, ``$${`` is a literal ``${``. What was put in is not expanded again.
What cannot be expanded is reported by the name of the variable or file; values never appear in a text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.config.places import Loc, Tree, shown
from gateway.config.reading import MAX_VALUE, FileProblem, Reading, exposure

_TOKEN = re.compile(r"\$\$\{|\$\{([^}]*)\}|\$\{")
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_INPUT = re.compile(r"input:([A-Za-z0-9_. -]{1,128})")
_FORMS: Final = "${NAME}, ${NAME:-default} or ${file:/path}; $${ is a literal ${"


@dataclass(frozen=True, slots=True)
class Failure:
    """A string that cannot be expanded. ``malformed`` ones are wrong wherever they stand."""

    loc: Loc
    text: str
    hint: str = ""
    malformed: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """Where expansions come from. ``inputs`` admits ``${input:X}`` of VS Code's files."""

    environ: Mapping[str, str]
    base: Path
    reading: Reading
    is_secret: Callable[[Loc], bool]
    inputs: bool = False


@dataclass(slots=True)
class Expansion:
    """One pass over a tree, and what it found.

    ``referring`` are the places whose text was not literal, ``emptied`` those of them that came out empty.
    """

    source: Source
    failures: list[Failure] = field(default_factory=list)
    notes: list[tuple[Loc, str]] = field(default_factory=list)
    referring: set[Loc] = field(default_factory=set)
    emptied: set[Loc] = field(default_factory=set)

    def expand(self, tree: Tree, loc: Loc = ()) -> Tree:
        """Return a copy of ``tree`` with every string expanded; a string that cannot be is left empty."""
        if isinstance(tree, dict):
            return {key: self.expand(value, (*loc, key)) for key, value in tree.items()}
        if isinstance(tree, list):
            return [self.expand(value, (*loc, index)) for index, value in enumerate(tree)]
        if isinstance(tree, str) and "${" in tree:
            return self._string(tree, loc)
        return tree

    def _string(self, text: str, loc: Loc) -> str:
        failures = len(self.failures)

        def part(match: re.Match[str]) -> str:
            if match[0] == "$${":
                return "${"
            if match[1] is None:
                return self._fail(loc, "${ without a closing }", f"write {_FORMS}", malformed=True)
            self.referring.add(loc)
            return self._value(match[1], loc)

        value = _TOKEN.sub(part, text)
        if len(self.failures) > failures:
            return ""
        if loc in self.referring and not value:
            self.emptied.add(loc)
        return value

    def _value(self, body: str, loc: Loc) -> str:
        if body.startswith("file:"):
            return self._file(body.removeprefix("file:"), loc)
        if self.source.inputs and (match := _INPUT.fullmatch(body)):
            return self._input(match[1], loc)
        variable = _VARIABLE.fullmatch(body)
        if variable is None or "${" in body:
            return self._fail(loc, "an expansion of unknown form", f"write {_FORMS}", malformed=True)
        name, default = variable[1], variable[2]
        value = self.source.environ.get(name)
        if default is not None:
            return value or default
        if value is None:
            return self._fail(loc, f"the variable {name} is not set", "set it, or write ${" + name + ":-default}")
        if not value:
            self.notes.append((loc, f"the variable {name} is set but empty"))
        return value

    def _input(self, name: str, loc: Loc) -> str:
        """Give an input of VS Code, which asks for it, by the variable of the same name or its form for a shell."""
        shell = re.sub(r"[^A-Za-z0-9]", "_", name).upper()
        for variable in (name, shell):
            if (value := self.source.environ.get(variable)) is not None:
                return value
        return self._fail(loc, f"the variable {shell} is not set", f"it stands for the input {name}")

    def _file(self, name: str, loc: Loc) -> str:
        if not name:
            return self._fail(loc, "an expansion of unknown form", "write ${file:/path}", malformed=True)
        label = f"the file {shown(name)}"
        try:
            content = self.source.reading.read(self.source.base / name, MAX_VALUE)
            text = content.data.decode("utf-8")
        except FileProblem as problem:
            return self._fail(loc, f"{label} {problem}")
        except UnicodeDecodeError:
            return self._fail(loc, f"{label} is not UTF-8")
        others = exposure(content, os.geteuid())
        if others and self.source.is_secret(loc):
            return self._fail(loc, f"{label} {others}", "chmod 600 it: it holds a secret")
        if others:
            self.notes.append((loc, f"{label} {others}"))
        return text.removesuffix("\n").removesuffix("\r")

    def _fail(self, loc: Loc, text: str, hint: str = "", *, malformed: bool = False) -> str:
        self.failures.append(Failure(loc, text, hint, malformed))
        return ""
