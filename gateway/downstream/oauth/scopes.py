"""Which scopes to ask for (basic/authorization §Scope Selection Strategy, §Step-Up Authorization Flow). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.downstream.oauth.challenge import MAX_SCOPES

OFFLINE: Final = "offline_access"


def first(configured: Iterable[str], challenged: tuple[str, ...], supported: tuple[str, ...] | None) -> tuple[str, ...]:
    """Choose for a first request: what the challenge names, else all that the server supports, else none.

    What an operator configured is asked for in any case, and alone where the challenge names nothing.
    """
    own = tuple(configured)
    if challenged:
        return union(own, challenged)
    return own or supported or ()


def stepped_up(asked: tuple[str, ...], challenged: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return what was asked for before together with what is missing; None where nothing new is wanted."""
    both = union(asked, challenged)
    return None if both == asked else both


def with_offline(wanted: tuple[str, ...], supported: tuple[str, ...]) -> tuple[str, ...]:
    """Ask for a refresh token as well, where the authorization server has a scope for that."""
    return union(wanted, (OFFLINE,)) if OFFLINE in supported else wanted


def union(before: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """Put two together, in order, each once, within the bound."""
    return tuple(dict.fromkeys((*before, *more)))[:MAX_SCOPES]
