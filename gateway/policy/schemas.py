"""Arguments against the schema their tool was listed with (JSON Schema; the only home of its validator).

No schema makes the gateway fetch anything (S76), and none is used whose worst case would hold up others (S77).
Messages name places and rules, never a value that a client sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import jsonschema_rs

from gateway.model.catalog import Definition
from gateway.policy.schema_cost import TooExpensive, cost, size_of
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Raw, Value

MAX_FAULTS: Final = 3
"""Faults named in one refusal."""
_MAX_TEXT: Final = 200
_MAX_REMEMBERED: Final = 16_384
_BUDGET: Final = 2_000_000
"""Subschemas applied to values in one check; the validator does some fifty million a second."""
MAX_VALUES: Final = 100_000
"""Values in one check, whatever the schema: to count them takes its time too."""
_EXPLAINED: Final = 1_000_000
"""Up to here faults are worked out one by one, all of them and each with a copy of the value it is about."""
_BACKTRACKS: Final = 2_000
_MASK: Final = "the value"
_PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS)


@dataclass(frozen=True, slots=True)
class Unusable:
    """A schema that no arguments can be checked against; ``text`` says why and is for operators."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A compiled schema. ``cost`` are the subschemas that one value can meet at most, those that take long several."""

    validator: jsonschema_rs.Validator | None
    cost: int = 1

    def faults(self, arguments: Object) -> tuple[str, ...]:
        """Return what is wrong with arguments, at most ``MAX_FAULTS``; nothing if they fit."""
        if self.validator is None:
            return ()
        most = min(_BUDGET // self.cost, MAX_VALUES)
        size = size_of(arguments, most)
        if size >= most:
            return ("they are too large to be checked against the schema",)
        try:
            if self.validator.is_valid(arguments):
                return ()
            if self.cost * size * size > _EXPLAINED:
                return ("they do not fit the schema",)
            return self._explained(arguments)
        except ValueError:
            # Deeper than the validator goes, or an integer it does not take: not found to fit.
            return ("they cannot be checked against the schema",)

    def fits(self, content: Object, size: int) -> bool:
        """Tell whether content of so many values (``schema_cost.size_of``) fits, without a word on what does not.

        What nobody can check in bounded time does not fit.
        """
        if self.validator is None or size >= min(_BUDGET // self.cost, MAX_VALUES):
            return False
        try:
            return self.validator.is_valid(content)
        except ValueError:
            # Deeper than the validator goes, or an integer it does not take.
            return False

    def _explained(self, arguments: Object) -> tuple[str, ...]:
        assert self.validator is not None
        found: list[str] = []
        for fault in self.validator.iter_errors(arguments):
            found.append(_told(fault))
            if len(found) == MAX_FAULTS:
                break
        return tuple(found)


@dataclass(frozen=True, slots=True)
class _Key:
    digest: str
    schema: Raw | None = field(compare=False)


def judged(definition: Definition) -> Schema | Unusable:
    """Return the compiled ``inputSchema`` of a tool, or why it cannot be used; the work is done once per definition."""
    return _judged(_Key(definition.digest, definition.members.get("inputSchema")))


@lru_cache(maxsize=_MAX_REMEMBERED)
def _judged(key: _Key) -> Schema | Unusable:
    if key.schema is None:
        return Schema(None)
    try:
        return compiled(rawjson.decode_value(key.schema))
    except JsonError as error:
        return Unusable("invalid_schema", f"its inputSchema is not acceptable: {error.reason}")


def compiled(schema: Value) -> Schema | Unusable:
    """Compile a schema. Formats are annotations, as 2020-12 has it; without ``$schema`` it is a 2020-12 schema."""
    if not isinstance(schema, dict):
        return Unusable("invalid_schema", "its inputSchema is not an object")
    dialect = schema.get("$schema")
    try:
        estimate = cost(schema)
        validator = jsonschema_rs.validator_for(
            schema, validate_formats=False, mask=_MASK, pattern_options=_PATTERNS, offline=True
        )
    except TooExpensive as error:
        return Unusable("too_expensive", f"its inputSchema cannot be checked in bounded time: {error}")
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        return _unusable(error, dialect)
    if not estimate.followed:
        return Unusable("too_expensive", "its inputSchema has a reference of which nobody can say how far it leads")
    return Schema(validator, estimate.most)


def _unusable(error: Exception, dialect: Value) -> Unusable:
    said = str(error)
    if said.startswith("Unknown meta-schema"):
        shown = _plain(str(dialect))
        return Unusable("unsupported_dialect", f"its inputSchema is written in a dialect that is not known: {shown}")
    if "is not present in a registry" in said or isinstance(error, jsonschema_rs.ReferencingError):
        return Unusable("unresolvable_ref", "its inputSchema refers to something outside of it, which is not fetched")
    where = "/".join(str(part) for part in getattr(error, "instance_path", ()))
    place = f" at {_plain(where)}" if where else ""
    return Unusable("invalid_schema", f"its inputSchema is not a valid JSON Schema{place}")


def _told(fault: jsonschema_rs.ValidationError) -> str:
    where = "/".join(str(part) for part in fault.instance_path)
    return f"{_plain(where)}: {_plain(fault.message)}" if where else _plain(fault.message)


def _plain(text: str) -> str:
    """Return a text that may be shown: no characters that people do not see, and not much of it."""
    shown = "".join(each if each.isprintable() else "?" for each in text[: _MAX_TEXT + 1])
    return shown if len(shown) <= _MAX_TEXT else shown[: _MAX_TEXT - 1] + "…"
