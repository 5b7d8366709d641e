"""Versions: one list for errors and discovery, and what ``initialize`` is answered with."""

from __future__ import annotations

import pytest

from gateway.protocol import versions
from gateway.protocol.versions import Era


def test_the_supported_list_is_newest_first_and_complete() -> None:
    assert versions.SUPPORTED == ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26")
    assert list(versions.SUPPORTED) == sorted(versions.SUPPORTED, reverse=True)


def test_every_supported_version_is_modern_or_legacy() -> None:
    assert {versions.MODERN} | versions.CLIENT_LEGACY == set(versions.SUPPORTED)
    assert versions.MODERN not in versions.CLIENT_LEGACY
    assert min(versions.CLIENT_LEGACY) == versions.OLDEST_LEGACY


def test_only_servers_may_speak_the_oldest_version_of_all() -> None:
    assert {"2024-11-05"} == versions.SERVER_LEGACY - versions.CLIENT_LEGACY


@pytest.mark.parametrize("requested", ["2025-11-25", "2025-06-18", "2025-03-26"])
def test_a_known_legacy_version_is_agreed_to(requested: str) -> None:
    assert versions.negotiate_legacy(requested) == requested


@pytest.mark.parametrize("requested", ["2026-07-28", "2024-11-05", "1900-01-01", "", "2025-11-25 ", "latest"])
def test_any_other_version_is_answered_with_the_latest_legacy_one(requested: str) -> None:
    """A handshake cannot agree on a version that has none (2025-11-25 basic/lifecycle §Version Negotiation)."""
    assert versions.negotiate_legacy(requested) == "2025-11-25"


def test_there_are_two_eras() -> None:
    assert [era.value for era in Era] == ["modern", "legacy"]
