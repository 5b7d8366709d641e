"""What the admin listener can ask of the running gateway; the runtime is behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from gateway.protocol.rawjson import Object


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the gateway takes calls. ``reasons`` are short constants that name nobody.

    ``details`` are, too: what is wrong without being a reason to take no calls.
    """

    ready: bool
    reasons: tuple[str, ...] = ()
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Act:
    """Who acts, for the audit log; nobody by name where a signal or a changed file is the ``cause``."""

    user: str
    source: str
    cause: Literal["admin", "signal", "watch"] = "admin"


class Conflict(Exception):
    """An act that does not fit what is there now; the text says why."""


class Forbidden(Exception):
    """An act that is not this user's; the text says why."""


class Operations(Protocol):
    """Reading is free of side effects; every act is audited under the user's name."""

    def readiness(self) -> Readiness:
        """Tell whether calls are taken."""

    def render_metrics(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics and their content type, as the scraper prefers it."""

    def status(self) -> Object:
        """Return the state of everything, without secrets."""

    def tools_as(self, principal: str, view: str | None = None) -> Object:
        """Return what a principal sees, through a view or all, and why the rest is hidden.

        Raises:
            KeyError: no such client or view is configured.
        """

    async def call_as(self, act: Act, principal: str, target: str, arguments: Object) -> Object:
        """Send one ``SERVER/TOOL`` call through the whole path for a principal.

        Raises:
            KeyError: no such client or tool.
        """

    async def pins(self, target: str) -> Object:
        """Return the pins of all servers, or of ``SERVER`` or ``SERVER/ITEM``, and what differs from them.

        Raises:
            KeyError: no such server or item.
        """

    async def decide_pins(self, act: Act, verb: str, target: str, digests: Mapping[str, str]) -> Object:
        """``approve`` or ``reject`` what differs, where it still is what ``digests`` say it was when it was shown.

        Raises:
            KeyError: no such server, or nothing that differs.
            Conflict: it is not, or it cannot be approved.
        """

    async def approvals(self, user: str) -> Object:
        """Return the calls that wait for a person, and those that were decided and not made yet."""

    async def decide_approval(self, act: Act, verb: str, entry_id: str, reason: str) -> Object:
        """``approve`` or ``deny`` one of them.

        Raises:
            KeyError: nothing of that id waits.
            Forbidden: this user is not asked.
            Conflict: it is decided already, or cannot be kept.
        """

    async def reload(self, act: Act) -> Object:
        """Read the config again; returns what changed and what needs a restart.

        Raises:
            ConfigError: the new config cannot be served; the old one goes on.
        """
