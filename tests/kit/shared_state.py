"""Configs for several replicas, as far as this version can serve them."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from gateway.config.availability import FEATURES
from gateway.config.root import State

Json: TypeAlias = dict[str, Any]

NOT_YET: Final = tuple(
    key
    for key in ("url", "database")
    if key not in State.model_fields or ("state", key) in [feature.where for feature in FEATURES]
)
"""Keys of ``state`` that are refused; empty once they all work."""


def servable(config: Json) -> Json:
    """Return a config without what is refused, so that all the rest of it is judged."""
    state = {key: value for key, value in config.get("state", {}).items() if key not in NOT_YET}
    return {**config, "state": state}
