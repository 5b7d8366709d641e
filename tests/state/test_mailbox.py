"""What is left in the mailbox is taken once, and no outage is too short to be told."""

from __future__ import annotations

from gateway.state.documents import Change
from gateway.state.mailbox import Mailbox


def test_a_mailbox_holds_what_was_left_until_it_is_taken() -> None:
    woken: list[int] = []
    box = Mailbox()
    assert box.take() is None
    box.put(frozenset({"a"}))
    box.wakes(lambda: woken.append(1))
    box.put(frozenset({"b"}))
    box.away("Gone")
    assert (woken, box.reason) == ([1, 1, 1], "Gone")
    assert box.take() == Change(frozenset({"a", "b"}), reachable=False)
    assert box.take() is None
    box.away("Gone")
    assert woken == [1, 1, 1]
    box.put(frozenset())
    assert (box.take(), box.reason) == (Change(frozenset(), anew=True), "")
    assert box.take() is None
    # Back before anybody looked: what was changed meanwhile was told to nobody.
    box.away("Gone")
    box.put(frozenset())
    assert woken == [1] * 6
    assert box.take() == Change(frozenset(), anew=True)
    assert box.take() is None
