"""``when``: CEL expressions compiled once and evaluated without surprises; the only home of CEL.

The library returns run-time errors as values that look true, crashes on deep data and cannot be interrupted. So only
a value that is the boolean true counts as true, data is measured before CEL sees it, and what would take long is an
error. It also ends every text at a NUL character, so a value with one in it is as good as not there. What an error
means is for the rule to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from gateway.model.call import Target
from gateway.model.principal import Principal
from gateway.policy import arguments
from gateway.policy.reads import CLAIMS, Path, reads
from gateway.protocol.rawjson import Object, Value

MAX_SOURCE: Final = 8_192
"""Characters an expression may have."""
MAX_DEPTH: Final = 64
"""Levels of nesting that values may have; CEL recurses over them on the C stack."""
MAX_WORK: Final = 100_000_000
"""Characters a loop may read, at worst: items times text. About 0.2 s, during which nothing else runs."""
_MAX_ROUNDS: Final = 10_000
_NUL: Final = "\0"

_TYPE: Final = cel.Type


def _host_in(url: str, hosts: Iterable[object]) -> bool:
    return arguments.host_in(url, [str(host) for host in hosts])


_ARGS: Final = {"args": _TYPE.DYN}
# Qualified names instead of two maps: a misspelled member is found when the policy is loaded (G074).
_OTHERS: Final = {
    "tool.server": _TYPE.STRING,
    "tool.name": _TYPE.STRING,
    "tool.annotations": _TYPE.DYN,
    "principal.id": _TYPE.STRING,
    "principal.groups": _TYPE.List(_TYPE.STRING),
    "principal.scopes": _TYPE.List(_TYPE.STRING),
    "principal.claims": _TYPE.DYN,
    "view": _TYPE.STRING,
    "now": _TYPE.TIMESTAMP,
}
_OWN: Final = cel.CelExtension(
    "gateway",
    [
        cel.FunctionDecl(
            "inside",
            [cel.Overload("text_inside_text", _TYPE.BOOL, [_TYPE.STRING, _TYPE.STRING], True, arguments.inside)],
        ),
        cel.FunctionDecl(
            "hostIn",
            [cel.Overload("text_hostin_list", _TYPE.BOOL, [_TYPE.STRING, _TYPE.List(_TYPE.STRING)], True, _host_in)],
        ),
    ],
)
_EXTENSIONS: Final = [ext_strings.ExtStrings(), _OWN]
_WITH_ARGS: Final = cel.NewEnv(variables=_ARGS | _OTHERS, extensions=_EXTENSIONS)
_WITHOUT_ARGS: Final = cel.NewEnv(variables=_OTHERS, extensions=_EXTENSIONS)

_COMPLAINT: Final = re.compile(r"ERROR: <input>:(\d+:\d+: [^\n]*)")
_LOOP: Final = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(")
_LITERAL_ITEM: Final = re.compile(r",")
# CEL and what feeds it raise these: a spent iteration budget, data of no CEL type, an unpaired surrogate.
_FAILURES: Final = (RuntimeError, MemoryError, ValueError, TypeError, OverflowError)


class ConditionError(ValueError):
    """An expression that cannot be a condition; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Size:
    """What a value weighs: items (members and elements) and characters of text, and whether CEL cannot be given it."""

    items: int = 0
    text: int = 0
    unfit: bool = False


