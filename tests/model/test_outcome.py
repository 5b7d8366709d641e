"""The four ends of a call."""

from __future__ import annotations

from typing import get_args

import pytest

from gateway.errors import DownstreamError, Reason
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.protocol import rawjson


def test_a_call_ends_in_exactly_four_ways() -> None:
    assert set(get_args(Outcome)) == {Complete, InputRequired, Started, Failure}


@pytest.mark.parametrize("may_have_run", [True, False])
def test_a_downstream_error_becomes_a_failure_with_all_it_knows(may_have_run: bool) -> None:
    error = DownstreamError(Reason.UNAVAILABLE, "Server files is down.", may_have_run=may_have_run, retry_after_ms=500)
    then = (
        "The call may have run: check its effect before you try again."
        if may_have_run
        else "The call did not run. Try again in 0.5 seconds."
    )
    assert Failure.of(error) == Failure(Reason.UNAVAILABLE, f"Server files is down. {then}", may_have_run, 500)


def test_a_failure_of_ours_carries_no_error_of_a_server() -> None:
    failure = Failure.of(DownstreamError(Reason.TIMEOUT, "late"))
    assert failure.text == "Late. The call did not run. Try again later."
    assert (failure.error, failure.detail, failure.may_have_run, failure.retry_after_ms) == (None, "", False, None)


def test_ends_are_values() -> None:
    assert Complete({"a": rawjson.raw(1)}) == Complete({"a": rawjson.raw(1)})
    assert InputRequired({}, None) != InputRequired({}, "")
    ends: list[Outcome] = [Started({}), Complete({})]
    assert ends[0] != ends[1]


def test_a_program_is_told_reason_and_truth_and_no_more_than_there_is() -> None:
    assert Failure(Reason.DENIED, "no").facts() == {"reason": "denied", "mayHaveRun": False}
    late = Failure(Reason.APPROVAL_REQUIRED, "", may_have_run=True, retry_after_ms=5, approval="a1")
    assert late.facts() == {
        "reason": "approval_required",
        "mayHaveRun": True,
        "retryAfterMs": 5,
        "approval": "a1",
    }
