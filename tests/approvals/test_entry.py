"""What a yes is about, and when there are enough of them."""

from __future__ import annotations

import pytest

from gateway.approvals.entry import GRANT_SECONDS, Asker, Entry, Need, State, Subject, Vote
from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.model.principal import Principal
from tests.kit.calls import call
from tests.kit.definitions import tool

ALICE, BOTH = Need("p", "approve[0]", frozenset({"alice"})), Need("q", "approve[1]", frozenset({"alice", "bob"}))
ANYONE = Need("r", "duplicates")


def entry(*needs: Need) -> Entry:
    subject = Subject.of(call())
    return Entry("id", subject.key, subject, needs, 100.0, 700.0)


def test_what_is_shown_is_the_canonical_text_that_is_hashed() -> None:
    one = Subject.of(call(arguments={"b": 1, "a": ["x", 1.0]}))
    assert one.arguments == '{"a":["x",1.0],"b":1}'
    assert one.key == Subject.of(call(arguments={"a": ["x", 1.0], "b": 1})).key
    assert Subject.of(call()).arguments == "{}"


@pytest.mark.parametrize(
    "other",
    [
        call(arguments={"a": 2}),
        call("u", arguments={"a": 1}),
        call(server="b", arguments={"a": 1}),
        call(arguments={"a": 1}, principal=Principal("key:other", "key", "other")),
        call(arguments={"a": 1}, method="prompts/get"),
        call(arguments={"a": 1}, target=Target(Kind.PROMPT, "a", "t")),
        call(arguments={"a": "1"}),
        call(arguments={"a": 1.0}),
    ],
)
def test_any_other_call_is_another_subject(other: object) -> None:
    assert Subject.of(other).key != Subject.of(call(arguments={"a": 1})).key  # type: ignore[arg-type]  # reason: a call.


def test_another_definition_is_the_same_call_of_something_else() -> None:
    plain, defined = Subject.of(call()), Subject.of(call(definition=tool("t")))
    assert plain.key == defined.key
    assert (plain.definition, defined.definition) == ("", tool("t").digest)


def test_the_issuer_of_a_token_goes_with_who_asks() -> None:
    who = Principal("sub:https://i/x", "jwt", "idp", claims={"iss": "https://i"})
    assert Asker.of(who) == Asker("sub:https://i/x", "jwt", "idp", "https://i")


def test_one_persons_yes_counts_for_every_rule_that_takes_it() -> None:
    asked = entry(ALICE, BOTH, ANYONE)
    granted = asked.approved(Vote("alice", 200.0))
    assert (granted.state, granted.ends_at) == (State.GRANTED, 200.0 + GRANT_SECONDS)
    half = asked.approved(Vote("bob", 200.0))
    assert (half.state, half.ends_at, half.open_needs) == (State.PENDING, 700.0, (ALICE,))
    assert half.approved(Vote("alice", 300.0)).state is State.GRANTED


def test_who_is_not_asked_may_not_decide() -> None:
    assert entry(ALICE).may_decide("alice")
    assert not entry(ALICE).may_decide("bob")
    assert entry(ALICE, ANYONE).may_decide("bob")


def test_a_yes_counts_only_as_long_as_the_rules_take_it() -> None:
    granted = entry(BOTH).approved(Vote("bob", 200.0))
    assert granted.with_needs((BOTH,), 300.0) is granted
    again = granted.with_needs((BOTH, ALICE), 300.0)
    assert again.state is State.PENDING
    fewer = again.with_needs((BOTH,), 400.0)
    assert (fewer.state, fewer.ends_at) == (State.GRANTED, 400.0 + GRANT_SECONDS)
    denied = granted.denied("no")
    assert denied.with_needs((ANYONE,), 300.0).state is State.DENIED
    assert granted.with_needs((BOTH, ANYONE), 300.0).ends_at == granted.ends_at
