"""Who shares a connection (S101, G039, G040)."""

from __future__ import annotations

import pytest

from gateway.downstream.isolation import key_of, needs_era
from gateway.model.call import Caller
from gateway.protocol.versions import Era
from tests.kit.transport import call, principal, server

MODERN, LEGACY = Era.MODERN, Era.LEGACY
IN_SESSION = Caller(LEGACY, "2025-11-25", session="s1")


@pytest.mark.parametrize(
    ("isolation", "catalog", "era", "caller", "expected"),
    [
        ("auto", "shared", MODERN, IN_SESSION, None),
        ("auto", "shared", LEGACY, IN_SESSION, "principal:key:bot"),
        ("auto", "shared", None, IN_SESSION, "principal:key:bot"),
        ("auto", "principal", MODERN, IN_SESSION, "principal:key:bot"),
        ("shared", "shared", LEGACY, IN_SESSION, None),
        ("shared", "shared", None, IN_SESSION, None),
        ("principal", "shared", MODERN, IN_SESSION, "principal:key:bot"),
        ("session", "shared", LEGACY, IN_SESSION, "session:s1"),
        ("session", "shared", MODERN, IN_SESSION, "session:s1"),
        ("session", "shared", LEGACY, Caller(MODERN, "2026-07-28"), "principal:key:bot"),
    ],
)
def test_the_key_follows_configuration_era_and_caller(
    isolation: str, catalog: str, era: Era | None, caller: Caller, expected: str | None
) -> None:
    made = server(isolation=isolation, catalog=catalog)
    assert key_of(made, era, call(caller=caller)) == expected


def test_two_principals_never_share_what_is_not_shared() -> None:
    made = server(isolation="principal")
    assert key_of(made, LEGACY, call(principal=principal("a"))) != key_of(made, LEGACY, call(principal=principal("b")))


def test_a_principal_cannot_be_named_like_a_session() -> None:
    made = call(principal=principal("x"), caller=Caller(LEGACY, "2025-11-25", session="key:x"))
    assert key_of(server(isolation="session"), LEGACY, made) != key_of(server(isolation="principal"), LEGACY, made)


def test_the_era_matters_only_where_nothing_is_said() -> None:
    assert needs_era(server())
    assert not needs_era(server(isolation="shared"))
    assert not needs_era(server(catalog="principal"))
