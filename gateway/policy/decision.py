"""What is asked of the policies, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gateway.config.policies import PayloadMode
from gateway.model.call import Target
from gateway.model.principal import Principal
from gateway.policy.limits import AppliedLimit
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
class Decision:
    """The answer to a question.

    ``reason`` is one of the constants above. ``limits`` are to be charged together, ``payload`` and ``redact`` say what
    the audit log keeps. ``shadow`` names what would have decided otherwise if policies in shadow were in force.
    ``scopes`` are those the caller lacks, all of them, with ``insufficient_scope``.
    """

    allowed: bool
    policy: str
    rule: str
    reason: str
    limits: tuple[AppliedLimit, ...] = ()
    payload: PayloadMode = "shape+hmac"
    redact: tuple[str, ...] = ()
    shadow: tuple[str, ...] = ()
    scopes: frozenset[str] = frozenset()
