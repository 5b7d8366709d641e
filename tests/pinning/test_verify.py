"""What differs, named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.pinning.fingerprint import Fingerprint
from gateway.pinning.verify import Difference, differences

PIN = Fingerprint("c", "2026-07-28", "s", "k", "i", {"tool:a": "1", "tool:b": "2"})


def test_equal_fingerprints_differ_in_nothing() -> None:
    assert differences(PIN, replace(PIN)) == ()


@pytest.mark.parametrize("aspect", ["config", "version", "server_info", "capabilities", "instructions"])
def test_each_fact_is_named_with_before_and_after(aspect: str) -> None:
    changed = replace(PIN, **{aspect: "other"})  # type: ignore[arg-type]  # reason: a text in each of these.
    [found] = differences(PIN, changed)
    assert (found.aspect, found.name, found.before, found.after) == (aspect, "", getattr(PIN, aspect), "other")


def test_changed_new_and_removed_definitions_are_told_apart() -> None:
    """S138."""
    now = replace(PIN, definitions={"tool:b": "changed", "tool:c": "3"})
    assert differences(PIN, now) == (
        Difference("definition", "tool:a", "1", ""),
        Difference("definition", "tool:b", "2", "changed"),
        Difference("new_definition", "tool:c", "", "3"),
    )
