"""Back-off grows, is bounded, and is spread."""

from __future__ import annotations

import pytest

from gateway.downstream import backoff


@pytest.mark.parametrize(
    ("failures", "jitter", "expected"),
    [(1, 1.0, 0.5), (1, 0.0, 0.25), (2, 1.0, 1.0), (5, 1.0, 8.0), (11, 1.0, 300.0), (10_000, 1.0, 300.0)],
)
def test_the_wait_doubles_up_to_five_minutes(failures: int, jitter: float, expected: float) -> None:
    assert backoff.delay(failures, jitter=jitter) == expected


def test_drawn_waits_differ_and_stay_within_half_and_the_whole() -> None:
    waits = {backoff.delay(3) for _ in range(100)}
    assert len(waits) > 1
    assert all(1.0 <= wait <= 2.0 for wait in waits)
