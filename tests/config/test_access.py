from __future__ import annotations

from datetime import date

from gateway.config.access import Auth, Client, Limits
from gateway.config.types import Rate


def test_a_client_may_have_several_digests_of_any_case_and_an_end() -> None:
    """S34: two keys of one client work together while they are rotated."""
    client = Client.model_validate({"key_sha256": ["AB" * 32, "cd" * 32], "expires": "2027-01-31", "groups": ["a"]})
    assert client.key_sha256 == ["ab" * 32, "cd" * 32]
    assert client.expires == date(2027, 1, 31)


def test_the_key_is_in_no_repr() -> None:
    """S156."""
    assert "s3cr3t" not in repr(Client.model_validate({"key": "s3cr3t" * 8}))


def test_defaults_are_those_of_the_contract() -> None:
    assert Auth().throttle.failures == Rate(20, 60.0)
    limits = Limits()
    assert (limits.requests, limits.in_flight, limits.sessions, limits.connections) == (Rate(6000, 60.0), 64, 100, 4096)
