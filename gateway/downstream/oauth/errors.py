"""Why there is no token: somebody has to consent first, or the authorization server gives none. Texts are safe."""

from __future__ import annotations

from typing import Final

from gateway.downstream.dialect import Unserved
from gateway.errors import Reason

AGAIN: Final = 30.0
CONSENT_AGAIN: Final = 300.0
"""Seconds after which it is looked into again without anybody asking."""


class NoToken(Unserved):
    """There is no token for this server now, and sending the request again would be no better.

    ``is_final``: the authorization server said no to what was presented, so that it is of no further use.
    """

    patience = AGAIN

    def __init__(self, message: str, *, is_final: bool = False, retry_after_ms: int | None = None) -> None:
        super().__init__(Reason.UNAVAILABLE, message, retry_after_ms=retry_after_ms)
        self.is_final = is_final


class ConsentNeeded(NoToken):
    """Somebody has to open a page first. ``ticket`` leads to it and is for those who may consent alone."""

    patience = CONSENT_AGAIN

    def __init__(self, message: str, ticket: str) -> None:
        super().__init__(message)
        self.ticket = ticket
