"""What is asked of the policies, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gateway.config.policies import PayloadMode, RepeatAction
from gateway.model.call import Target
from gateway.model.principal import Principal
from gateway.policy.limits import AppliedLimit
from gateway.policy.reads import Path
from gateway.protocol.rawjson import Object

ALLOW_RULE: Final = "allow_rule"
"""An allow rule matched and no deny rule did."""
NO_POLICY: Final = "no_policy"
"""No policy is in force, so that everybody who may call at all may call everything."""
DENY_RULE: Final = "deny_rule"
DEFAULT_DENY: Final = "default_deny"
"""No allow rule covers it."""
CONDITION: Final = "condition"
"""An allow rule covers it, but its condition did not hold."""
HOURS: Final = "hours"
"""An allow rule covers it, outside the hours of its policy."""
SCOPE: Final = "insufficient_scope"
"""An allow rule covers it for callers with more scopes."""
VIEW: Final = "not_in_view"
NO_TARGET: Final = "no_target"
"""It is about no server: a request to hear of changes, which are judged one by one when they are told."""


@dataclass(frozen=True, slots=True)
class Question:
    """May this principal call this target with these arguments, through this view, now (an aware time)?"""

    principal: Principal
    target: Target
    args: Object
    view: str | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Verdict:
    """Yes or no, and the rule that said so: ``policy`` and ``rule`` are empty where none did."""

    allowed: bool
    policy: str
    rule: str
    reason: str
    scopes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Repeat:
    """What a policy has done about the same call again within ``window`` seconds."""

    policy: str
    window: float
    action: RepeatAction


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's yes that a call needs besides being allowed; times in seconds.

    ``by`` are the admin users who may give it, empty for everybody with the role. ``hold`` is how long the call itself
    waits for it, ``timeout`` how long the question stays open.
    """

    policy: str
    rule: str
    by: frozenset[str] = frozenset()
    hold: float = 45.0
    timeout: float = 600.0


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a question.

    ``reason`` is one of the constants above. ``limits`` are to be charged together, ``payload`` and ``redact`` say what
    the audit log keeps, ``reads`` the arguments that conditions may look at where it keeps those. ``shadow`` names what
    would have decided otherwise if policies in shadow were in force. ``scopes`` are all that the rule asks for, with
    ``insufficient_scope``: a client that asked for those it lacks alone might lose the others. ``approvals`` all have
    to be given. ``claims`` are those of the caller that conditions may have looked at, ``repeats`` what is done about
    the same call again.
    """

    allowed: bool
    policy: str
    rule: str
    reason: str
    limits: tuple[AppliedLimit, ...] = ()
    payload: PayloadMode = "shape+hmac"
    redact: tuple[str, ...] = ()
    reads: tuple[Path, ...] = ()
    shadow: tuple[str, ...] = ()
    scopes: frozenset[str] = frozenset()
    claims: tuple[str, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    approvals: tuple[Approval, ...] = ()
