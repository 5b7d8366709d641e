"""``policies``: who may call what, as written; ``gateway.policy`` gives it meaning."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from gateway.config.types import Duration, Model, RateText

PayloadMode = Literal["none", "shape", "shape+hmac", "conditions", "redacted", "full"]


class Entry(Model):
    """A rule with more than a selector."""

    tools: str
    """Selector: ``server/name-glob``, or with ``prompt:``, ``resource:`` or ``any:`` in front."""
    when: str = ""
    """CEL over args, tool, principal, view and now."""
    scopes: list[str] = []


class Approval(Model):
    """Calls that wait for a person."""

    tools: str
    by: list[str]
    hold: Duration = 45.0
    timeout: Duration = 600.0


class Limit(Model):
    """One limit: a rate, or a number of calls at once."""

    rate: RateText | None = None
    burst: int | None = Field(default=None, ge=1)
    concurrency: int | None = Field(default=None, ge=1)
    tools: list[str] = []
    """Selectors the limit is for; none: everything the policy's clients call."""
    per: list[Literal["principal", "tool", "server", "group", "view"]] = ["principal"]

    @model_validator(mode="after")
    def _one_kind(self) -> Limit:
        if (self.rate is None) == (self.concurrency is None):
            raise ValueError("needs exactly one of rate and concurrency")
        if self.concurrency is not None and self.burst is not None:
            raise ValueError("burst belongs to a rate")
        return self


class Duplicates(Model):
    """The same call again within a short time."""

    window: Duration = 30.0
    action: Literal["flag", "approve", "refuse"] = "flag"


class PolicyAudit(Model):
    """What the audit log keeps of payloads."""

    payload: PayloadMode | None = None
    redact: list[str] = []


class Policy(Model):
    """One policy."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    clients: list[str] = Field(min_length=1)
    """Configured client names, full principal ids, ``group:G``, ``scope:S``, or ``*`` for everybody but anonymous."""
    allow: list[str | Entry] = []
    deny: list[str | Entry] = []
    approve: list[Approval] = []
    limits: list[Limit] = []
    hours: str = ""
    duplicates: Duplicates | None = None
    audit: PolicyAudit = PolicyAudit()
    mode: Literal["enforce", "shadow"] = "enforce"
