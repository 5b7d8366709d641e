"""What other policies would have decided about the calls that the audit log recorded, asked of the engine itself.

A rule that looks at something a record does not hold is not guessed: the engine is asked twice, once as if every such
rule were kind to the caller and once as if none were, and only where both agree is there an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final

from gateway.audit.keys import KEY_FILE, AuditKey, load_key
from gateway.audit.recorded import NotRecorded, Recorded, Stand, read_call, sidecar_of
from gateway.audit.segment import list_segments, read_lines
from gateway.audit.sidecars import Sidecars
from gateway.policy.conditions import Condition
from gateway.policy.decision import Decision, Question
from gateway.policy.engine import Engine
from gateway.policy.match import Who
from gateway.policy.reads import IDENTITY, reads
from gateway.policy.rules import CompiledPolicy, Rule
from gateway.policy.selectors import Selector, parse_selector
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object

_CALLS: Final = (b'"event":"call.start"', b'"event":"call.denied"')
_ANNOTATIONS: Final = ("tool", "annotations")
_SUBJECT: Final = "sub:"
_BATCH: Final = 5_000
"""Records that are looked at together, so that what stands beside the chain is searched once for all of them."""
_TOLD: Final = 65_536
"""Bytes after which it is told again how many were read."""
_MAX_VARIANTS: Final = 256
_LONG: Final = 64 * 1024
"""Bytes of arguments beyond which a loop over them may have been too much, and what is kept of them not."""


@dataclass(frozen=True, slots=True)
class Change:
    """A call that would have been decided otherwise."""

    call: Recorded
    after: Stand


@dataclass(frozen=True, slots=True)
class Undecidable:
    """Of a call the record does not tell what would have been decided; ``reasons`` name rules and what they lack."""

    reasons: tuple[str, ...]


@dataclass(slots=True)
class Tally:
    """How many calls were judged, and what became of the others."""

    judged: int = 0
    changed: int = 0
    undecidable: int = 0
    unknown_names: int = 0
    unreadable: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """How many calls each rule left undecidable, by rule and what it lacks."""


@dataclass(frozen=True, slots=True)
class Log:
    """Where records are, and which. ``state`` is the gateway's state directory where it is at hand."""

    directory: Path
    state: Path | None = None
    since: datetime | None = None
    until: datetime | None = None

    def key(self) -> AuditKey | None:
        """Return the key of the log's digests, if it is there; makes none."""
        if self.state is None or not (self.state / KEY_FILE).is_file():
            return None
        return load_key(self.state)


class Replay:
    """One candidate over one log. Where it says nothing of views, what was in one stays in it."""

    def __init__(self, engine: Engine, log: Log, *, knows_views: bool) -> None:
        self._candidate = _Candidate(engine, log.key(), knows_views=knows_views)
        self._log = log
        self._read = 0
        self._progress: Callable[[int], None] | None = None
        self.tally = Tally()

    def run(self, progress: Callable[[int], None] | None = None) -> Iterator[Change]:
        """Ask about every call and yield those that would be decided otherwise, in the order of the log.

        ``progress`` hears now and then how many bytes of it were read.

        Raises:
            OSError: the log cannot be read.
            ConfigError: the key of the log cannot be read.
        """
        self._progress = progress
        for segment in list_segments(self._log.directory):
            records = self._records(segment.path)
            while batch := [*islice(records, _BATCH)]:
                beside = self._beside(batch)
                for record in batch:
                    change = self._ask(record, beside.get(sidecar_of(record)))
                    if change is not None:
                        yield change

    def _records(self, path: Path) -> Iterator[Object]:
        for line, ended in read_lines(path):
            self._tell(len(line) + 1)
            if not ended or not any(event in line for event in _CALLS):
                continue
            try:
                record = rawjson.decode_value(line)
            except JsonError:
                self.tally.unreadable += 1
                continue
            if isinstance(record, dict) and self._is_wanted(record.get("ts")):
                yield record

    def _tell(self, size: int) -> None:
        before, self._read = self._read, self._read + size
        if self._progress is not None and before // _TOLD != self._read // _TOLD:
            self._progress(self._read)

    def _is_wanted(self, ts: object) -> bool:
        if self._log.since is None and self._log.until is None:
            return True
        try:
            at = datetime.fromisoformat(str(ts))
        except ValueError:
            return True
        since, until = self._log.since or at, self._log.until
        return since <= at and (until is None or at < until)

    def _beside(self, records: Iterable[Object]) -> Mapping[str, bytes]:
        """Return what is kept beside the chain for these records, as far as its keys are at hand."""
        if self._log.state is None:
            return {}
        wanted: dict[str, set[str]] = {}
        for record in records:
            if name := sidecar_of(record):
                wanted.setdefault(str(record.get("ts"))[:10], set()).add(name)
        sidecars = Sidecars(self._log.directory, self._log.state)
        found: dict[str, bytes] = {}
        for day, names in wanted.items():
            found |= sidecars.read(frozenset(names), datetime.fromisoformat(day).replace(tzinfo=UTC))
        return found

    def _ask(self, record: Object, beside: bytes | None) -> Change | None:
        tally = self.tally
        try:
            call = read_call(record, beside)
            answer = None if call is None else self._candidate.decide(call)
        except NotRecorded as missing:
            tally.undecidable += 1
            tally.reasons[str(missing)] += 1
            return None
        if call is None or answer is None:
            tally.unknown_names += 1
            return None
        if isinstance(answer, Undecidable):
            tally.undecidable += 1
            tally.reasons.update(answer.reasons)
            return None
        tally.judged += 1
        after = Stand("allow" if answer.allowed else "deny", answer.policy, answer.rule, answer.reason)
        if after.action == call.stand.action:
            return None
        tally.changed += 1
        return Change(call, after)


