"""Error codes against 2026-07-28 basic/index §Error Codes and the contract's table."""

from __future__ import annotations

import pytest

from gateway.errors import Reason
from gateway.protocol import codes
from gateway.protocol.versions import Era


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (codes.PARSE_ERROR, 400),
        (codes.INVALID_REQUEST, 400),
        (codes.INVALID_PARAMS, 400),
        (codes.HEADER_MISMATCH, 400),
        (codes.MISSING_CLIENT_CAPABILITY, 400),
        (codes.UNSUPPORTED_VERSION, 400),
        (codes.METHOD_NOT_FOUND, 404),
        (codes.INTERNAL_ERROR, 200),
        (codes.LEGACY_RESOURCE_NOT_FOUND, 200),
        (-31001, 200),
        (-32000, 200),
        (1, 200),
        (0, 200),
    ],
)
def test_the_status_of_an_error_follows_from_code_and_era(code: int, status: int) -> None:
    assert codes.http_status(code, Era.MODERN) == status
    assert codes.http_status(code, Era.LEGACY) == 200


def test_the_defined_codes_are_those_of_the_specification() -> None:
    assert (codes.HEADER_MISMATCH, codes.MISSING_CLIENT_CAPABILITY, codes.UNSUPPORTED_VERSION) == (
        -32020,
        -32021,
        -32022,
    )


@pytest.mark.parametrize("code", [-32023, -32042, -32098, -32099])
def test_the_rest_of_the_reserved_range_is_nobodys_to_use(code: int) -> None:
    assert codes.is_undefined_reserved(code)


@pytest.mark.parametrize("code", [-32020, -32021, -32022, -32019, -32000, -32100, -32601, -31004, 0])
def test_defined_codes_and_those_outside_the_range_may_be_used(code: int) -> None:
    assert not codes.is_undefined_reserved(code)


def test_our_own_codes_are_distinct_and_outside_every_reserved_range() -> None:
    """JSON-RPC reserves −32768 to −32000, and new codes must not be there."""
    assert len(set(codes.REASON_CODES.values())) == len(codes.REASON_CODES)
    assert all(not -32768 <= code <= -32000 for code in codes.REASON_CODES.values())


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.RATE_LIMITED, -31001),
        (Reason.UNAVAILABLE, -31002),
        (Reason.TIMEOUT, -31003),
        (Reason.PROTOCOL_ERROR, -31004),
        (Reason.TOO_LARGE, -31005),
        (Reason.AUDIT_UNAVAILABLE, -31006),
        (Reason.OVERLOADED, -31007),
        (Reason.DENIED, -31008),
        (Reason.CANCELLED, -31009),
        (Reason.APPROVAL_REQUIRED, -31008),
        (Reason.APPROVAL_DENIED, -31008),
        (Reason.DUPLICATE, -31008),
        (Reason.BLOCKED_CONTENT, -31008),
        (Reason.INVALID_ARGUMENTS, -31008),
    ],
)
def test_every_reason_has_a_code(reason: Reason, code: int) -> None:
    assert codes.reason_code(reason) == code
