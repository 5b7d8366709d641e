"""Profiles of the property tests: few and the same examples in every run, many and new ones for ``make fuzz``."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]

settings.register_profile("suite", max_examples=100, deadline=None, derandomize=True, suppress_health_check=_SLOW)
settings.register_profile(
    "fuzz", max_examples=int(os.environ.get("FUZZ_EXAMPLES", "5000")), deadline=None, suppress_health_check=_SLOW
)
settings.load_profile("suite")
