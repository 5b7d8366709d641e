"""What the config's models say of their keys: the texts below the fields, read from the source when somebody asks.

Having pydantic read them would cost every start of every command a tenth of the time it takes.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from copy import copy
from functools import cache
from itertools import pairwise
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gateway.config.shape import fields_of


@cache
def texts_of(model: type[BaseModel]) -> dict[str, str]:
    """Return the text of each field of a model, by the key that is written; those of its bases included."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _texts(base)
    return {key: found[info_name] for key, info_name in _names(model).items() if info_name in found}


def models_below(root: type[BaseModel]) -> set[type[BaseModel]]:
    """Return every model that a value of this one can have in it, itself included."""
    found: set[type[BaseModel]] = set()
    waiting: list[object] = [root]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            if kind not in found:
                found.add(kind)
                waiting += [info.annotation for info in kind.model_fields.values()]
        else:
            waiting += get_args(kind)
    return found


def described(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by the key that is written, with their texts as descriptions."""
    texts, fields = texts_of(model), {key: copy(info) for key, info in fields_of(model).items()}
    for key, info in fields.items():
        info.description = texts.get(key)
    return fields


def _names(model: type[BaseModel]) -> dict[str, str]:
    return {info.alias or name: name for name, info in model.model_fields.items()}


def _texts(model: type[BaseModel]) -> dict[str, str]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, text in pairwise(definition.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                found[name] = inspect.cleandoc(words)
    return found
