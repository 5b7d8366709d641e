"""Tickets: random names that lead to what waits here, each good for one answer and for its repetition shortly after.

A client whose answer got lost on its way comes again with the same ticket, and must find the same outcome. Knows
neither calls nor questions; bounded in number and in the bytes kept for spent ones.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final, Generic, TypeVar

from gateway.replicas.identity import is_replica_id

KEPT: Final = 60.0
"""Seconds in which a spent ticket gets the same outcome again."""
MAX_SPENT: Final = 1024
MAX_SPENT_BYTES: Final = 16 * 2**20
"""Spent tickets of all servers, and the results kept for them; the oldest go first."""
_MARK: Final = "parked-"

T = TypeVar("T")


class Tickets(Generic[T]):
    """What each ticket leads to. Tickets in use are as many as there are calls parked, which are bounded elsewhere.

    Each names the ``replica`` that issued it, where there is a name.
    """

    def __init__(self, replica: str = "") -> None:
        self._mark = f"{_MARK}{replica}-" if replica else _MARK
        self._held: dict[str, T] = {}
        self._spent: dict[str, int] = {}
        self._bytes = 0

    def issue(self, value: T) -> str:
        """Return a new ticket; who holds it may answer."""
        ticket = f"{self._mark}{secrets.token_urlsafe(24)}"
        self._held[ticket] = value
        return ticket

    def get(self, ticket: str | None) -> T | None:
        """Return what a ticket leads to; None for one that is unknown, or not any more."""
        return self._held.get(ticket) if ticket is not None else None

    def spend(self, ticket: str) -> bool:
        """Keep a ticket that needs no more answers for a while; False for one that is kept already, or unknown."""
        if ticket in self._spent or ticket not in self._held:
            return False
        self._spent[ticket] = 0
        asyncio.get_running_loop().call_later(KEPT, self.forget, ticket)
        while len(self._spent) > MAX_SPENT:
            self.forget(next(iter(self._spent)))
        return True

    def weigh(self, ticket: str, size: int) -> None:
        """Note how many bytes are kept for a spent ticket."""
        if ticket in self._spent:
            self._bytes += size - self._spent[ticket]
            self._spent[ticket] = size
        while self._bytes > MAX_SPENT_BYTES:
            self.forget(next(iter(self._spent)))

    def forget(self, ticket: str) -> None:
        """Let a ticket lead to nothing from now on."""
        self._bytes -= self._spent.pop(ticket, 0)
        self._held.pop(ticket, None)

    @property
    def spent(self) -> tuple[str, ...]:
        """The spent tickets that are kept, the oldest first."""
        return tuple(self._spent)


def issuer_of(state: str | None) -> str:
    """Return the replica that a ticket names; "" for one that names none, and for what is no ticket."""
    name, dash, _ = (state or "").removeprefix(_MARK).partition("-")
    return name if is_ticket(state) and dash and is_replica_id(name) else ""


def is_ticket(state: str | None) -> bool:
    """Tell whether a state is a ticket, of this process or of one before: a call that was parked here once."""
    return state is not None and state.startswith(_MARK)
