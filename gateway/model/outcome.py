"""How a call ends: exactly one of four values, matched with ``match``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gateway.errors import DownstreamError, Reason
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members, Object, Raw


@dataclass(frozen=True, slots=True)
class Complete:
    """The server's result, split one level; a tool that failed (``isError``) is complete too."""

    result: Members


@dataclass(frozen=True, slots=True)
class InputRequired:
    """The server needs answers from the client first: its requests by key, and its own opaque state.

    ``held``: a request that is open here waits with it, so that ``state`` means something to this process alone; or
    to the replica ``at``, where it waits at another one.
    ``answered`` are questions the gateway answered itself: they are no longer in ``requests``. ``extra`` is what
    else the result held, for a client that gets it as a result.
    """

    requests: dict[str, Raw]
    state: str | None
    held: bool = False
    answered: Object = field(default_factory=dict)
    extra: Members = field(default_factory=dict)
    at: str = ""


@dataclass(frozen=True, slots=True)
class Started:
    """The server runs the call as a task and returned its handle."""

    result: Members


CHECK: Final = "Check its effect before you try again."
LOOK: Final = "Its operators need to look at it."
"""What to do about a call that stopped half-way: the caller, or those who run its server."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The call ended without a result.

    With ``error`` it is the server's own answer and travels as it is; else the gateway stopped the call for
    ``reason`` and ``text`` says what happened, whether it may have run and what to do next.
    ``detail`` goes to log and audit alone. ``scopes`` are all that the call needs where only scopes are missing:
    such a call is answered with 403, so that the client can ask its authorization server for them.
    ``hidden``: what was called must not be, and the answer is that of a name that does not exist (S60).
    ``approval`` is the id of the approval it needs, or was refused.
    """

    reason: Reason
    text: str
    may_have_run: bool = False
    retry_after_ms: int | None = None
    error: ErrorObject | None = None
    detail: str = ""
    scopes: frozenset[str] = frozenset()
    hidden: bool = False
    approval: str = ""

    def facts(self) -> Object:
        """Return what a program is told of a refusal."""
        facts: Object = {"reason": self.reason.value, "mayHaveRun": self.may_have_run}
        if self.retry_after_ms is not None:
            facts["retryAfterMs"] = self.retry_after_ms
        return facts | {"approval": self.approval} if self.approval else facts

    @classmethod
    def by_server(cls, server: str, reason: Reason, what: str, then: str = CHECK) -> Failure:
        """Make the failure of a call that stops half-way for what its server did; ``then`` says what to do next."""
        return cls(reason, f'Server "{server}" {what}. The call may have run in part. {then}', may_have_run=True)

    @classmethod
    def of(cls, error: DownstreamError) -> Failure:
        """Make the failure that a downstream error stands for, in a text that says what to do next."""
        if error.may_have_run:
            then = "The call may have run: check its effect before you try again."
        elif error.retry_after_ms is not None:
            then = f"The call did not run. Try again in {error.retry_after_ms / 1000:.1f} seconds."
        else:
            then = "The call did not run. Try again later."
        said = error.message[:1].upper() + error.message[1:].rstrip(".")
        return cls(error.reason, f"{said}. {then}", error.may_have_run, error.retry_after_ms)


Outcome: TypeAlias = Complete | InputRequired | Started | Failure
