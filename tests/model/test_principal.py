"""Who calls."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.model.principal import ANONYMOUS, Principal


def test_only_one_principal_is_anonymous() -> None:
    assert ANONYMOUS.is_anonymous
    assert (ANONYMOUS.id, ANONYMOUS.kind, ANONYMOUS.label) == ("anonymous", "anonymous", "anonymous")


@pytest.mark.parametrize(
    "identity", ["key:anonymous", "sub:https://idp.example.com/anonymous", "Anonymous", "anonymous "]
)
def test_no_credential_makes_anybody_anonymous(identity: str) -> None:
    assert not Principal(identity, "key", "anonymous").is_anonymous


def test_a_principal_has_no_groups_scopes_or_claims_of_its_own() -> None:
    fresh = Principal("key:ci-bot", "key", "ci-bot")
    assert (fresh.groups, fresh.scopes, dict(fresh.claims), fresh.credential) == (frozenset(), frozenset(), {}, "")


def test_a_principal_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ANONYMOUS.id = "key:root"  # type: ignore[misc]  # reason: the assignment must fail.
