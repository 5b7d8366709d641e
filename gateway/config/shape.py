"""The shape of the config: which keys a place knows, and which places hold secrets, read off the models."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable
from typing import Annotated, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from gateway.config.places import Loc
from gateway.config.root import Config


def members(annotation: object) -> list[object]:
    """Return what a value may be: the members of unions, without ``Annotated`` and None."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return members(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [member for arg in get_args(annotation) if arg is not types.NoneType for member in members(arg)]
    return [annotation]


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by the key that is written."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _step(annotation: object, part: str | int) -> list[object]:
    found: list[object] = []
    for member in members(annotation):
        origin, arguments = get_origin(member), get_args(member)
        if isinstance(member, type) and issubclass(member, BaseModel):
            info = fields_of(member).get(str(part))
            if info is not None:
                found.append(info.annotation)
        elif (origin is dict and isinstance(part, str)) or (origin is list and isinstance(part, int)):
            found.append(arguments[-1])
    return found


def annotations_at(loc: Loc, root: type[BaseModel] = Config) -> list[object]:
    """Return what may stand at a place of the config; nothing where the models know no such place."""
    current: list[object] = [root]
    for part in loc:
        current = [found for annotation in current for found in _step(annotation, part)]
    return [member for annotation in current for member in members(annotation)]


def keys_at(loc: Loc, root: type[BaseModel] = Config) -> list[str]:
    """Return the keys that a mapping at this place may have; nothing where any are allowed."""
    models = [item for item in annotations_at(loc, root) if isinstance(item, type) and issubclass(item, BaseModel)]
    return [key for model in models for key in fields_of(model)]


def is_secret(loc: Loc) -> bool:
    """Tell whether the value at this place is treated as a secret."""
    return SecretStr in annotations_at(loc)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean 'x'?`` for the known word that is most like this one, else nothing."""
    names: dict[str, str] = {}
    for name in known:
        names.setdefault(name.casefold(), name)
    close = difflib.get_close_matches(word.casefold(), list(names), n=1, cutoff=0.6)
    return f"did you mean '{names[close[0]]}'?" if close else ""
