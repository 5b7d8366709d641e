"""Scalars of the config: durations, sizes and rates, each read from the text an operator writes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES: Final = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_PERIODS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)")
_SIZE = re.compile(r"([0-9]+)\s*(B|KiB|MiB|GiB|KB|MB|GB)?")
_RATE = re.compile(r"([0-9]+)\s*/\s*(second|minute|hour|day)")


class Model(BaseModel):
    """Base of every section: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True)


def parse_duration(value: object) -> float:
    """Read ``30s``, ``10m``, ``1h``, ``400d``, ``250ms`` as seconds."""
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        return float(match[1]) * _UNITS[match[2]]
    if isinstance(value, float) and value >= 0:
        return value
    raise ValueError("must be a duration such as 30s, 10m, 1h or 400d")


def parse_size(value: object) -> int:
    """Read ``4MiB``, ``512KiB`` or a number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        return int(match[1]) * _SIZES[match[2] or "B"]
    raise ValueError("must be a size such as 4MiB or a number of bytes")


@dataclass(frozen=True, slots=True)
class Rate:
    """``count`` calls per ``seconds``."""

    count: int
    seconds: float

    def __str__(self) -> str:
        names = {float(seconds): name for name, seconds in _PERIODS.items()}
        return f"{self.count}/{names[self.seconds]}"


def parse_rate(value: object) -> Rate:
    """Read ``60/minute``."""
    if isinstance(value, Rate):
        return value
    if isinstance(value, str) and (match := _RATE.fullmatch(value.strip())) and int(match[1]) > 0:
        return Rate(int(match[1]), float(_PERIODS[match[2]]))
    raise ValueError("must be a rate such as 60/minute (second, minute, hour or day)")


Duration: TypeAlias = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d)$"}),
]
Size: TypeAlias = Annotated[int, BeforeValidator(parse_size), WithJsonSchema({"type": ["string", "integer"]})]
RateText: TypeAlias = Annotated[
    Rate,
    BeforeValidator(parse_rate),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+\s*/\s*(second|minute|hour|day)$"}),
]
