"""How checks of the official suite are counted."""

from __future__ import annotations

from tests.conformance.suite import Tally, client_tallied, tallied


def test_warnings_and_skipped_checks_are_not_good_and_remarks_are_no_checks() -> None:
    checks = [
        {"id": "a", "status": "SUCCESS"},
        {"id": "b", "status": "WARNING", "errorMessage": "should"},
        {"id": "c", "status": "SKIPPED"},
        {"id": "d", "status": "FAILURE", "errorMessage": "must"},
        {"id": "e", "status": "INFO", "errorMessage": "by the way"},
    ]

    assert tallied(checks) == Tally(1, ["WARNING b: should", "SKIPPED c: ", "FAILURE d: must"])


def test_a_check_of_a_client_that_is_made_with_every_request_counts_once_at_its_worst() -> None:
    checks = [
        {"id": "a", "name": "A", "status": "SUCCESS"},
        {"id": "a", "name": "A", "status": "SUCCESS"},
        {"id": "a", "name": "B", "status": "SUCCESS"},
        {"id": "b", "name": "B", "status": "SUCCESS"},
        {"id": "b", "name": "B", "status": "FAILURE", "errorMessage": "once"},
        {"id": "b", "name": "B", "status": "SUCCESS"},
        {"id": "seen", "name": "Seen", "status": "INFO"},
    ]

    assert client_tallied(checks) == Tally(2, ["FAILURE b: once"])
