"""Nobody outside makes a series (S178)."""

from __future__ import annotations

import pytest

from gateway.telemetry.labels import OTHER, Closed, Constants, Known, SeriesGuard


def never() -> None:
    raise AssertionError("nothing was to be dropped")


def test_a_closed_domain_admits_its_own_values() -> None:
    domain = Closed("allow", "deny")
    assert [domain.admit(value) for value in ("allow", "deny", "ALLOW", "")] == ["allow", "deny", OTHER, OTHER]


def test_constants_are_admitted_first_come_and_only_while_there_is_room() -> None:
    domain = Constants(2)
    assert [domain.admit(value) for value in ("host", "pin.recorded", "third", "host")] == [
        "host",
        "pin.recorded",
        OTHER,
        "host",
    ]


@pytest.mark.parametrize("value", ["", "a b", "x" * 65, "ä", "new\nline", 'quo"te'])
def test_what_is_no_short_constant_is_never_admitted(value: str) -> None:
    assert Constants(10).admit(value) == OTHER


def test_known_names_are_replaced_as_a_whole() -> None:
    domain = Known("anonymous")
    assert domain.replace({"a", "b"}) == frozenset()
    assert domain.replace({"b", "c"}) == {"a"}
    assert [domain.admit(value) for value in ("a", "b", "c", "anonymous")] == [OTHER, "b", "c", "anonymous"]
    assert domain.replace(()) == {"b", "c"}


def test_labels_of_another_metric_are_a_mistake() -> None:
    guard = SeriesGuard({"server": Known(), "kind": Closed("x")}, 10, never)
    assert guard.key({"kind": "x", "server": "ghost"}) == (OTHER, "x")
    with pytest.raises(ValueError, match="labels must be server, kind, not server"):
        guard.key({"server": "a"})
    with pytest.raises(ValueError, match="labels must be none, not server"):
        SeriesGuard({}, 10, never).key({"server": "a"})


def test_a_full_metric_takes_new_names_together_and_counts_them() -> None:
    drops: list[None] = []
    tools = Known()
    tools.replace(str(number) for number in range(100))
    guard = SeriesGuard({"tool": tools, "outcome": Closed("ok")}, 10, lambda: drops.append(None))
    keys = {guard.key({"tool": str(number), "outcome": "ok"}) for number in range(100)}
    assert len(keys) == 11
    assert (OTHER, "ok") in keys
    assert len(drops) == 90
    assert guard.key({"tool": "3", "outcome": "ok"}) == ("3", "ok")
    assert len(drops) == 90


def test_forgetting_makes_room() -> None:
    tools = Known("a", "b", "c")
    guard = SeriesGuard({"tool": tools}, 2, never)
    guard.key({"tool": "a"})
    guard.key({"tool": "b"})
    assert guard.forget(lambda labels: labels["tool"] == "a") == [("a",)]
    assert guard.key({"tool": "c"}) == ("c",)
