"""The page that lists every key, written from the models so that it cannot be out of date.

``docs/generate_config.py`` writes it; a test compares.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from gateway.config.prose import described
from gateway.config.restart import RESTART_SECTIONS
from gateway.config.root import Config
from gateway.config.shape import members
from gateway.config.types import (
    Rate,
    format_duration,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
    refuse_bool,
)

_INTRODUCTION: Final = """\
# Configuration

This page is generated from the models that read the config (`python docs/generate_config.py`). `mcp-gateway schema`
prints the same as JSON Schema, `mcp-gateway check` reads a file and reports everything that is wrong with it.

The file is YAML 1.2 (JSON is YAML); only `true` and `false` are truth values. Unknown keys, keys without a value, keys
that are there twice and references that lead nowhere are errors. Relative paths are relative to the file.

## Expansion

In every string of the file and of policy files:

| written | becomes |
|---|---|
| `${NAME}`, `${env:NAME}` | the variable |
| `${NAME:-default}` | the variable, or the text behind `:-` where it is unset or empty |
| `${file:/path}` | the text of the file, without one newline at its end |
| `$${` | `${` |

What was put in is not expanded again. A variable that is not set or a file that cannot be read inside a server switches
that server off, or stops the start where it is `required`; anywhere else it stops the start. A file behind a secret
(types marked *secret* below) must not be readable by everybody, nor by its group where it belongs to the user the
gateway runs as; a file of another owner may be group-readable, as secrets mounted by Kubernetes are.

## Server lists of other programs

A top-level `mcpServers`, and VS Code's `servers` with `inputs`, are taken as they are. `${input:X}` is the variable
`X`, or its form for a shell (`api-key` is `API_KEY`). `disabled` switches a server off, `disabledTools` and
`enabledTools` choose tools, `type: sse` is `transport: sse`; keys that mean nothing here are noted by `check`.

## Example

```yaml
{example}```

## Keys

*restart* means that a change takes effect only after a restart; all other changes are taken by a reload, which a change
of any file of the config brings about by itself ([deploy.md](deploy.md#changing-the-config)). *Default* is what holds
without the key; a key with *required* must be there when its section is.
"""

_SCALARS: Final = {
    str: "text",
    SecretStr: "text, *secret*",
    bool: "`true` or `false`",
    int: "whole number",
    float: "number",
    date: "date",
    Rate: "rate",
    object: "anything",
}
_UNITS: Final = {
    parse_duration: "duration",
    parse_size: "size",
    parse_rate: "rate",
    refuse_bool: "whole number",
}
_BOUNDS: Final = (("ge", "from {}"), ("gt", "more than {}"), ("le", "to {}"), ("min_length", "{} or more"))


@dataclass(frozen=True, slots=True)
class Row:
    """One key of the config."""

    path: str
    kind: str
    default: str
    meaning: str


def render(example: str) -> str:
    """Return the page, with an example of a whole config in it."""
    parts = [_INTRODUCTION.replace("{example}", example)]
    for section, info in described(Config).items():
        takes = "restart" if section in RESTART_SECTIONS else "reload"
        parts.append(f"### `{section}` ({takes})\n\n{info.description}\n")
        table = ["| key | type | default | meaning |", "|---|---|---|---|"]
        table += [f"| `{row.path}` | {row.kind} | {row.default} | {row.meaning} |" for row in rows(section, info)]
        parts.append("\n".join(table) + "\n")
    return "\n".join(parts)


def rows(path: str, info: FieldInfo) -> Iterator[Row]:
    """Yield a field and every key in it. What only groups keys has no row of its own."""
    models = list(_models(info.annotation))
    optional = info.default is None
    if not models or optional or _also_plain(info.annotation):
        yield Row(path, type_words(info.annotation, info.metadata), _default(info), _cell(info.description or ""))
    for model, suffix in models:
        for key, inner in described(model).items():
            yield from rows(f"{path}{suffix}.{key}", inner)


def _also_plain(annotation: object) -> bool:
    """Tell whether an item may be a model or something else."""
    items = [item for member in members(annotation) for item in _inner(member)]
    return any(not (isinstance(item, type) and issubclass(item, BaseModel)) for item in items)


def _models(annotation: object) -> Iterator[tuple[type[BaseModel], str]]:
    """Yield the models that a value of this type holds, with what stands between in a path."""
    for member in members(annotation):
        if isinstance(member, type) and issubclass(member, BaseModel):
            yield member, ""
        elif get_origin(member) is dict:
            yield from ((model, ".NAME" + rest) for model, rest in _models(get_args(member)[1]))
        elif get_origin(member) is list:
            yield from ((model, "[]" + rest) for model, rest in _models(get_args(member)[0]))


def _inner(annotation: object) -> list[object]:
    if get_origin(annotation) in (list, dict):
        return members(get_args(annotation)[-1])
    return [annotation]


def type_words(annotation: object, metadata: list[object]) -> str:
    """Say what may be written for a type."""
    units = [_UNITS[item.func] for item in metadata if isinstance(item, BeforeValidator) and item.func in _UNITS]
    bounds = [words.format(getattr(item, name)) for item in metadata for name, words in _BOUNDS if hasattr(item, name)]
    words = units[0] if units else _words(annotation)
    return f"{words}, {' '.join(bounds)}" if bounds else words


def _words(annotation: object) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_words(arguments[0], list(arguments[1:]))
    if origin in (Union, types.UnionType):
        return " or ".join(_words(item) for item in arguments if item is not types.NoneType)
    if origin is Literal:
        return ", ".join(f"`{item}`" for item in arguments)
    if origin is list:
        return f"list of {_words(arguments[0])}"
    if origin is dict:
        return f"mapping of names to {_words(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    return _SCALARS[annotation] if isinstance(annotation, type) else "anything"


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "*required*"
    value: object = info.default
    if isinstance(value, SecretStr):
        # What holds without the key is no secret.
        value = value.get_secret_value()
    kinds = [item.func for item in info.metadata if isinstance(item, BeforeValidator)]
    if value is None or value in ("", [], {}):
        return "–"
    if parse_duration in kinds and isinstance(value, (int, float)):
        return f"`{format_duration(value)}`"
    if parse_size in kinds and isinstance(value, int):
        return f"`{format_size(value)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list):
        return f"`[{', '.join(str(item) for item in value)}]`"
    return "–" if isinstance(value, BaseModel) else f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
