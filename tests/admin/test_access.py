"""Who may read and act on the admin listener."""

from __future__ import annotations

import hashlib

import pytest

from gateway.admin.access import Access, Refused
from gateway.config.root import AdminUser


def user(token: str, *roles: str) -> AdminUser:
    return AdminUser.model_validate(
        {"token_sha256": hashlib.sha256(token.encode()).hexdigest(), "roles": list(roles) or ["view"]}
    )


LOCAL = Access("127.0.0.1", {"alice": user("alice-token", "view", "reload"), "bob": user("bob-token")})
PUBLIC = Access("10.0.0.5", {"alice": user("alice-token", "view")}, metrics_token="scrape")


@pytest.mark.parametrize("host", ["localhost:9090", "127.0.0.1:9090", "[::1]:9090", "LOCALHOST", "[::1]"])
def test_loopback_names_are_served(host: str) -> None:
    LOCAL.check_host(host, None)
    LOCAL.check_host(host, f"http://{host}")


@pytest.mark.parametrize("host", ["", "localhost:80@evil", "127.0.0.1:x", "localhost/a", "localhost#", "[::1", "a b"])
def test_what_is_no_host_is_a_bad_request(host: str) -> None:
    """S02, S174: two readers must not read one Host differently."""
    with pytest.raises(Refused) as caught:
        LOCAL.check_host(host, None)
    assert caught.value.status == 400


@pytest.mark.parametrize("host", ["evil.example:9090", "localhost.evil.example", "127.0.0.1.evil.example:1"])
def test_other_hosts_are_misdirected(host: str) -> None:
    """S174, G095: DNS rebinding does not reach the admin listener."""
    with pytest.raises(Refused) as caught:
        LOCAL.check_host(host, None)
    assert caught.value.status == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1"])
def test_other_origins_are_forbidden(origin: str) -> None:
    with pytest.raises(Refused) as caught:
        LOCAL.check_host("localhost:9090", origin)
    assert caught.value.status == 403


def test_reading_is_open_on_loopback_alone() -> None:
    assert LOCAL.reader(None) == "local"
    with pytest.raises(Refused) as caught:
        PUBLIC.reader(None)
    assert caught.value.status == 401
    assert PUBLIC.reader("bearer alice-token") == "alice"


@pytest.mark.parametrize("header", ["Bearer nobody", "Bearer ", "Basic alice-token", "alice-token", "Bearer mcpgw_x_y"])
def test_a_wrong_token_is_refused_even_where_reading_is_open(header: str) -> None:
    """S174: a client's key is nobody's token here."""
    with pytest.raises(Refused) as caught:
        LOCAL.reader(header)
    assert caught.value.status == 401


def test_an_act_needs_a_token_with_the_role() -> None:
    assert LOCAL.user("Bearer alice-token", "reload") == "alice"
    with pytest.raises(Refused) as caught:
        LOCAL.user("Bearer bob-token", "reload")
    assert caught.value.status == 403
    with pytest.raises(Refused) as caught:
        LOCAL.user(None, "reload")
    assert caught.value.status == 401


def test_a_scraper_has_a_token_of_its_own() -> None:
    PUBLIC.scraper("Bearer scrape")
    PUBLIC.scraper("Bearer alice-token")
    for header in (None, "Bearer wrong"):
        with pytest.raises(Refused):
            PUBLIC.scraper(header)
    LOCAL.scraper(None)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("localhost", True), ("127.0.0.1", True), ("::1", True), ("0.0.0.0", False), ("admin.example", False)],
)
def test_loopback_is_told_from_the_bind_address(host: str, loopback: bool) -> None:
    assert Access(host, {}).loopback is loopback
