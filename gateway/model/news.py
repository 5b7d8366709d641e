"""What servers tell of by themselves, on its way to whoever it concerns."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.protocol.rawjson import Members


@dataclass(frozen=True, slots=True)
class TaskNews:
    """A task has changed: ``task`` is its id at the server, ``instance`` the connection it was heard on.

    ``state`` is what the server said of it, split one level.
    """

    server: str
    instance: str
    task: str
    state: Members
