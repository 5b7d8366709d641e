"""``policies`` of the main file: each entry a policy, or a glob of files that hold some under a top-level ``policies``.

A glob that finds nothing is an error: a policy that silently is not there would widen what is allowed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.config.document import parse
from gateway.config.places import Document, Loc, Mapping, Places, Tree, shown
from gateway.config.reading import MAX_CONFIG, FileProblem, Reading
from gateway.config.shape import nearest
from gateway.errors import ConfigError, Problem


class PolicyFiles:
    """Collects the policies of a config into one list, each with the place it was written at."""

    def __init__(self, base: Path, reading: Reading, places: Places) -> None:
        self.policies: list[Tree] = []
        self.problems: list[Problem] = []
        self._base = base
        self._reading = reading
        self._places = places
        self._seen: dict[Path, Loc] = {}
        self._grafts: list[tuple[Document, Loc]] = []
        self.data: list[bytes] = []

    def gather(self, entries: dict[int, Tree], main: Document) -> None:
        """Read every entry. ``entries`` are the globs expanded, and policies, by where they stand in ``main``."""
        for index, entry in entries.items():
            loc: Loc = ("policies", index)
            if isinstance(entry, str):
                self._glob(entry, loc)
            else:
                self._add(entry, main, loc)
        for index, (document, origin) in enumerate(self._grafts):
            self._places.graft(("policies", index), document, origin)

    def _add(self, policy: Tree, document: Document, loc: Loc) -> None:
        self.policies.append(policy)
        self._grafts.append((document, loc))

    def _glob(self, pattern: str, loc: Loc) -> None:
        if not pattern:
            self._problem(loc, "is an empty path")
            return
        try:
            matches = self._reading.glob(str(self._base / pattern))
        except ValueError:
            self._problem(loc, "is no path")
            return
        if not matches:
            self._problem(loc, "no file is there", _like(self._base / pattern))
        for match in matches:
            self._file(Path(match), loc)

    def _file(self, path: Path, loc: Loc) -> None:
        if path in self._seen:
            self._problem(loc, f"the file {shown(path.name)} is already read for another entry")
            return
        self._seen[path] = loc
        try:
            content = self._reading.read(path, MAX_CONFIG)
        except FileProblem as problem:
            self._problem(loc, f"the file {shown(str(path))} {problem}")
            return
        self.data.append(content.data)
        try:
            document = parse(content.data, str(path))
        except ConfigError as error:
            self.problems.extend(error.problems)
            return
        self._take(document)

    def _take(self, document: Document) -> None:
        own = Places(document)
        for key in document.root:
            if key != "policies":
                self.problems.append(own.problem((key,), "unknown key", nearest(key, ["policies"]) or _ONLY))
        if "policies" not in document.root:
            self.problems.append(Problem("has no policies", document.file, 1, hint=_ONLY))
            return
        policies = document.root["policies"]
        if not isinstance(policies, list):
            self.problems.append(own.problem(("policies",), "must be a list", "one policy an item, after '- '"))
            return
        for index, policy in enumerate(policies):
            if isinstance(policy, str):
                text = "must be a policy: files named in a policy file are not read"
                self.problems.append(own.problem(("policies", index), text))
            else:
                self._add(policy, document, ("policies", index))

    def _problem(self, loc: Loc, message: str, hint: str = "") -> None:
        self.problems.append(self._places.problem(loc, message, hint))


_ONLY: Final = "a policy file has one key, policies"


def _like(pattern: Path) -> str:
    """Suggest the file or folder that is nearest to one that does not exist."""
    wanted = pattern
    while wanted.parent != wanted and not wanted.parent.is_dir():
        wanted = wanted.parent
    try:
        names = [entry.name for entry in wanted.parent.iterdir()]
    except OSError:
        return ""
    return nearest(wanted.name, names)


def policy_entries(root: Mapping) -> list[Tree] | None:
    """Return the entries of ``policies``, or None where there are none or they are no list."""
    entries = root.get("policies")
    return entries if isinstance(entries, list) else None
