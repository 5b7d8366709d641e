"""How a pin changes by what people decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.pinning.approval import approved, can_approve, completed, recorded, rejected
from gateway.pinning.fingerprint import Fingerprint
from gateway.pinning.pins import Pin
from gateway.pinning.verify import Difference, Effect, Terms, judge
from tests.kit.definitions import tool

SEEN = Fingerprint({"cwd": "/", "argument:1": "1", "version": "v"}, {"tool:t": tool("t"), "tool:u": tool("u")}, "read")
NOW = Fingerprint(
    {"cwd": "/srv", "version": "w"}, {"tool:t": tool("t", description="new"), "tool:n": tool("n")}, "read more"
)
TOFU = Terms("tofu")


def test_what_is_recorded_differs_in_nothing() -> None:
    pin = recorded(SEEN, "now")
    assert pin.at == "now"
    assert judge(pin, SEEN, TOFU).differences == ()


def test_approving_everything_leaves_nothing() -> None:
    pin = recorded(SEEN, "then")
    items = judge(pin, NOW, TOFU).differences
    assert {item.item for item in items} == {
        "cwd",
        "argument:1",
        "version",
        "instructions",
        "tool:n",
        "tool:t",
        "tool:u",
    }
    made = approved(pin, NOW, items, "now")
    assert judge(made, NOW, TOFU).differences == ()
    assert made.at == "now"
    assert "argument:1" not in made.facts
    assert "tool:u" not in made.definitions


def test_approving_one_leaves_the_others() -> None:
    """S138: approval is granular."""
    pin = recorded(SEEN, "")
    [one] = [item for item in judge(pin, NOW, TOFU).differences if item.item == "tool:t"]
    left = {item.item for item in judge(approved(pin, NOW, [one], ""), NOW, TOFU).differences}
    assert left == {"cwd", "argument:1", "version", "instructions", "tool:n", "tool:u"}


def test_a_rejection_is_remembered_until_it_is_approved_or_changes() -> None:
    pin = recorded(SEEN, "")
    [one] = [item for item in judge(pin, NOW, TOFU).differences if item.item == "tool:t"]
    made = rejected(pin, [one])
    assert made.rejected == {"tool:t": one.after}
    assert judge(made, NOW, TOFU).held["tool:t"].startswith("rejected")
    newer = replace(NOW, definitions={"tool:t": tool("t", description="newer")})
    assert judge(made, newer, TOFU).held["tool:t"].startswith("changed")
    assert approved(made, NOW, [one], "").rejected == {}


def test_a_server_can_be_approved_before_it_was_reached() -> None:
    """Mode strict: its config first, its words when they are there."""
    unreached = Fingerprint({"cwd": "/", "argument:1": "1"})
    pin = approved(None, unreached, judge(None, unreached, Terms("strict")).differences, "")
    assert pin == Pin({"cwd": "/", "argument:1": "1"})
    whole = completed(pin, SEEN)
    assert whole.facts == SEEN.facts
    assert completed(whole, NOW) is whole


@pytest.mark.parametrize(("aspect", "can"), [("probe", False), ("tls_pin", False), ("launcher", False), ("cwd", True)])
def test_what_is_wrong_in_itself_cannot_be_approved(aspect: str, can: bool) -> None:
    assert can_approve(Difference(aspect, aspect, "", "x", Effect.QUARANTINE)) is can


def test_a_rejection_needs_no_pin() -> None:
    assert rejected(None, [Difference("cwd", "cwd", "", "/", Effect.QUARANTINE)]).rejected == {"cwd": "/"}
