"""What is sent a second time: never what may have run, unless its operator said that this does no harm (S127)."""

from __future__ import annotations

import pytest

from gateway.downstream.dialect import Unserved
from gateway.downstream.resending import may_resend
from gateway.errors import DownstreamError, Reason
from gateway.model.call import TaskRef
from tests.kit.transport import call, server

GONE = Reason.UNAVAILABLE


@pytest.mark.parametrize(
    ("error", "idempotent", "expected"),
    [
        (DownstreamError(GONE, "gone"), [], True),
        (DownstreamError(GONE, "gone", may_have_run=True), [], False),
        (DownstreamError(GONE, "gone", may_have_run=True), ["other"], False),
        (DownstreamError(GONE, "gone", may_have_run=True), ["echo"], True),
        (DownstreamError(GONE, "busy", retry_after_ms=1000), ["echo"], False),
        (Unserved(GONE, "refused"), ["echo"], False),
        (DownstreamError(Reason.TIMEOUT, "slow"), ["echo"], False),
        (DownstreamError(Reason.PROTOCOL_ERROR, "nonsense"), ["echo"], False),
    ],
)
def test_only_what_did_not_run_or_may_run_twice_is_sent_again(
    error: DownstreamError, idempotent: list[str], expected: bool
) -> None:
    assert may_resend(server(idempotent=idempotent), call("echo"), error) is expected


def test_what_is_about_a_task_of_one_process_goes_to_no_other() -> None:
    asked = call("echo", task=TaskRef("t-1", "t-1", instance="pid:1"))
    assert not may_resend(server(), asked, DownstreamError(GONE, "gone"))
