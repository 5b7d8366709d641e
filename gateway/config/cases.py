"""``NAME.cases.yaml``: who calls what, and what the policies beside it are expected to decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, WithJsonSchema

from gateway.config.document import parse
from gateway.config.expand import Expansion, Source
from gateway.config.loader import in_order
from gateway.config.places import Places
from gateway.config.reading import MAX_CONFIG, FileProblem, Reading, Unreadable
from gateway.config.subject import Findings
from gateway.config.translate import Translation
from gateway.config.types import Model
from gateway.errors import ConfigError

SUFFIXES: Final = (".cases.yaml", ".cases.yml")
MONDAY_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
"""When a case takes place that does not say it."""


def parse_time(value: object) -> datetime:
    """Read an ISO date with time and zone, as in ``2026-08-24T10:00:00+02:00``."""
    if isinstance(value, datetime):
        return value
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError("must be a time with its zone, such as 2026-08-24T10:00:00+02:00 or 2026-08-24T10:00:00Z")
    return time


Time: TypeAlias = Annotated[
    datetime, BeforeValidator(parse_time), WithJsonSchema({"type": "string", "format": "date-time"})
]


class Caller(Model):
    """Somebody who calls."""

    id: str = Field(default="somebody", min_length=1)
    """A client's name, or a full principal id."""
    groups: list[str] = []
    """Groups it is in; a configured client has its own besides."""
    scopes: list[str] = []
    """Scopes of its token."""
    claims: dict[str, object] = {}
    """Claims of its token."""


def _form(value: object) -> str | None:
    if isinstance(value, str):
        return "name"
    return "caller" if isinstance(value, (dict, Caller)) else None


Who: TypeAlias = Annotated[
    Annotated[str, Tag("name")] | Annotated[Caller, Tag("caller")],
    Discriminator(_form, custom_error_type="who_form", custom_error_message="must be a name or a mapping"),
]


class Case(Model):
    """One call and what is to become of it."""

    name: str = ""
    """What the case shows."""
    who: Who
    """Who calls: a name, or what is known of the caller."""
    call: str
    """`server/name` with the server's own name, with `prompt:`, `resource:` or `template:` in front for those."""
    args: dict[str, object] = {}
    """Arguments of the call."""
    annotations: dict[str, object] = {}
    """Annotations of the tool."""
    at: Time = MONDAY_NOON
    """When; noon UTC on a Monday where nothing is said."""
    view: str = ""
    """Through which view."""
    expect: Literal["allow", "approve", "deny", "hidden"]
    """`allow`: at once; `approve`: after a person's yes; `deny`: refused, listed or not; `hidden`: not even listed."""
    policy: str = ""
    """The policy that must have decided."""
    rule: str = ""
    """Its rule, such as `allow[0]`."""
    reason: str = ""
    """Why, in a word of docs/policies.md."""


class CaseFile(Model):
    """A file of cases."""

    cases: list[Case] = Field(min_length=1)
    """The cases, each judged by itself."""


@dataclass(frozen=True, slots=True)
class PlacedCase:
    """A case, and where it is written."""

    case: Case
    file: str
    line: int


def load_cases(path: Path, environ: Mapping[str, str]) -> list[PlacedCase]:
    """Read a file of cases.

    Raises:
        Unreadable: it cannot be read.
        ConfigError: with every problem found, each with file, line, path and, where there is one, a hint.
    """
    reading = Reading()
    try:
        data = reading.read(path, MAX_CONFIG).data
    except FileProblem as problem:
        raise Unreadable(path, str(problem)) from None
    document = parse(data, str(path))
    places = Places(document)
    expansion = Expansion(Source(environ, path.absolute().parent, reading, lambda _: False))
    tree = expansion.expand(document.root)
    findings = Findings(places)
    for failure in expansion.failures:
        findings.problem(failure.loc, failure.text, failure.hint)
    if findings.problems:
        raise ConfigError(in_order(findings.problems))
    try:
        found = CaseFile.model_validate(tree)
    except ValidationError as error:
        translation = Translation(tree, places, lambda loc: loc not in expansion.referring, CaseFile)
        raise ConfigError(in_order([problem for _, problem in translation.problems(error)])) from None
    return [
        PlacedCase(case, str(path), document.lines.get(("cases", index), 1)) for index, case in enumerate(found.cases)
    ]


def cases_of(policy_file: Path) -> Path | None:
    """Return the file of cases that lies beside a policy file."""
    for suffix in SUFFIXES:
        path = policy_file.with_name(policy_file.stem + suffix)
        if path.is_file():
            return path
    return None


def policy_file_of(cases: Path) -> Path | None:
    """Return the policy file that a file of cases lies beside."""
    stem = next((cases.name.removesuffix(suffix) for suffix in SUFFIXES if cases.name.endswith(suffix)), None)
    if stem is None:
        return None
    found = [path for end in (".yaml", ".yml", ".json") if (path := cases.with_name(stem + end)).is_file()]
    return found[0] if found else None
