"""Tickets: each leads to one thing, is kept for a while when it is spent, and never beyond a bound (G063)."""

from __future__ import annotations

import pytest

from gateway.downstream import tickets
from gateway.downstream.tickets import Tickets, is_ticket, issuer_of


async def test_a_ticket_leads_to_what_it_was_issued_for_and_to_nothing_else() -> None:
    made: Tickets[str] = Tickets()
    one, two = made.issue("one"), made.issue("two")
    assert one != two
    assert (made.get(one), made.get(two), made.get("parked-x"), made.get(None)) == ("one", "two", None, None)
    assert [is_ticket(each) for each in (one, "parked-of-an-earlier-process", "state", "", None)] == [
        True,
        True,
        False,
        False,
        False,
    ]


async def test_a_ticket_names_the_replica_that_issued_it_and_nothing_else_names_one() -> None:
    """A server's own state may look like a ticket: it must not choose where calls go."""
    ticket = Tickets[str]("0123456789ab").issue("one")
    assert is_ticket(ticket)
    assert issuer_of(ticket) == "0123456789ab"
    states = (Tickets[str]().issue("one"), "0123456789ab-x", "parked-0123456789ab", "parked-*-x", "parked--", "", None)
    assert [issuer_of(state) for state in states] == [""] * len(states)


async def test_a_spent_ticket_is_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Tickets[str] = Tickets()
    ticket = made.issue("one")
    assert (made.spend(ticket), made.spend(ticket), made.spend("parked-x")) == (True, False, False)
    assert (made.get(ticket), made.spent) == ("one", (ticket,))
    made.forget(ticket)
    assert (made.get(ticket), made.spent) == (None, ())


async def test_only_so_many_spent_tickets_are_kept_and_those_in_use_are_no_part_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tickets, "MAX_SPENT", 2)
    made: Tickets[int] = Tickets()
    used = made.issue(0)
    spent = [made.issue(number) for number in range(1, 5)]
    for ticket in spent:
        made.spend(ticket)
    assert [made.get(ticket) for ticket in spent] == [None, None, 3, 4]
    assert made.get(used) == 0


async def test_only_so_many_bytes_are_kept_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "MAX_SPENT_BYTES", 100)
    made: Tickets[int] = Tickets()
    first, second = made.issue(1), made.issue(2)
    for ticket in (first, second):
        made.spend(ticket)
        made.weigh(ticket, 60)
    assert (made.get(first), made.get(second)) == (None, 2)
    # What is known to be large only later counts then; what is not kept counts for nothing.
    made.weigh(first, 1000)
    assert made.get(second) == 2
    made.weigh(second, 101)
    assert made.spent == ()
