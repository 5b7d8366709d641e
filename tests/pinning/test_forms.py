"""Of a server that lists by who asks one name has several forms, and each is decided about by itself."""

from __future__ import annotations

from gateway.pinning import forms
from gateway.pinning.approval import approved, recorded, rejected
from gateway.pinning.fingerprint import Fingerprint
from gateway.pinning.forms import MAX_DIFFERENT, MAX_FORMS, REJECTED, Forms
from gateway.pinning.verify import Difference, Effect, Terms, judge
from tests.kit.definitions import tool

ONE, TWO, THREE = (tool("t", description=text) for text in ("one", "two", "three"))
TERMS = Terms("tofu", several=True)
PIN = recorded(Fingerprint({"cwd": "/"}, {"tool:t": ONE}, "read"), "then")


def seen(**own: dict[str, object]) -> Fingerprint:
    """Return what principals are listed, by their names."""
    made = Fingerprint({"cwd": "/"}, {"tool:t": ONE}, "read")
    for whose, definitions in own.items():
        made = made.with_own(whose, definitions)  # type: ignore[arg-type]  # reason: tests give definitions.
    return made


def differences(now: Fingerprint, terms: Terms = TERMS) -> tuple[Difference, ...]:
    return judge(PIN, now, terms).differences


def test_each_form_that_was_not_approved_is_a_difference_of_its_own() -> None:
    found = differences(seen(alice={"tool:t": TWO}, bobby={"tool:t": THREE, "tool:new": tool("new")}))
    assert [item.item for item in found] == sorted(
        [
            forms.item_of("tool:t", TWO.digest),
            forms.item_of("tool:t", THREE.digest),
            forms.item_of("tool:new", tool("new").digest),
        ]
    )
    assert {(item.subject, item.aspect, item.effect) for item in found} == {
        ("tool:t", "definition", Effect.HOLD),
        ("tool:new", "new_definition", Effect.HOLD),
    }
    assert {item.before for item in found if item.subject == "tool:t"} == {ONE.digest}


def test_what_one_of_them_is_not_offered_is_not_removed() -> None:
    assert judge(PIN, Fingerprint({"cwd": "/"}, {}, "read"), TERMS).differences == ()


def test_the_same_form_of_many_is_one_difference() -> None:
    assert len(differences(seen(alice={"tool:t": TWO}, bobby={"tool:t": TWO}))) == 1


def test_only_so_many_wait_for_a_decision_at_once() -> None:
    many = {f"tool:n{number}": tool(f"n{number}") for number in range(MAX_DIFFERENT + 1)}
    assert len(differences(seen(alice=dict(many)))) == MAX_DIFFERENT
    last = tool(f"n{MAX_DIFFERENT}")
    assert Forms(PIN, new=False).held(f"tool:n{MAX_DIFFERENT}", last.digest)


def test_new_names_may_be_let_through_and_other_forms_never() -> None:
    found = differences(
        seen(alice={"tool:t": TWO, "tool:new": tool("new")}), Terms("tofu", new_tools=True, several=True)
    )
    assert {item.subject: item.effect for item in found} == {"tool:t": Effect.HOLD, "tool:new": Effect.TELL}
    loose = Forms(PIN, new=True)
    assert loose.held("tool:new", "d") == ""
    assert "no form of it" in loose.held("tool:t", TWO.digest)


def test_an_approval_adds_a_form_and_replaces_none() -> None:
    now = seen(alice={"tool:t": TWO})
    made = approved(PIN, now, differences(now), "now")
    assert [each.digest for each in made.definitions["tool:t"]] == [ONE.digest, TWO.digest]
    verdict = judge(made, now, TERMS)
    assert verdict.differences == ()
    assert verdict.forms is not None
    assert [verdict.forms.held("tool:t", each.digest) for each in (ONE, TWO)] == ["", ""]
    assert verdict.forms.held("tool:t", THREE.digest)


def test_one_form_too_many_takes_the_place_of_the_oldest() -> None:
    pin = PIN
    for number in range(MAX_FORMS):
        now = seen(alice={"tool:t": tool("t", description=str(number))})
        pin = approved(pin, now, judge(pin, now, TERMS).differences, "now")
    digests = [each.digest for each in pin.definitions["tool:t"]]
    assert len(digests) == MAX_FORMS
    assert ONE.digest not in digests
    assert digests[-1] == tool("t", description=str(MAX_FORMS - 1)).digest


