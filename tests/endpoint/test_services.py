"""What the endpoint asks of the gateway is what the gateway has."""

from __future__ import annotations

from gateway.endpoint.services import Moment, Services
from gateway.pipeline.snapshot import Snapshot
from tests.kit.endpoint import FakeServices, moment


def as_moment(snapshot: Snapshot) -> Moment:
    """Type-checked: a snapshot is all the endpoint needs to know of a moment."""
    return snapshot


def as_services(services: Services) -> Services:
    return services


def test_the_kit_offers_exactly_the_surface() -> None:
    services = as_services(FakeServices(moment()))
    offered = [name for name in dir(Services) if not name.startswith("_")]
    assert all(hasattr(services, name) for name in offered)


def test_a_snapshot_has_every_member_of_a_moment() -> None:
    needed = [name for name in dir(Moment) if not name.startswith("_")]
    assert [name for name in needed if not hasattr(Snapshot, name)] == []
