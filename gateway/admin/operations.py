"""What the admin listener can ask of the running gateway; the runtime is behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.protocol.rawjson import Object


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the gateway takes calls. ``reasons`` are short constants that name nobody."""

    ready: bool
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Act:
    """Who acts, for the audit log."""

    user: str
    source: str


class Operations(Protocol):
    """Reading is free of side effects; every act is audited under the user's name."""

    def readiness(self) -> Readiness:
        """Tell whether calls are taken."""

    def render_metrics(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics and their content type, as the scraper prefers it."""

    def status(self) -> Object:
        """Return the state of everything, without secrets."""

    def tools_as(self, principal: str) -> Object:
        """Return what a principal sees, and why the rest is hidden.

        Raises:
            KeyError: no such client is configured.
        """

    async def call_as(self, act: Act, principal: str, target: str, arguments: Object) -> Object:
        """Send one ``SERVER/TOOL`` call through the whole path for a principal.

        Raises:
            KeyError: no such client or tool.
        """

    async def reload(self, act: Act) -> Object:
        """Read the config again; returns what changed and what needs a restart.

        Raises:
            ConfigError: the new config cannot be served; the old one goes on.
        """
