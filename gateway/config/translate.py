"""What pydantic found wrong, in the words of an operator: place, what is expected, what would be right.

Pydantic's own texts quote input, which may be a secret; none of them is passed on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gateway.config.places import Loc, Places, Tree, at, shown
from gateway.config.root import Config
from gateway.config.shape import annotations_at, keys_at, nearest
from gateway.errors import Problem

_PATTERNS: Final = {
    r"^/[A-Za-z0-9._~/-]*[A-Za-z0-9._~-]$": "must be a path such as /mcp, without a slash at the end",
    r"^[A-Za-z0-9_-]{1,4}$": "must be 1 to 4 of letters, digits, _ and -",
    r"^[A-Za-z0-9_-]{0,64}$": "must be at most 64 of letters, digits, _ and -",
    r"^(each|group|interval(\(1s\))?)$": "must be each, group or interval(1s)",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$": "must be a name: a letter or digit, then up to 63 of those and . _ -",
}

_TYPES: Final = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "missing": "is missing",
    "too_short": "must not be empty",
    "rule_form": "must be a selector such as server/name, or a mapping with tools",
    "otlp_form": "must be the address of a collector, or a mapping with url",
    "who_form": "must be a name as in clients of policies, or a mapping with id and groups",
}

_BOUNDS: Final = {
    "greater_than": ("gt", "must be more than"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than_equal": ("le", "must be at most"),
    "less_than": ("lt", "must be less than"),
}


class Translation:
    """Turns the errors of one validation, of ``root``, into problems."""

    def __init__(
        self, tree: Tree, places: Places, literal: Callable[[Loc], bool], root: type[BaseModel] = Config
    ) -> None:
        self._root = root
        self._tree = tree
        self._places = places
        self._literal = literal

    def problems(self, error: ValidationError) -> list[tuple[Loc, Problem]]:
        """Return each error with its place in the config."""
        found: list[tuple[Loc, Problem]] = []
        for details in error.errors(include_url=False, include_input=False):
            loc = self._loc(details)
            message, hint = self._words(details, loc)
            found.append((loc, self._places.problem(loc, message, hint)))
        return found

    def _loc(self, details: ErrorDetails) -> Loc:
        """Leave out what pydantic puts between: names of union members, the mark of a key."""
        loc: Loc = ()
        for part in details["loc"]:
            value = at(self._tree, loc)
            known = False
            if isinstance(part, str) and isinstance(value, dict):
                known = part in value or part in keys_at(loc, self._root)
            if known or (isinstance(part, int) and isinstance(value, list)):
                loc = (*loc, part)
        return loc

    def _words(self, details: ErrorDetails, loc: Loc) -> tuple[str, str]:
        kind = details["type"]
        context = details.get("ctx", {})
        if kind == "extra_forbidden":
            return "unknown key", self._known(loc)
        if kind == "literal_error":
            return self._choice(loc)
        if kind == "value_error":
            return str(context.get("error", "is not valid")), ""
        if kind == "string_pattern_mismatch":
            return _PATTERNS.get(str(context.get("pattern")), "has a form that is not accepted"), ""
        if kind in _BOUNDS:
            name, words = _BOUNDS[kind]
            return f"{words} {context.get(name)}", ""
        if kind.startswith("date_"):
            return "must be a date such as 2027-01-31", ""
        return _TYPES.get(kind, "is not valid here"), self._hint(kind, loc)

    def _known(self, loc: Loc) -> str:
        known = keys_at(loc[:-1], self._root)
        close = nearest(str(loc[-1]), known)
        return close or ("known keys: " + ", ".join(known) if len(known) <= 12 else "see docs/config.md")

    def _choice(self, loc: Loc) -> tuple[str, str]:
        choices = [str(choice) for choice in literals_at(loc, self._root)]
        value = at(self._tree, loc)
        close = nearest(shown(str(value)), choices) if self._literal(loc) else ""
        return "must be one of " + ", ".join(choices), close

    def _hint(self, kind: str, loc: Loc) -> str:
        value = at(self._tree, loc)
        if value is None:
            return ""
        if kind == "string_type" and isinstance(value, (int, float)):
            return "put it in quotes"
        if kind == "list_type" and not isinstance(value, (list, dict)):
            return "write [one, two], or one item a line after '- '"
        return ""


def literals_at(loc: Loc, root: type[BaseModel] = Config) -> list[object]:
    """Return the words that may stand at a place."""
    return [choice for item in annotations_at(loc, root) if get_origin(item) is Literal for choice in get_args(item)]
