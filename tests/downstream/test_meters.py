"""The default of what is counted."""

from __future__ import annotations

from gateway.downstream.meters import Meters, NoMeters


def test_the_default_takes_everything_and_returns_nothing() -> None:
    meters: Meters = NoMeters()
    meters.state("a", "up")
    meters.restarted("a", "exit")
    meters.protocol_error("a", "unknown_id")
    meters.stderr("a", 7)
    meters.in_flight("a", 1)
    meters.blocked("a")
