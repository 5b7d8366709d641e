"""Config files for tests: written to a folder, loaded, and what the loader says about them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from gateway.config.loader import load
from gateway.config.root import LoadedConfig
from gateway.errors import ConfigError, Problem

KEY = "mcpgw_0a1b2c3d_" + "k" * 43
CANARY = "canary-7f3e9b"


def write(folder: Path, text: str, name: str = "gateway.yaml") -> Path:
    """Write a file, indented as in the test, and return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
    return path


def loaded(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> LoadedConfig:
    """Load a config that has nothing wrong with it."""
    return load(write(folder, text), environ or {})


def problems(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> list[Problem]:
    """Load a config that is broken and return everything said about it."""
    with pytest.raises(ConfigError) as caught:
        load(write(folder, text), environ or {})
    return caught.value.problems


def only(found: list[Problem]) -> Problem:
    """Return the one problem there is."""
    assert len(found) == 1, "\n".join(map(str, found))
    return found[0]
