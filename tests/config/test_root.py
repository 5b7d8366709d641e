from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError

from gateway.config import root as root_module
from gateway.config.places import Loc
from gateway.config.prose import described
from gateway.config.root import Config, LoadedConfig
from gateway.config.shape import members
from gateway.errors import Problem


def loaded(text: dict[str, object], **more: object) -> LoadedConfig:
    return LoadedConfig.model_validate(
        {"config": Config.model_validate(text), "path": Path("/c.yaml"), "digest": "d", **more}
    )


@pytest.mark.parametrize(
    ("text", "anonymous"),
    [
        ({}, True),
        ({"clients": {"a": {"key": "k"}}}, False),
        ({"auth": {"jwt": {"issuer": "i", "audience": "a"}}}, False),
        ({"listen": {"tls": {"cert": "c", "key": "k"}}}, True),
        ({"listen": {"tls": {"cert": "c", "key": "k", "client_ca": "ca"}}}, False),
        ({"policies": [{"name": "p", "clients": ["*"]}]}, True),
    ],
)
def test_whatever_names_a_caller_ends_anonymous_access(text: dict[str, object], anonymous: bool) -> None:
    assert loaded(text).anonymous is anonymous


def test_policies_that_only_watch_enforce_nothing() -> None:
    shadow = {"name": "s", "clients": ["*"], "mode": "shadow"}
    assert not loaded({"policies": [shadow]}).enforcing
    assert loaded({"policies": [shadow, {"name": "e", "clients": ["*"]}]}).enforcing


def test_a_config_cannot_be_changed() -> None:
    config = Config()
    with pytest.raises(ValidationError):
        setattr(config, "listen", config.listen)  # noqa: B010 - what a type checker would refuse.


def test_every_field_says_what_it_is_for() -> None:
    models: list[type[BaseModel]] = [Config]
    seen: set[type[BaseModel]] = set()
    while models:
        model = models.pop()
        seen.add(model)
        assert model.__doc__, model
        for name, info in described(model).items():
            assert info.description, f"{model.__name__}.{name}"
            assert info.description.strip()[-1] in ".…", f"{model.__name__}.{name}"
        found = [item for info in model.model_fields.values() for item in _models(info.annotation)]
        models += [item for item in found if item not in seen]
    assert len(seen) > 20


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in getattr(annotation, "__args__", ()) for model in _models(inner)]


def test_a_problem_without_a_place_is_given_the_nearest_one() -> None:
    positions = {"listen": ("/c.yaml", 3, "listen"), "policies[p].allow[0]": ("/p.yaml", 7, "policies[2].allow[0]")}
    config = loaded({}, positions=positions)
    assert str(config.locate(Problem("is bad", path="listen.host"))) == "/c.yaml:3: listen.host: is bad"
    assert str(config.locate(Problem("is bad", path="policies[p].allow[0].when"))) == (
        "/p.yaml:7: policies[2].allow[0].when: is bad"
    )
    assert str(config.locate(Problem("is bad", path="elsewhere"))) == "/c.yaml:1: elsewhere: is bad"


SOURCE = Path(root_module.__file__).parents[1]
ABOUT_KEYS = ("reference.py", "schema.py", "shape.py", "translate.py", "paths.py")
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
    """G126: whatever may be written is read somewhere."""
    read = attributes_read()
    silent = [
        ".".join(map(str, loc))
        for loc, name in keys(Config)
        if name not in read and (loc[0], loc[-1]) not in SPOKEN_FOR
    ]
    assert silent == []
