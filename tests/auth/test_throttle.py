"""Many failures from one source are slowed; nobody else notices (S35)."""

from __future__ import annotations

import pytest

from gateway.auth.throttle import Throttle, site_of
from gateway.config.types import Rate


def test_failures_over_the_rate_must_wait_and_waiting_is_enough() -> None:
    throttle = Throttle(Rate(20, 60.0))
    assert [throttle.failed("203.0.113.7", 100.0) for _ in range(20)] == [None] * 20
    wait = throttle.failed("203.0.113.7", 100.0)
    assert wait == 3.0
    assert throttle.failed("203.0.113.7", 100.0 + wait - 0.001) is not None
    assert throttle.failed("203.0.113.7", 100.0 + wait) is None


def test_one_source_does_not_slow_another() -> None:
    throttle = Throttle(Rate(20, 60.0))
    for _ in range(1000):
        throttle.failed("203.0.113.7", 5.0)
    assert throttle.failed("203.0.113.8", 5.0) is None


def test_the_number_of_remembered_sources_is_bounded_and_the_quietest_goes_first() -> None:
    throttle = Throttle(Rate(1, 3600.0), most=100)
    for number in range(100):
        throttle.failed(f"10.0.0.{number}", 1.0)
    throttle.failed("10.0.0.0", 2.0)
    for number in range(50):
        throttle.failed(f"10.0.1.{number}", 3.0)
    assert len(throttle) == 100
    assert throttle.failed("10.0.0.0", 4.0) is not None
    assert throttle.failed("10.0.0.1", 4.0) is None


@pytest.mark.parametrize(
    ("source", "site"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::9%eth0", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("", ""),
        ("unix:" + "x" * 200, "unix:" + "x" * 59),
    ],
)
def test_an_ipv6_host_is_counted_with_all_its_addresses(source: str, site: str) -> None:
    assert site_of(source) == site