def test_a_form_that_is_gone_meanwhile_is_not_approved() -> None:
    items = differences(seen(alice={"tool:t": TWO}))
    assert approved(PIN, seen(), items, "now").definitions == PIN.definitions


def test_a_rejection_is_of_one_form() -> None:
    now = seen(alice={"tool:t": TWO}, bobby={"tool:t": THREE})
    pin = rejected(PIN, [item for item in differences(now) if item.after == TWO.digest])
    verdict = judge(pin, now, TERMS)
    assert verdict.forms is not None
    assert verdict.forms.held("tool:t", TWO.digest) == REJECTED
    assert verdict.forms.held("tool:t", THREE.digest) != REJECTED
    assert sorted(verdict.held.values()) != [REJECTED, REJECTED]


def test_nothing_is_held_back_where_pins_only_report() -> None:
    now = seen(alice={"tool:t": TWO})
    verdict = judge(PIN, now, Terms("warn", several=True))
    assert verdict.forms is not None
    assert verdict.forms.held("tool:t", TWO.digest) == ""
    assert (dict(verdict.held), len(verdict.differences)) == ({}, 1)
    assert judge(PIN, now, Terms("off", several=True)).forms is None


def test_instructions_are_spoken_word_for_word_or_not_at_all() -> None:
    known = Forms(PIN, new=False)
    assert (known.spoken("read"), known.spoken("read this")) == ("read", "")


def test_the_first_sight_is_all_that_is_seen_then() -> None:
    pin = recorded(seen(alice={"tool:t": TWO, "tool:new": tool("new")}), "now")
    assert {name: len(each) for name, each in pin.definitions.items()} == {"tool:t": 2, "tool:new": 1}
    assert forms.unapproved(pin, {"tool:t": TWO, "tool:x": tool("x")}) == {"tool:x": tool("x")}
    assert forms.unapproved(None, {"tool:t": TWO}) == {"tool:t": TWO}
    assert seen(alice={"tool:t": TWO}).with_own("alice", {}).own == {}


def test_those_that_were_rejected_leave_room_for_those_that_wait() -> None:
    many = {f"tool:n{number}": tool(f"n{number}") for number in range(MAX_DIFFERENT)}
    first = seen(alice=dict(many))
    pin = rejected(PIN, differences(first))
    found = judge(pin, first.with_own("bobby", {"tool:t": TWO}), TERMS).differences
    assert len(found) == MAX_DIFFERENT
    assert forms.item_of("tool:t", TWO.digest) in {item.item for item in found}


def test_what_is_shown_first_of_many_stays_the_same_when_somebody_is_listed_it_again() -> None:
    """Otherwise each reading of a list would be news again."""
    many = {f"tool:n{number}": tool(f"n{number}") for number in range(MAX_DIFFERENT)}
    now = seen(alice=dict(many), bobby={"tool:a": tool("a")})
    again = now.with_own("alice", dict(many))
    assert differences(again) == differences(now)
    assert "tool:a" not in {item.subject for item in differences(now)}


def test_a_form_is_found_in_whoevers_lists_it_is() -> None:
    now = seen(alice={"tool:t": TWO}, bobby={"tool:t": THREE})
    for each in (ONE, TWO, THREE):
        assert forms.found(now, forms.item_of("tool:t", each.digest), each.digest) == each
    assert forms.found(now, forms.item_of("tool:u", TWO.digest), TWO.digest) is None


def test_a_verdict_stands_where_one_more_is_listed_what_is_told_already() -> None:
    now = seen(alice={"tool:t": TWO})
    verdict = judge(PIN, now, TERMS)
    assert verdict.is_same(PIN, {}, {"tool:t": TWO})
    assert verdict.is_same(PIN, {}, {})
    # What was approved meanwhile is no difference any more, whoever is still known to be listed it.
    assert verdict.is_same(PIN, {"tool:t": THREE}, {})
    assert not verdict.is_same(PIN, {}, {"tool:t": THREE})
    assert not verdict.is_same(PIN, {"tool:t": TWO}, {})
    assert not verdict.is_same(recorded(now, ""), {}, {})
    assert not judge(None, now, TERMS).is_same(None, {}, {})
