"""``policies``: who may call what, as written; ``gateway.policy`` gives it meaning."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from gateway.config.types import Duration, Model, RateText, Whole

RepeatAction = Literal["flag", "approve", "refuse"]
PayloadMode = Literal["none", "shape", "shape+hmac", "conditions", "redacted", "full"]


class Entry(Model):
    """A rule with more than a selector."""

    tools: str
    """Selector: `server/name-glob`, or with `prompt:`, `resource:` or `any:` in front."""
    when: str = ""
    """CEL over args, tool, principal, view and now."""
    scopes: list[str] = []
    """Scopes the caller's token needs; without them the tool is visible and calling it is refused."""


def _form(value: object) -> str | None:
    """Tell which form of a rule was written, so that its errors speak of that form alone."""
    if isinstance(value, str):
        return "selector"
    return "entry" if isinstance(value, (dict, Entry)) else None


Rule: TypeAlias = Annotated[
    Annotated[str, Tag("selector")] | Annotated[Entry, Tag("entry")],
    Discriminator(
        _form,
        custom_error_type="rule_form",
        custom_error_message="must be a selector such as server/name, or a mapping with tools",
    ),
]


_LONGEST_APPROVAL = 7 * 86400.0


class Approval(Model):
    """Calls that wait for a person."""

    tools: str
    """Selector of the tools."""
    by: list[str] | None = Field(default=None, min_length=1)
    """Admin users who may say yes; default: every one with the role `approve`."""
    hold: Duration = 45.0
    """How long the call itself waits before it is answered with `approval_required`; at most `timeouts.asks`."""
    timeout: Duration = 600.0
    """How long the pending approval lives, and how long a no is remembered."""

    @model_validator(mode="after")
    def _some_time(self) -> Approval:
        if not 0 < self.timeout <= _LONGEST_APPROVAL or self.hold > self.timeout:
            raise ValueError("timeout must be between 0s and 7d, and hold not longer than timeout")
        return self


class Limit(Model):
    """One limit: a rate, or a number of calls at once."""

    rate: RateText | None = None
    """N/second, N/minute, N/hour or N/day."""
    burst: Whole | None = Field(default=None, ge=1)
    """Calls that may come at once; default: N of the rate."""
    concurrency: Whole | None = Field(default=None, ge=1)
    """Calls in flight at once."""
    tools: list[str] = []
    """Selectors the limit is for; none: everything the policy's clients call."""
    per: list[Literal["principal", "tool", "server", "group", "view"]] = Field(default=["principal"], min_length=1)
    """What has a count of its own."""

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
    """How long a call is remembered after its end."""
    action: RepeatAction = "flag"
    """What happens to the second one: noted in its record, held until a person says yes, or refused."""


class PolicyAudit(Model):
    """What the audit log keeps of payloads."""

    payload: PayloadMode | None = None
    """Instead of `audit.payload`, for the calls this policy is about; the least revealing of all policies wins."""
    redact: list[str] = []
    """JSON pointers into the arguments, `*` for any item, whose values are never kept."""

    @field_validator("redact")
    @classmethod
    def _pointers(cls, value: list[str]) -> list[str]:
        for pointer in value:
            if not pointer.startswith("/"):
                raise ValueError(f'"{pointer}" is no JSON pointer (it begins with /)')
        return value


class Policy(Model):
    """One policy."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """Name of the policy in records and messages; unique."""
    clients: list[str] = Field(min_length=1)
    """Configured client names, full principal ids, `group:G`, `scope:S`, or `*` for everybody but anonymous."""
    allow: list[Rule] = []
    """What may be seen and called."""
    deny: list[Rule] = []
    """What may not, whatever else allows it."""
    approve: list[Approval] = []
    """Calls that also need a person's yes."""
    limits: list[Limit] = []
    """How much may be called; all matching limits are charged together."""
    hours: str = ""
    """When the allow entries hold, such as `Mon-Fri 08:00-18:00 Europe/Berlin`; default: always."""
    duplicates: Duplicates | None = None
    """What to do about the same call again."""
    audit: PolicyAudit = PolicyAudit()
    """What the audit log keeps of these calls."""
    mode: Literal["enforce", "shadow"] = "enforce"
    """`shadow` only records what the policy would have decided."""