class Facts:
    """What conditions may ask about one call; values are converted for CEL once, and only those that are asked for.

    ``args`` is None for lists, where no arguments are known.
    """

    __slots__ = ("_activation", "_args", "_size", "now", "principal", "target", "view")

    def __init__(
        self, principal: Principal, target: Target, args: Object | None, view: str | None, now: datetime
    ) -> None:
        self.principal = principal
        self.target = target
        self.view = view
        self.now = now
        self._args = args
        self._size: Size | None = None
        self._activation: cel.Activation | None = None

    @property
    def size(self) -> Size:
        """What the arguments weigh."""
        if self._size is None:
            self._size = measure(self._args or {})
        return self._size

    @property
    def activation(self) -> cel.Activation:
        """The facts as CEL takes them. What it cannot be given is left out, and asking for it is an error."""
        if self._activation is None:
            self._activation = _WITH_ARGS.Activation(self._data())
        return self._activation

    def _data(self) -> dict[str, object]:
        principal = self.principal
        values: dict[str, Value | Mapping[str, Value]] = {
            "tool.server": self.target.server,
            "tool.name": self.target.name,
            "tool.annotations": self.target.annotations,
            "principal.id": principal.id,
            "principal.groups": [*sorted(principal.groups)],
            "principal.scopes": [*sorted(principal.scopes)],
            "principal.claims": dict(principal.claims),
            "view": self.view or "",
        }
        data: dict[str, object] = {name: value for name, value in values.items() if not measure(value).unfit}
        if self._args is not None and not self.size.unfit:
            data["args"] = self._args
        return data | {"now": self.now.astimezone(UTC)}


@dataclass(frozen=True, slots=True)
class Condition:
    """One compiled expression. ``mentions_args`` tells whether it can be judged before a call is made.

    ``reads`` are the arguments it looks at and ``claims`` the caller's claims, as paths; an empty path stands for all
    of them.
    """

    text: str
    mentions_args: bool
    loops: bool
    reads: tuple[Path, ...]
    claims: tuple[Path, ...]
    expression: cel.Expression

    def truth(self, facts: Facts) -> bool | None:
        """Return what the expression says, None where it says nothing: an error, or no boolean."""
        if self.loops and self.mentions_args and self._work(facts.size) > MAX_WORK:
            return None
        try:
            result = self.expression.eval(facts.activation)
            value = result.value() if result.type() == _TYPE.BOOL else None
        except _FAILURES:
            return None
        return value if isinstance(value, bool) else None

    def _work(self, size: Size) -> int:
        """Return how much text a loop may read: rounds come from items, or from text that the expression splits."""
        rounds = size.items + len(_LITERAL_ITEM.findall(self.text)) + (size.text if "split" in self.text else 0)
        return min(rounds, _MAX_ROUNDS) * size.text


def compile_condition(text: str) -> Condition:
    """Compile an expression.

    Raises:
        ConditionError: too long, not CEL, about something that does not exist, or not a condition.
    """
    if len(text) > MAX_SOURCE:
        raise ConditionError(f"is longer than {MAX_SOURCE} characters")
    if _NUL in text:
        raise ConditionError("has a NUL character in it")
    expression = _compile(_WITH_ARGS, text)
    if expression.return_type() not in (_TYPE.BOOL, _TYPE.DYN):
        raise ConditionError(f"must be true or false, not {expression.return_type().name()}")
    mentions = not _compiles_without_args(text)
    return Condition(
        text=text,
        mentions_args=mentions,
        loops=_LOOP.search(text) is not None,
        reads=reads(text) if mentions else (),
        claims=reads(text, CLAIMS),
        expression=expression,
    )


def _compile(environment: cel.Env, text: str) -> cel.Expression:
    try:
        return environment.compile(text)
    except (RuntimeError, TypeError) as error:
        # A text that is no UTF-8 is refused by the binding itself.
        complaints = _COMPLAINT.findall(str(error))
        raise ConditionError("is no CEL condition: " + ("; ".join(complaints[:3]) or "cannot be read")) from None


def _compiles_without_args(text: str) -> bool:
    try:
        _compile(_WITHOUT_ARGS, text)
    except ConditionError:
        return False
    return True


def measure(value: Value | Mapping[str, Value]) -> Size:
    """Weigh a value without recursion, stopping where it is too deep."""
    items = text = 0
    unfit = False
    layer: list[Value | Mapping[str, Value]] = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Value | Mapping[str, Value]] = []
        for item in layer:
            if isinstance(item, str):
                text += len(item)
                unfit = unfit or _NUL in item
            elif isinstance(item, Mapping):
                text += sum(map(len, item))
                unfit = unfit or any(_NUL in key for key in item)
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return Size(items, text, unfit)
        items += len(below)
        layer = below
    return Size(items, text, unfit=True)
