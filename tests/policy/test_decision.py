"""The words of a decision are constants that metrics, audit and refusals share."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from gateway.policy import decision
from gateway.policy.decision import Decision
from gateway.telemetry.labels import OTHER, Constants


def test_every_reason_fits_a_metric_label() -> None:
    """Part E: at most 12 reasons."""
    reasons = [value for name, value in vars(decision).items() if name.isupper() and isinstance(value, str)]
    domain = Constants(12)
    assert len(set(reasons)) == len(reasons) == 9
    assert [reason for reason in reasons if domain.admit(reason) == OTHER] == []


def test_a_decision_cannot_be_changed() -> None:
    answer = Decision(False, "", "", decision.DEFAULT_DENY)
    with pytest.raises(FrozenInstanceError):
        answer.allowed = True  # type: ignore[misc] # that this is impossible is what is tested
    assert answer.limits == ()
