from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin

import pytest
from pydantic import BaseModel

from gateway.config import availability
from gateway.config.availability import FEATURES, not_in_force
from gateway.config.places import Loc
from gateway.config.root import Config
from gateway.config.shape import annotations_at, members
from tests.kit.config_files import loaded, only, problems

SERVER = "servers: {a: {command: x}}\n"
SCOPED = "{tools: '*/x', scopes: [s]}"

REFUSED = [
    ("servers: {a: {openapi: x.yaml}}", "servers.a.openapi"),
    ("servers: {a: {url: 'http://x', auth: {client_credentials: {}}}}", "servers.a.auth"),
    ("servers: {a: {command: x, catalog: principal}}", "servers.a.catalog"),
    (f"servers: {{a: {{url: 'https://x', tls: {{spki_sha256: ['{'0' * 64}']}}}}}}", "servers.a.tls.spki_sha256"),
    ("servers: {a: {command: x, pin: {mode: tofu}}}", "servers.a.pin.mode"),
    ("servers: {a: {command: x, pin: {mode: strict}}}", "servers.a.pin.mode"),
    ("servers: {a: {command: x, pin: {probe: {tool: whoami}}}}", "servers.a.pin.probe"),
    ("servers: {a: {command: x, pin: {files: [data.db]}}}", "servers.a.pin.files"),
    ("servers: {a: {command: x, results: {hidden: strip}}}", "servers.a.results.hidden"),
    ("servers: {a: {command: x, results: {secrets: redact}}}", "servers.a.results.secrets"),
    ("servers: {a: {command: x, results: {markers: flag}}}", "servers.a.results.markers"),
    ("servers: {a: {command: x, results: {fields: [/a]}}}", "servers.a.results.fields"),
    ("views: {v: {include: []}}", "views"),
    ("auth: {jwt: {issuer: 'https://i', audience: a}}", "auth.jwt"),
    ("listen: {tls: {cert: c, key: k, client_ca: ca}}", "listen.tls.client_ca"),
    (f"{SERVER}policies: [{{name: p, clients: ['*'], approve: [{{tools: '*/x', by: [a]}}]}}]", "policies[0].approve"),
    ("policies: [{name: p, clients: ['*'], duplicates: {}}]", "policies[0].duplicates"),
    (f"{SERVER}policies: [{{name: p, clients: ['*'], allow: [{SCOPED}]}}]", "policies[0].allow[0].scopes"),
    ("policies: [{name: p, clients: ['*'], audit: {payload: redacted}}]", "policies[0].audit.payload"),
    ("audit: {payload: full}", "audit.payload"),
    ("audit: {payload: conditions}", "audit.payload"),
    ("audit: {sinks: [stdout]}", "audit.sinks"),
    ("alerts: {sensitive: ['a/*']}", "alerts"),
    ("state: {url: 'redis://x'}", "state.url"),
]  # fmt: skip

NOTED = [
    ("servers: {a: {command: x, instructions: forward}}", "servers.a.instructions"),
    ("servers: {a: {command: x, pin: {rotating: [TOKEN]}}}", "servers.a.pin.rotating"),
    ("servers: {a: {command: x, pin: {new_tools: allow}}}", "servers.a.pin.new_tools"),
    ("servers: {a: {url: 'http://x', allow_networks: [10.0.0.0/8]}}", "servers.a.allow_networks"),
    ("policies: [{name: p, clients: [anonymous], audit: {redact: [/a]}}]", "policies[0].audit.redact"),
    ("audit: {retention: 90d}", "audit.retention"),
    ("telemetry: {otlp: 'http://collector'}", "telemetry.otlp"),
]

FINE = [
    "servers: {a: {command: x, pin: {mode: warn}, catalog: shared, asks: [roots], instructions: drop}}",
    "servers: {a: {command: x, results: {hidden: off, secrets: off, markers: off, fields: []}}}",
    "servers: {a: {command: x, pin: {mode: off}}}",
    "servers: {a: {url: 'http://x', transport: http, auth: {}}, b: {url: 'http://x', transport: sse}}",
    "policies: [{name: p, clients: [anonymous], mode: shadow, hours: 'Mon-Fri 08:00-18:00', audit: {payload: shape}}]",
    "audit: {payload: none, sinks: []}",
    "state: {url: 'memory://'}",
    "views: {}\nalerts: {}\n",
]


@pytest.mark.parametrize(("text", "path"), REFUSED, ids=[path for _, path in REFUSED])
def test_what_this_version_cannot_do_is_refused_never_ignored(tmp_path: Path, text: str, path: str) -> None:
    """G126."""
    problem = only(problems(tmp_path, text + "\n"))
    assert problem.path == path
    assert problem.message.startswith("not available in this version: ")


@pytest.mark.parametrize(("text", "path"), NOTED, ids=[path for _, path in NOTED])
def test_what_is_merely_absent_is_noted(tmp_path: Path, text: str, path: str) -> None:
    (note,) = loaded(tmp_path, text + "\n").notes
    assert note.startswith(f"{tmp_path}/gateway.yaml:1: {path}: not available in this version: ")


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

SPOKEN_FOR = {("servers", "required"), ("servers", "validate")}
"""The loader reads the one before there is a model; ``not_in_force`` tells of the other."""


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


def test_defaults_that_are_not_in_force_are_said_for_servers_that_have_them() -> None:
    assert not_in_force(Config()) == []
    plain = Config.model_validate({"servers": {"a": {"command": "x"}}})
    assert [text.partition(":")[0] for text in not_in_force(plain)] == ["pins", "validate", "text"]
    off = {"command": "x", "validate": "off", "text": "off", "pin": {"mode": "off"}}
    assert not_in_force(Config.model_validate({"servers": {"a": off}})) == []