class _Candidate:
    """The engine of the candidate, and what it becomes where rules cannot be asked."""

    def __init__(self, engine: Engine, key: AuditKey | None, *, knows_views: bool) -> None:
        self._views: dict[str, tuple[Selector, ...]] = dict(engine.views)
        self._engine = Engine(engine.policies, self._views, "none")
        self._key = key
        self._knows_views = knows_views
        self._everything = (parse_selector("any:*/**"),)
        self._needs: dict[str, tuple[bool, bool]] = {}
        self._variants: dict[tuple[frozenset[str], frozenset[str], bool], Engine] = {}
        self._subjects: dict[str, tuple[str, ...]] = {
            policy.name: tuple(sorted(each for each in policy.who.ids if each.startswith(_SUBJECT)))
            for policy in engine.policies
        }

    def decide(self, call: Recorded) -> Decision | Undecidable:
        """Decide a call, or say what that would take."""
        call, maybe = self._identified(call)
        args = call.arguments.kept
        question = Question(call.principal, call.target, args, self._view(call.view), call.at)
        reasons = {f"policy {name}: whether it is about a subject whose id is not in the log": "" for name in maybe}
        unknown: set[str] = set()
        for policy in self._engine.policies:
            if policy.name in maybe or policy.who.matches(call.principal):
                for label, lacks in self._lacking(policy, call):
                    unknown.add(label)
                    reasons[f"{label} reads {lacks}"] = ""
        if not unknown and not maybe:
            return self._engine.decide(question)
        asked = frozenset(unknown), frozenset(maybe)
        kind = self._variant(*asked, kind=True).decide(question)
        strict = self._variant(*asked, kind=False).decide(question)
        if kind.allowed != strict.allowed:
            return Undecidable(tuple(reasons))
        # A refusal is named by what refuses whoever is kind, a permission by what permits whoever is not.
        return strict if strict.allowed else kind

    def _view(self, view: str | None) -> str | None:
        if view is not None and not self._knows_views:
            self._views.setdefault(view, self._everything)
        return view

    def _identified(self, call: Recorded) -> tuple[Recorded, tuple[str, ...]]:
        """Find a hashed subject among those that policies name; else return the policies that may be about it."""
        if not call.subject:
            return call, ()
        named = {name: ids for name, ids in self._subjects.items() if ids}
        if self._key is not None and call.is_hashed_with(self._key):
            for identity in {each for ids in named.values() for each in ids}:
                if call.is_subject(identity, self._key):
                    return replace(call, principal=replace(call.principal, id=identity), subject=""), ()
            return call, ()
        policies = (policy for policy in self._engine.policies if policy.name in named)
        return call, tuple(policy.name for policy in policies if not policy.who.matches(call.principal))

    def _lacking(self, policy: CompiledPolicy, call: Recorded) -> Iterator[tuple[str, str]]:
        """Yield the rules about the target whose conditions look at what the record does not hold, and at what."""
        for rule in (*policy.deny, *policy.allow):
            condition = rule.condition
            if condition is None or not rule.covers(call.target):
                continue
            lacks = self._first_unknown(condition, call)
            if lacks:
                yield f"{policy.name} {rule.id}", lacks

    def _first_unknown(self, condition: Condition, call: Recorded) -> str:
        if condition.loops and condition.mentions_args and call.arguments.size > _LONG:
            return "arguments too long to be asked about again"
        for path in condition.reads:
            if not call.arguments.knows(path):
                return "args" + "".join(f".{part}" for part in path)
        for path in condition.claims:
            if not call.knows_claim(path):
                return "principal.claims" + "".join(f".{part}" for part in path)
        identity, annotations = self._needs_of(condition)
        if identity and call.subject:
            return "principal.id"
        return "tool.annotations" if annotations and not call.annotations_known else ""

    def _needs_of(self, condition: Condition) -> tuple[bool, bool]:
        found = self._needs.get(condition.text)
        if found is None:
            found = bool(reads(condition.text, IDENTITY)), bool(reads(condition.text, _ANNOTATIONS))
            self._needs[condition.text] = found
        return found

    def _variant(self, unknown: frozenset[str], maybe: frozenset[str], *, kind: bool) -> Engine:
        """Return the engine in which what is unknown is in favour of the caller, or against it."""
        key = (unknown, maybe, kind)
        if len(self._variants) >= _MAX_VARIANTS:
            self._variants.clear()
        if key not in self._variants:
            policies = [_assumed(policy, unknown, policy.name in maybe, kind=kind) for policy in self._engine.policies]
            self._variants[key] = Engine(policies, self._views, "none")
        return self._variants[key]


def _assumed(policy: CompiledPolicy, unknown: frozenset[str], maybe: bool, *, kind: bool) -> CompiledPolicy:
    allow = _rules(policy, policy.allow, unknown, holds=kind)
    deny = _rules(policy, policy.deny, unknown, holds=not kind)
    if not maybe:
        return replace(policy, allow=allow, deny=deny)
    everybody = Who(True, frozenset(), frozenset(), frozenset())
    return replace(policy, who=everybody, allow=allow if kind else (), deny=() if kind else deny)


def _rules(policy: CompiledPolicy, rules: Sequence[Rule], unknown: frozenset[str], *, holds: bool) -> tuple[Rule, ...]:
    """Return rules with those that cannot be asked always or never matching."""
    asked = ((rule, f"{policy.name} {rule.id}" in unknown) for rule in rules)
    return tuple(replace(rule, condition=None) if gone else rule for rule, gone in asked if holds or not gone)
