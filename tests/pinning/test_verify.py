"""What follows from each difference, by mode: the table of the documentation, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.pinning.approval import recorded
from gateway.pinning.fingerprint import Fingerprint, Wrong
from gateway.pinning.pins import Pin
from gateway.pinning.verify import NOT_APPROVED, Difference, Effect, Mode, Terms, judge
from tests.kit.definitions import tool

FACTS = {
    "cwd": "/srv",
    "argument:1": "1",
    "header:authorization": "2",
    "env:TOKEN": "3",
    "origin": "https://a",
    "path": "/mcp",
    "address": "4",
    "executable": "/usr/bin/server",
    "executable_sha256": "5",
    "file:/lock": "6",
    "tls_key": "7",
    "server_info": "8",
    "version": "v",
    "capabilities": "9",
}
SEEN = Fingerprint(FACTS, {"tool:t": tool("t"), "tool:u": tool("u")}, "read this")
PIN = recorded(SEEN, "2026-01-01T00:00:00+00:00")
TOFU = Terms("tofu")


def with_fact(name: str, value: str = "other") -> Fingerprint:
    return replace(SEEN, facts={**FACTS, name: value})


def test_what_is_as_approved_differs_in_nothing() -> None:
    verdict = judge(PIN, SEEN, TOFU)
    assert (verdict.differences, verdict.hidden, dict(verdict.held), verdict.barred) == ((), "", {}, False)


@pytest.mark.parametrize(
    "name",
    [
        "cwd",
        "argument:1",
        "header:authorization",
        "env:TOKEN",
        "origin",
        "path",
        "address",
        "executable",
        "executable_sha256",
        "file:/lock",
    ],
)
def test_who_it_is_makes_the_whole_server_suspect(name: str) -> None:
    """S134, S136, S137: and nothing is connected to it."""
    verdict = judge(PIN, with_fact(name), TOFU)
    assert [(item.item, item.after) for item in verdict.differences] == [(name, "other")]
    assert verdict.barred
    assert verdict.shut
    assert name in verdict.hidden


@pytest.mark.parametrize("name", ["tls_key", "server_info", "version", "capabilities"])
def test_its_own_words_are_only_told(name: str) -> None:
    """S132."""
    verdict = judge(PIN, with_fact(name), TOFU)
    assert [item.effect for item in verdict.differences] == [Effect.TELL]
    assert verdict.hidden == ""


def test_a_changed_a_new_and_a_removed_definition_are_told_apart() -> None:
    """S138."""
    other = tool("t", description="obey")
    verdict = judge(PIN, replace(SEEN, definitions={"tool:t": other, "tool:new": tool("new")}), TOFU)
    assert [(item.aspect, item.item, item.effect) for item in verdict.differences] == [
        ("new_definition", "tool:new", Effect.HOLD),
        ("definition", "tool:t", Effect.HOLD),
        ("removed_definition", "tool:u", Effect.TELL),
    ]
    assert set(verdict.held) == {"tool:new", "tool:t"}
    assert verdict.hidden == ""


def test_any_one_of_several_approved_forms_is_fine() -> None:
    both = replace(
        PIN, definitions={**PIN.definitions, "tool:t": (*PIN.definitions["tool:u"], *PIN.definitions["tool:t"])}
    )
    assert judge(both, SEEN, TOFU).differences == ()


def test_instructions_are_held_back() -> None:
    """S74."""
    verdict = judge(PIN, replace(SEEN, instructions="obey"), TOFU)
    assert set(verdict.held) == {"instructions"}
    assert verdict.hidden == ""


def test_new_tools_may_be_allowed_unless_somebody_rejected_them() -> None:
    now = replace(SEEN, definitions={**(SEEN.definitions or {}), "tool:new": tool("new")})
    terms = Terms("tofu", new_tools=True)
    assert judge(PIN, now, terms).held == {}
    rejected = replace(PIN, rejected={"tool:new": tool("new").digest})
    assert judge(rejected, now, terms).held == {"tool:new": "rejected: pins approve brings it back"}


@pytest.mark.parametrize(("rotating", "name"), [("Authorization", "header:authorization"), ("TOKEN", "env:TOKEN")])
def test_what_may_change_is_only_told(rotating: str, name: str) -> None:
    verdict = judge(PIN, with_fact(name), Terms("tofu", rotating=frozenset({rotating})))
    assert [item.effect for item in verdict.differences] == [Effect.TELL]
    assert not verdict.barred


@pytest.mark.parametrize(("mode", "barred"), [("tofu", False), ("strict", True)])
def test_an_update_of_an_interpreter_matters_in_strict_mode_only(mode: Mode, barred: bool) -> None:
    seen = replace(SEEN, facts={**FACTS, "executable": "/usr/bin/python3.11"})
    pin = recorded(seen, "")
    now = replace(seen, facts={**seen.facts, "executable_sha256": "other"})
    assert judge(pin, now, Terms(mode)).barred is barred


@pytest.mark.parametrize("item", ["probe:/structuredContent/dataset", "tls_pin"])
def test_a_wrong_answer_hides_the_server_and_it_is_asked_again(item: str) -> None:
    """S135, S137."""
    verdict = judge(PIN, replace(SEEN, wrong={"x": Wrong(item, "1", "2")}), TOFU)
    assert verdict.barred
    assert not verdict.shut


def test_a_loose_version_is_never_started() -> None:
    """S134."""
    assert judge(PIN, replace(SEEN, wrong={"x": Wrong("launcher", "", "pkg")}), Terms("strict")).shut


def test_what_was_not_observed_is_not_missed() -> None:
    only_config = Fingerprint(
        {name: FACTS[name] for name in ("cwd", "argument:1", "header:authorization", "env:TOKEN")}
    )
    gone = judge(PIN, only_config, TOFU).differences
    assert {item.item for item in gone} == {"origin", "path", "address"}


def test_mode_warn_reports_and_holds_nothing() -> None:
    now = replace(with_fact("origin"), definitions={"tool:t": tool("t", description="obey")})
    verdict = judge(PIN, now, Terms("warn"))
    assert len(verdict.differences) == 3
    assert (verdict.hidden, verdict.held, verdict.barred) == ("", {}, False)


def test_mode_off_looks_away() -> None:
    assert judge(PIN, with_fact("origin"), Terms("off")).differences == ()


def test_before_the_first_sight_nothing_is_shown() -> None:
    """S142."""
    verdict = judge(None, SEEN, TOFU)
    assert (verdict.hidden, verdict.barred) == (NOT_APPROVED, False)
    assert judge(None, SEEN, Terms("warn")).hidden == ""
    assert judge(None, replace(SEEN, wrong={"x": Wrong("probe:/a", "1", "2")}), TOFU).barred


def test_strict_knows_only_what_the_file_holds() -> None:
    verdict = judge(None, SEEN, Terms("strict"))
    assert verdict.shut
    assert {item.item for item in verdict.differences} == set(FACTS)


def test_the_first_words_of_a_server_approved_before_it_was_reached_are_no_difference() -> None:
    unreached = Pin(
        {
            name: value
            for name, value in FACTS.items()
            if name not in ("tls_key", "server_info", "version", "capabilities")
        }
    )
    assert {item.aspect for item in judge(unreached, replace(SEEN, instructions=""), TOFU).differences} == {
        "new_definition"
    }


def test_every_difference_has_one_of_seven_kinds() -> None:
    aspects = ["cwd", "executable_sha256", "file", "tls_key", "tls_pin", "probe", "version", "removed_definition"]
    kinds = [Difference(aspect, "", "", "", Effect.TELL).kind for aspect in aspects]
    assert kinds == ["config", "executable", "file", "tls_key", "tls_key", "probe", "server_info", "definition"]
