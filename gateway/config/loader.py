"""From a file to a config that may be served: read, adopt, expand, validate, judge.

Every problem found is reported, not only the first; nothing is served of a config that has one. Files are read
once and the load is thrown away when one of them changed meanwhile (``reading``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from pydantic import ValidationError

from gateway.config.access_rules import judge_access
from gateway.config.alert_rules import judge_alerts
from gateway.config.api_files import with_documents
from gateway.config.approval_rules import judge_approvals
from gateway.config.document import parse
from gateway.config.expand import Expansion, Failure, Source
from gateway.config.foreign import Adopted, adopt
from gateway.config.paths import make_absolute, referred
from gateway.config.places import Document, Loc, Places, Tree, at, dotted
from gateway.config.places import Mapping as Values
from gateway.config.plain_rules import judge_plain
from gateway.config.policy_files import PolicyFiles, policy_entries
from gateway.config.policy_rules import judge_policies
from gateway.config.reading import MAX_CONFIG, FileProblem, Reading, Unreadable
from gateway.config.root import Config, LoadedConfig
from gateway.config.server_rules import judge_servers
from gateway.config.shape import is_secret
from gateway.config.sources import Sources
from gateway.config.start_rules import start_problems
from gateway.config.subject import Findings, Subject
from gateway.config.token_rules import judge_tokens
from gateway.config.translate import Translation
from gateway.config.view_rules import judge_views
from gateway.errors import ConfigError, Problem

__all__ = ["ConfigError", "Unreadable", "load", "load_sections", "start_problems"]

ATTEMPTS: Final = 3
Positions: TypeAlias = dict[str, tuple[str, int, str]]
_TRUE: Final = ("true", "yes", "on", "1", "t", "y")


def _nobody(_sources: Sources) -> None:
    """Hear of nothing."""


def load(path: Path, environ: Mapping[str, str], drew: Callable[[Sources], None] = _nobody) -> LoadedConfig:
    """Read a config with everything it refers to; ``drew`` is told what that was, also where it cannot be served.

    Raises:
        Unreadable: the file itself cannot be read.
        ConfigError: with every problem found, each with file, line, dotted path and, where there is one, a hint.
    """
    return _load(path, environ, None, drew)


def load_sections(path: Path, environ: Mapping[str, str], sections: Collection[str]) -> LoadedConfig:
    """Read these sections alone, whatever is wrong with the others: enough to ask a gateway that runs, never to serve.

    Raises:
        Unreadable: the file itself cannot be read.
        ConfigError: one of the sections is wrong, or the file is no YAML.
    """
    return _load(path, environ, frozenset(sections), _nobody)


def _load(
    path: Path, environ: Mapping[str, str], sections: Collection[str] | None, drew: Callable[[Sources], None]
) -> LoadedConfig:
    for _ in range(ATTEMPTS):
        reading = Reading()
        try:
            loaded = _Load(path, environ, reading, sections).run()
        except ConfigError:
            drew(reading.sources())
            if reading.unchanged():
                raise
        else:
            drew(loaded.sources)
            if reading.unchanged():
                return loaded
    raise ConfigError([Problem("its files kept changing while they were read", str(path))])


@dataclass(slots=True)
class _Load:
    """One attempt."""

    path: Path
    environ: Mapping[str, str]
    reading: Reading
    sections: Collection[str] | None = None
    off: dict[str, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)

    def run(self) -> LoadedConfig:
        base = Path(self.path).absolute().parent
        try:
            data = self.reading.read(Path(self.path), MAX_CONFIG).data
        except FileProblem as problem:
            raise Unreadable(self.path, str(problem)) from None
        document = parse(data, str(self.path))
        adopted = adopt(document)
        if self.sections is not None:
            kept = {key: value for key, value in adopted.root.items() if key in self.sections}
            adopted = Adopted(kept, adopted.places)
        findings = Findings(adopted.places, list(adopted.problems), list(adopted.notes))
        self.off.update(adopted.off)
        policies = self._policies(adopted, document, base, findings)
        missing = refuse_nothing(adopted.root, findings)
        expansion = self._expansion(adopted, base)
        tree = expansion.expand(adopted.root)
        assert isinstance(tree, dict)
        failed = self._failures(expansion, tree, findings)
        for loc, text in expansion.notes:
            findings.note(loc, text)
        findings.settled = frozenset(missing | failed | {("servers", name) for name in adopted.off})
        make_absolute(tree, base)
        for loc, named in referred(tree):
            self.reading.refer(loc, named)
        config = self._validate(tree, expansion, findings)
        if config is not None:
            config = with_documents(config, self.off, self.reading, findings)
        if config is None and not findings.problems:
            findings.problem((), "is not valid")
        if config is None or findings.problems:
            raise ConfigError(in_order(findings.problems))
        texts = [data, *policies.data]
        return self._loaded(config, digest_of(texts), positions_of(document, tree, adopted.places), findings)

    def _expansion(self, adopted: Adopted, base: Path) -> Expansion:
        return Expansion(Source(self._variables(adopted), base, self.reading, is_secret, adopted.inputs))

    def _variables(self, adopted: Adopted) -> Mapping[str, str]:
        """Other programs know ``${userHome}``."""
        if adopted.taken and "HOME" in self.environ:
            return {"userHome": self.environ["HOME"], **self.environ}
        return self.environ

    def _policies(self, adopted: Adopted, document: Document, base: Path, findings: Findings) -> PolicyFiles:
        """Put the policies of all files in place of the globs that name them."""
        files = PolicyFiles(base, self.reading, adopted.places)
        entries = policy_entries(adopted.root)
        if entries is None:
            return files
        # Policies themselves are expanded with everything else, once it is known where each stands.
        wanted: dict[int, Tree] = {}
        for index, entry in enumerate(entries):
            expansion = self._expansion(adopted, base)
            value = expansion.expand(entry, ("policies", index)) if isinstance(entry, str) else entry
            for failure in expansion.failures:
                findings.problem(failure.loc, failure.text, failure.hint)
            if not expansion.failures:
                wanted[index] = value
        files.gather(wanted, document)
        findings.problems.extend(files.problems)
        adopted.root["policies"] = files.policies
        return files

    def _failures(self, expansion: Expansion, tree: Values, findings: Findings) -> set[Loc]:
        """Switch servers off whose variables or files are missing; anywhere else that is an error."""
        for failure in expansion.failures:
            loc = failure.loc
            server = str(loc[1]) if loc[0] == "servers" and len(loc) > 2 else None
            if server is None or failure.malformed:
                findings.problem(loc, failure.text, failure.hint)
                continue
            if server not in self.off:
                self.off[server] = f"{dotted(loc[2:])}: {failure.text}"
                self.missing.add(server)
            if str(at(tree, ("servers", server, "required"))).casefold() in _TRUE:
                findings.problem(loc, failure.text, "the server is required" + _and(failure))
        return {failure.loc for failure in expansion.failures}

    def _validate(self, tree: Values, expansion: Expansion, findings: Findings) -> Config | None:
        """Validate everything, then judge the parts that are valid, so that one report has all problems."""
        translation = Translation(tree, findings.places, lambda loc: loc not in expansion.referring)
        broken: set[Loc] = set()
        whole: Config | None = None
        try:
            whole = Config.model_validate(tree)
        except ValidationError as error:
            for loc, problem in translation.problems(error):
                broken.add(_unit(loc))
                if not findings.is_settled(loc):
                    findings.problems.append(problem)
        for name in self.off:
            broken.add(("servers", name))
        rest = _without(tree, broken)
        try:
            config = whole if whole is not None and not broken else Config.model_validate(rest)
        except ValidationError:
            return None
        subject = Subject(
            config=config,
            places=findings.places,
            servers=_names(tree, "servers"),
            clients=_names(tree, "clients"),
            tree=tree,
            emptied=frozenset(expansion.emptied),
            referring=frozenset(expansion.referring),
        )
        judge_servers(subject, findings)
        judge_access(subject, findings)
        judge_plain(subject, findings)
        judge_policies(subject, findings)
        judge_tokens(subject, findings)
        judge_approvals(subject, findings)
        judge_alerts(subject, findings)
        judge_views(subject, findings)
        return config

    def _loaded(self, config: Config, digest: str, positions: Positions, findings: Findings) -> LoadedConfig:
        running = {name: server for name, server in config.servers.items() if name not in self.off}
        return LoadedConfig(
            config=config.model_copy(update={"servers": running}),
            path=Path(self.path).absolute(),
            digest=digest,
            off=self.off,
            notes=findings.notes,
            sources=self.reading.sources(),
            missing=frozenset(self.missing),
            positions=positions,
        )


def digest_of(texts: list[bytes]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(len(text).to_bytes(8, "big") + text)
    return digest.hexdigest()


def positions_of(main: Document, tree: Values, places: Places) -> Positions:
    """Say where everything was written, for checks that come after the load; policies are found by their name."""
    positions = {dotted(loc): (main.file, line, dotted(loc)) for loc, line in main.lines.items()}
    policies = tree.get("policies")
    for index, policy in enumerate(policies if isinstance(policies, list) else []):
        document, origin = places.origin(("policies", index))
        prefix = f"policies[{at(policy, ('name',))}]"
        for loc, line in document.lines.items():
            if loc[: len(origin)] == origin:
                rest = dotted(loc[len(origin) :])
                separator = "." if rest and not rest.startswith("[") else ""
                positions[prefix + separator + rest] = (document.file, line, dotted(loc))
    return positions


def _and(failure: Failure) -> str:
    return f"; {failure.hint}" if failure.hint else ""


def refuse_nothing(root: Values, findings: Findings) -> set[Loc]:
    """Refuse every key without a value, and return them.

    A key without a value looks like a section and is none: its lines may have been commented out.
    """
    missing = {loc for loc in _empty_places(root) if loc[2:4] != ("pin", "probe")}
    for loc in missing:
        findings.problem(loc, "has no value", "remove the key, or write the value behind it")
    return missing


def _empty_places(tree: Tree, loc: Loc = ()) -> Iterator[Loc]:
    if tree is None:
        yield loc
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _empty_places(value, (*loc, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _empty_places(value, (*loc, index))


def _unit(loc: Loc) -> Loc:
    """Return the part that is left out when something in it is broken."""
    return loc[:2] if loc and loc[0] in ("servers", "clients", "policies", "views") and len(loc) > 1 else loc[:1]


def _without(tree: Values, broken: set[Loc]) -> Values:
    """Return the tree without its broken parts."""
    rest: Values = {}
    for section, value in tree.items():
        if (section,) in broken:
            continue
        if section == "policies" and isinstance(value, list):
            rest[section] = [item for index, item in enumerate(value) if (section, index) not in broken]
        elif isinstance(value, dict):
            rest[section] = {key: item for key, item in value.items() if (section, key) not in broken}
        else:
            rest[section] = value
    return rest


def _names(tree: Values, section: str) -> tuple[str, ...]:
    values = tree.get(section)
    return tuple(values) if isinstance(values, dict) else ()


def in_order(problems: list[Problem]) -> list[Problem]:
    """Sort by file and line, each once; files in the order in which they were first complained about."""
    files = list(dict.fromkeys(problem.file for problem in problems))
    return sorted(dict.fromkeys(problems), key=lambda problem: (files.index(problem.file), problem.line))
