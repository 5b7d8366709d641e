from __future__ import annotations

from gateway.downstream.oauth.challenge import MAX_SCOPES
from gateway.downstream.oauth.scopes import first, stepped_up, union, with_offline


def test_the_challenge_decides_then_what_is_configured_then_what_is_supported() -> None:
    assert first((), ("a",), ("b",)) == ("a",)
    assert first(("own",), ("a",), ("b",)) == ("own", "a")
    assert first(("own",), (), ("b",)) == ("own",)
    assert first((), (), ("b", "c")) == ("b", "c")
    assert first((), (), None) == ()


def test_a_step_up_keeps_what_was_asked_for_and_the_same_again_is_none() -> None:
    assert stepped_up(("a", "b"), ("c",)) == ("a", "b", "c")
    assert stepped_up(("a", "b"), ("b",)) is None
    assert stepped_up(("a",), ()) is None


def test_a_refresh_token_is_asked_for_only_where_there_is_a_scope_for_it() -> None:
    assert with_offline(("a",), ("offline_access", "b")) == ("a", "offline_access")
    assert with_offline(("a",), ("b",)) == ("a",)


def test_scopes_that_pile_up_stay_within_a_bound() -> None:
    many = tuple(f"s{number}" for number in range(MAX_SCOPES))
    assert union(many, ("more",)) == many
