"""Who wants to hear of something, and how they are told. Knows nothing of what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVarTuple

Ts = TypeVarTuple("Ts")


class Audience(Generic[*Ts]):
    """Listeners for one kind of news; each must not block."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[*Ts], None]] = []

    def add(self, listener: Callable[[*Ts], None]) -> Callable[[], None]:
        """Tell a listener from now on, until the result is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, *news: *Ts) -> None:
        """Tell everybody who listens at this moment."""
        for listener in list(self._listeners):
            listener(*news)
