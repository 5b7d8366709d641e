"""How checks of the official suite are counted."""

from __future__ import annotations

from tests.conformance.suite import Tally, tallied


def test_warnings_and_skipped_checks_are_not_good_and_remarks_are_no_checks() -> None:
    checks = [
        {"id": "a", "status": "SUCCESS"},
        {"id": "b", "status": "WARNING", "errorMessage": "should"},
        {"id": "c", "status": "SKIPPED"},
        {"id": "d", "status": "FAILURE", "errorMessage": "must"},
        {"id": "e", "status": "INFO", "errorMessage": "by the way"},
    ]

    assert tallied(checks) == Tally(1, ["WARNING b: should", "SKIPPED c: ", "FAILURE d: must"])
