"""Who wants to hear of which resource is counted, within a bound."""

from __future__ import annotations

import pytest

from gateway.downstream.wishes import MAX_WISHES, Full, Wanted, Wishes


def test_the_first_subscriber_begins_a_wish_and_the_last_one_ends_it() -> None:
    wishes = Wishes()
    assert [wishes.add("a"), wishes.add("a"), wishes.add("b")] == [True, False, True]
    assert wishes.uris() == {"a", "b"}
    assert [wishes.remove("a"), wishes.remove("a"), wishes.remove("a")] == [False, True, False]
    assert "a" not in wishes
    assert len(wishes) == 1


def test_there_is_room_for_so_many_resources_and_for_any_number_of_their_subscribers() -> None:
    wishes = Wishes()
    for number in range(MAX_WISHES):
        wishes.add(str(number))
    with pytest.raises(Full):
        wishes.add("one more")
    assert not wishes.add("0")
    assert len(wishes) == MAX_WISHES


def test_what_is_wanted_of_a_server_is_resources_and_tasks() -> None:
    wanted = Wanted()
    assert not wanted
    wanted.tasks.add("t-1")
    assert wanted
    wanted.tasks.remove("t-1")
    wanted.resources.add("file:///a")
    assert wanted
