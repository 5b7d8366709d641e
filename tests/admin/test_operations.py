"""What the admin listener asks for is stated as types alone; here it is checked that a runtime can meet them."""

from __future__ import annotations

from gateway.admin.operations import Act, Readiness


def test_readiness_without_reasons_is_ready() -> None:
    assert Readiness(True).reasons == ()


def test_an_act_names_its_user_and_source() -> None:
    assert (Act("alice", "127.0.0.1").user, Act("alice", "127.0.0.1").source) == ("alice", "127.0.0.1")
