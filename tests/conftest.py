"""In which order files are run, and profiles of the property tests: few and the same examples in every run, many and
new ones for ``make fuzz``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

_FOLDER: Final = Path(__file__).parent
_FIRST: Final = ("scale", "conformance", "matrix", "docs", "audit", "charts", "replicas", "cli")
"""Folders whose files wait longest for processes; with short ones last no worker is left alone with a long one."""

_SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]

settings.register_profile("suite", max_examples=100, deadline=None, derandomize=True, suppress_health_check=_SLOW)
settings.register_profile(
    "fuzz", max_examples=int(os.environ.get("FUZZ_EXAMPLES", "5000")), deadline=None, suppress_health_check=_SLOW
)
settings.load_profile("suite")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that take long first; the order within a file stays."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    folder = item.path.relative_to(_FOLDER).parts[0]
    return _FIRST.index(folder) if folder in _FIRST else len(_FIRST)
