"""Everything the gateway raises on purpose, and whose fault it is.

GatewayError
├── ConfigError          the operator's: a config that cannot be served
├── RequestError         the client's: answered with a JSON-RPC error
├── DownstreamError      a server's: answered with the refusal its reason names
└── AuditUnavailable     ours: no record can be written, so nothing may be dispatched

Raised where the fault is seen, translated once at the border (``endpoint`` or ``cli``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why the gateway stopped a call: the ``reason`` of a refusal, in results, errors, audit and metrics."""

    DENIED = "denied"
    APPROVAL_REQUIRED = "approval_required"
    APPROVAL_DENIED = "approval_denied"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    INVALID_ARGUMENTS = "invalid_arguments"
    DUPLICATE = "duplicate"
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    PROTOCOL_ERROR = "protocol_error"
    TOO_LARGE = "too_large"
    AUDIT_UNAVAILABLE = "audit_unavailable"
    BLOCKED_CONTENT = "blocked_content"


class GatewayError(Exception):
    """Root of the tree."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a config: where it stands and what would make it right."""

    message: str
    file: str = ""
    line: int = 0
    path: str = ""
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        where = f"{self.path}: " if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{where}{self.message}{hint}"


class ConfigError(GatewayError):
    """A config cannot be served; ``problems`` lists every reason found, not only the first."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class RequestError(GatewayError):
    """A request that gets a JSON-RPC error: ``code``, ``message`` and ``data`` are shown to the client as they are."""

    def __init__(self, code: int, message: str, data: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class DownstreamError(GatewayError):
    """A server could not answer. ``message`` is safe to show: it never holds a URL, an argument or a header.

    ``may_have_run`` says whether any byte of the request can have reached the server.
    """

    def __init__(
        self, reason: Reason, message: str, *, may_have_run: bool = False, retry_after_ms: int | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.may_have_run = may_have_run
        self.retry_after_ms = retry_after_ms


class AuditUnavailable(GatewayError):
    """The audit log cannot take a record and ``audit.on_failure`` is ``closed``."""
