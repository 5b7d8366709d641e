"""Configs as the loader returns them, without files."""

from __future__ import annotations

from pathlib import Path

from gateway.config.root import Config, LoadedConfig


def loaded(
    config: dict[str, object] | None = None, folder: Path = Path("/nonexistent"), **facts: object
) -> LoadedConfig:
    """Return a loaded config; ``state`` and ``audit`` go below ``folder``."""
    base: dict[str, object] = {"state": {"dir": str(folder / "state")}, "audit": {"dir": str(folder / "audit")}}
    whole = Config.model_validate(base | (config or {}))
    return LoadedConfig(config=whole, path=folder / "gateway.yaml", digest="d" * 64, **facts)  # type: ignore[arg-type]  # reason: facts are its own fields.
