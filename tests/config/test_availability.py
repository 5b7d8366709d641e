from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin

import pytest
from pydantic import BaseModel

from gateway.config import availability
from gateway.config.availability import FEATURES
from gateway.config.places import Loc
from gateway.config.root import Config
from gateway.config.shape import annotations_at, members
from tests.kit.config_files import loaded, only, problems

SERVER = "servers: {a: {command: x}}\n"

REFUSED = [
    ("servers: {a: {command: x, catalog: principal}}", "servers.a.catalog"),
]  # fmt: skip

FINE = [
    "servers: {a: {command: x, pin: {mode: warn}, catalog: shared, asks: [roots], instructions: forward}}",
    "servers: {a: {command: x, results: {hidden: strip, secrets: redact, markers: flag, fields: [/a]}}}",
    "servers: {a: {command: x, pin: {mode: off}}}",
    "servers: {a: {url: 'http://x', transport: http, auth: {}}, b: {url: 'http://x', transport: sse}}",
    "policies: [{name: p, clients: [anonymous], mode: shadow, hours: 'Mon-Fri 08:00-18:00', audit: {payload: shape}}]",
    "audit: {payload: full, sinks: [stdout, 'postgres://u:p@db/audit'], retention: 90d}",
    "policies: [{name: p, clients: [anonymous], audit: {payload: redacted, redact: [/a]}}]",
    "state: {url: 'memory://'}",
    "state: {url: 'redis://:pw@cache:6379/1', prefix: team}",
    "views: {}\nalerts: {}\n",
]


@pytest.mark.parametrize(("text", "path"), REFUSED, ids=[path for _, path in REFUSED])
def test_what_this_version_cannot_do_is_refused_never_ignored(tmp_path: Path, text: str, path: str) -> None:
    """G126."""
    problem = only(problems(tmp_path, text + "\n"))
    assert problem.path == path
    assert problem.message.startswith("not available in this version: ")


@pytest.mark.parametrize("text", FINE)
def test_what_it_can_do_is_neither(tmp_path: Path, text: str) -> None:
    assert [note for note in loaded(tmp_path, text + "\n").notes if "not available" in note] == []


def test_a_feature_of_a_server_that_is_off_is_not_reported_on_top(tmp_path: Path) -> None:
    config = loaded(tmp_path, "servers: {a: {command: '${X}', pin: {mode: strict}}}\n")
    assert config.off == {"a": "command: the variable X is not set"}


def test_every_row_is_about_a_key_that_exists() -> None:
    for feature in FEATURES:
        loc = tuple(
            0 if part == "*" and at and feature.where[at - 1] != "servers" else part
            for at, part in enumerate(feature.where)
        )
        assert annotations_at(loc), feature.where


SOURCE = Path(availability.__file__).parents[1]
ABOUT_KEYS = ("availability.py", "reference.py", "schema.py", "shape.py", "translate.py", "paths.py")
"""Modules of the config that speak of keys and do nothing with their values."""

SPOKEN_FOR = {("servers", "required")}
"""The loader reads it before there is a model."""


def attributes_read() -> set[str]:
    """Every attribute that some module reads."""
    trees = [ast.parse(path.read_text("utf-8")) for path in SOURCE.rglob("*.py") if path.name not in ABOUT_KEYS]
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def keys(model: type[BaseModel], at: Loc = ()) -> Iterator[tuple[Loc, str]]:
    """Yield the place of every key with a value of its own, and its attribute; ``*`` is any name or item."""
    for name, info in model.model_fields.items():
        loc: Loc = (*at, info.alias or name)
        models: list[tuple[type[BaseModel], Loc]] = []
        for member in members(info.annotation):
            many = get_origin(member) in (dict, list)
            inside = members(get_args(member)[-1]) if many else [member]
            found = [item for item in inside if isinstance(item, type) and issubclass(item, BaseModel)]
            models += [(item, (*loc, "*") if many else loc) for item in found]
        if not models:
            yield loc, name
        for inner, place in models:
            yield from keys(inner, place)


def test_no_key_is_silently_ignored() -> None:
    """G126: whatever may be written is read somewhere, or this version says that it does not do it."""
    read = attributes_read()
    silent = [
        ".".join(map(str, loc))
        for loc, name in keys(Config)
        if name not in read
        and (loc[0], loc[-1]) not in SPOKEN_FOR
        and not any(loc[: len(feature.where)] == feature.where for feature in FEATURES)
    ]
    assert silent == []
