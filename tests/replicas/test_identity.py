"""Ids of replicas."""

from __future__ import annotations

import pytest

from gateway.replicas.identity import is_replica_id, new_replica_id


def test_every_start_is_another_replica() -> None:
    made = {new_replica_id() for _ in range(100)}
    assert len(made) == 100
    assert all(is_replica_id(each) for each in made)


@pytest.mark.parametrize("text", ["", "0123456789a", "0123456789abc", "0123456789AB", "0123456789a*", "0123456789ab\n"])
def test_nothing_else_is_taken_for_one(text: str) -> None:
    """What a server or a client wrote can end up here: it must not choose where letters go."""
    assert not is_replica_id(text)
