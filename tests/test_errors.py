"""What is raised on purpose: whose fault it is, and what may be shown of it."""

from __future__ import annotations

import pytest

from gateway.errors import (
    AuditUnavailable,
    ConfigError,
    DownstreamError,
    GatewayError,
    Problem,
    Reason,
    RequestError,
)


def test_every_error_has_one_root() -> None:
    for kind in (ConfigError, RequestError, DownstreamError, AuditUnavailable):
        assert issubclass(kind, GatewayError)


def test_the_reasons_are_those_of_the_contract() -> None:
    """Contract §5 Refusals; clients and dashboards match on these words."""
    assert {reason.value for reason in Reason} == {
        *("denied", "approval_required", "approval_denied", "rate_limited", "overloaded", "invalid_arguments"),
        *("duplicate", "unavailable", "timeout", "cancelled", "protocol_error", "too_large", "audit_unavailable"),
        "blocked_content",
    }


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("is empty"), "is empty"),
        (Problem("is empty", "g.yaml"), "g.yaml: is empty"),
        (Problem("is empty", "g.yaml", 3), "g.yaml:3: is empty"),
        (Problem("is empty", line=3), "is empty"),
        (Problem("is empty", path="servers.a"), "servers.a: is empty"),
        (
            Problem("is empty", "g.yaml", 3, "servers.a", "give a command"),
            "g.yaml:3: servers.a: is empty (give a command)",
        ),
        (Problem("is empty", hint="give a command"), "is empty (give a command)"),
    ],
)
def test_a_problem_says_where_it_stands_and_what_would_help(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_a_config_error_names_every_problem() -> None:
    error = ConfigError([Problem("one", "a.yaml", 1), Problem("two", "b.yaml", 2)])
    assert str(error) == "a.yaml:1: one\nb.yaml:2: two"
    assert [problem.message for problem in error.problems] == ["one", "two"]


def test_a_request_error_is_what_the_client_will_see() -> None:
    error = RequestError(-32602, "Unknown tool: a", {"x": 1})
    assert (error.code, error.message, error.data, str(error)) == (
        -32602,
        "Unknown tool: a",
        {"x": 1},
        "Unknown tool: a",
    )
    assert RequestError(-32601, "Method not found").data is None


def test_a_downstream_error_is_taken_for_not_run_unless_it_says_so() -> None:
    error = DownstreamError(Reason.UNAVAILABLE, "down")
    assert (error.reason, error.message, error.may_have_run, error.retry_after_ms) == (
        Reason.UNAVAILABLE,
        "down",
        False,
        None,
    )
    late = DownstreamError(Reason.TIMEOUT, "late", may_have_run=True, retry_after_ms=5)
    assert (late.may_have_run, late.retry_after_ms, str(late)) == (True, 5, "late")
