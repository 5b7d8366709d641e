"""One request to a page by somebody who is signed in, and what a page answers with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gateway.admin.access import Refused
from gateway.admin.operations import Act, Operations
from gateway.admin.pages.markup import Html, Url, el
from gateway.admin.session import Session
from gateway.admin.views import Views


@dataclass(frozen=True, slots=True)
class Gateway:
    """What pages can ask of the gateway, and have it do."""

    operations: Operations
    views: Views


@dataclass(frozen=True, slots=True)
class Visit:
    """Who asks for what. ``query`` and ``form`` are what the address and the body say, each name once."""

    path: str
    session: Session
    roles: frozenset[str]
    source: str
    query: Mapping[str, str]
    form: Mapping[str, str]

    @property
    def act(self) -> Act:
        """Return who acts."""
        return Act(self.session.user, self.source)

    def may(self, role: str) -> bool:
        """Whether the user has a role; to be a user at all is enough to view."""
        return role == "view" or role in self.roles

    def need(self, role: str) -> None:
        """Refuse who has not a role.

        Raises:
            Refused: it is needed.
        """
        if not self.may(role):
            raise Refused(403, f"Role {role} is needed")

    def token(self) -> Html:
        """Return the field that every form has that acts."""
        return el("input", {"type": "hidden", "name": "csrf", "value": self.session.csrf})


@dataclass(frozen=True, slots=True)
class Page:
    """A page to show. ``live``: it makes sense to look at it again and again."""

    title: str
    body: Html
    status: int = 200
    live: bool = False


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where to go after an act, so that going back does not repeat it."""

    to: Url


Answer: TypeAlias = "Page | Redirect"
Handler: TypeAlias = Callable[[Gateway, Visit], Awaitable[Answer]]
