"""The config's alerts are read once, and every fault in them is found at load."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gateway.alerts.norm import Terms
from gateway.alerts.watch import Watch
from gateway.errors import ConfigError
from gateway.model.call import Target
from gateway.model.catalog import Kind
from tests.kit.configs import loaded


def test_without_a_section_the_rate_alone_is_watched() -> None:
    watch = Watch.of(loaded())
    assert watch.terms == Terms(5, 600.0, 50)
    assert watch.hours.hold(datetime(2026, 1, 4, 3, 0, tzinfo=UTC))
    assert not watch.is_sensitive(Target(Kind.TOOL, "a", "t"))
    assert watch.to == ()


def test_what_is_written_is_read() -> None:
    alerts = {
        "rate": {"factor": 2, "window": "1m", "min": 3},
        "hours": "Mon-Fri 08:00-18:00",
        "sensitive": ["crm/export_*", "prompt:crm/*"],
        "to": ["https://u:p@hooks.example/x", "http://127.0.0.1:1/y", "http://127.0.0.1:1/y"],
    }
    watch = Watch.of(loaded({"alerts": alerts}))
    assert watch.terms == Terms(2, 60.0, 3)
    assert not watch.hours.hold(datetime(2026, 1, 4, 12, 0, tzinfo=UTC))
    assert watch.is_sensitive(Target(Kind.TOOL, "crm", "export_all"))
    assert watch.is_sensitive(Target(Kind.PROMPT, "crm", "any"))
    assert not watch.is_sensitive(Target(Kind.TOOL, "crm", "read"))
    assert watch.to == ("https://u:p@hooks.example/x", "http://127.0.0.1:1/y")


def test_every_fault_is_named_with_its_place() -> None:
    with pytest.raises(ConfigError) as caught:
        Watch.of(loaded({"alerts": {"hours": "Mon 99:00", "sensitive": ["a/*", "nothing"]}}))
    assert [problem.path for problem in caught.value.problems] == ["alerts.hours", "alerts.sensitive[1]"]
