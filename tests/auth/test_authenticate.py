"""Only one Authorization header with a known, valid key proves anything (S31 to S36, G077, G096)."""

from __future__ import annotations

import hashlib
import inspect
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from gateway.auth import keys
from gateway.auth.authenticate import INVALID_TOKEN, NO_TOKEN, Authenticator, Unauthenticated
from gateway.config.access import Client
from gateway.config.root import Config, Listen, ListenTls, LoadedConfig
from gateway.model.principal import ANONYMOUS, Principal

KEY = "mcpgw_abcd1234_" + "k" * 43
OLD = "mcpgw_old00000_" + "o" * 43
NOW = datetime(2026, 11, 30, tzinfo=UTC)


def loaded(config: Config) -> LoadedConfig:
    return LoadedConfig(config=config, path=Path("gateway.yaml"), digest="00")


def client(key: str, expires: date | None = None) -> Client:
    return Client(key_sha256=[hashlib.sha256(key.encode()).hexdigest()], expires=expires)


def authenticator(clients: dict[str, Client] | None = None) -> Authenticator:
    known = {"ci-bot": client(KEY), "old-bot": client(OLD, date(2026, 11, 29))} if clients is None else clients
    return Authenticator(loaded(Config(clients=known)), lambda: NOW)


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER ", "Bearer   ", "Bearer\t"])
async def test_a_known_key_proves_its_client_whatever_the_case_of_the_scheme(scheme: str) -> None:
    principal = await authenticator().authenticate([scheme + KEY])
    assert principal.id == "key:ci-bot"
    assert principal.label == "ci-bot"


@pytest.mark.parametrize(
    ("headers", "reason", "challenge"),
    [
        ([], "missing", NO_TOKEN),
        ([""], "other_scheme", NO_TOKEN),
        (["Basic dXNlcjpwdw=="], "other_scheme", NO_TOKEN),
        ([KEY], "other_scheme", NO_TOKEN),
        ([f"Bearer{KEY}"], "other_scheme", NO_TOKEN),
        (["Bearer"], "empty", NO_TOKEN),
        (["Bearer  "], "empty", NO_TOKEN),
        ([f"Bearer {KEY} {KEY}"], "malformed", INVALID_TOKEN),
        ([f"Bearer {KEY}\n"], "malformed", INVALID_TOKEN),
        ([f"Bearer {KEY}\u00a0"], "malformed", INVALID_TOKEN),
        ([f"Bearer {KEY}x"], "unknown_key", INVALID_TOKEN),
        ([f"Bearer {KEY.swapcase()}"], "unknown_key", INVALID_TOKEN),
        (["Bearer x"], "unknown_key", INVALID_TOKEN),
        ([f"Bearer {OLD}"], "expired_key", INVALID_TOKEN),
        ([f"Bearer {KEY}", f"Bearer {KEY}"], "several_headers", INVALID_TOKEN),
        ([f"Bearer {KEY}", "Basic x"], "several_headers", INVALID_TOKEN),
    ],
)
async def test_anything_else_is_challenged(headers: list[str], reason: str, challenge: str) -> None:
    with pytest.raises(Unauthenticated) as caught:
        await authenticator().authenticate(headers)
    assert caught.value.reason == reason
    assert caught.value.challenge == challenge
    assert caught.value.kind == ("none" if challenge == NO_TOKEN else "key")
    assert KEY not in repr(caught.value)


def test_the_challenges_are_what_clients_look_for() -> None:
    """RFC 6750 section 3: no error code unless a token was sent."""
    assert NO_TOKEN == 'Bearer realm="mcp"'
    assert INVALID_TOKEN == 'Bearer realm="mcp", error="invalid_token"'


async def test_without_configured_callers_everybody_is_anonymous_and_credentials_are_ignored() -> None:
    open_gateway = authenticator({})
    assert await open_gateway.authenticate([]) is ANONYMOUS
    assert await open_gateway.authenticate([f"Bearer {KEY}"]) is ANONYMOUS
    assert await open_gateway.authenticate(["a", "b"]) is ANONYMOUS


async def test_client_certificates_end_anonymous_access() -> None:
    listen = Listen(tls=ListenTls(cert="c", key="k", client_ca="ca"))
    with pytest.raises(Unauthenticated):
        await Authenticator(loaded(Config(listen=listen)), lambda: NOW).authenticate([])


async def test_a_principal_stays_current_until_its_key_or_the_mode_goes() -> None:
    """S34: streams of a removed key can be found and ended."""
    principal = await authenticator().authenticate([f"Bearer {KEY}"])
    assert authenticator().is_current(principal)
    assert not authenticator({"ci-bot": client(OLD)}).is_current(principal)
    assert not authenticator({"other": client(KEY)}).is_current(principal)
    assert not authenticator({}).is_current(principal)
    assert authenticator({}).is_current(ANONYMOUS)
    assert not authenticator().is_current(ANONYMOUS)
    assert not authenticator().is_current(Principal("key:ghost", "key", "ghost"))


async def test_a_principal_is_known_as_long_as_it_has_any_key_with_the_groups_of_now() -> None:
    principal = await authenticator().authenticate([f"Bearer {KEY}"])
    assert authenticator().fresh(principal) == principal
    rotated = Client(key_sha256=[hashlib.sha256(OLD.encode()).hexdigest()], groups=["ops"])
    fresh = authenticator({"ci-bot": rotated}).fresh(principal)
    assert fresh is not None
    assert (fresh.id, fresh.groups, fresh.credential) == (principal.id, frozenset({"ops"}), principal.credential)
    assert authenticator({"ci-bot": client(OLD, date(2026, 11, 29))}).fresh(principal) is None
    assert authenticator({"other": client(KEY)}).fresh(principal) is None
    assert authenticator({}).fresh(principal) is None
    assert authenticator({}).fresh(ANONYMOUS) == ANONYMOUS
    assert authenticator().fresh(ANONYMOUS) is None


def test_presented_keys_are_compared_in_constant_time() -> None:
    """S33."""
    assert "hmac.compare_digest(" in inspect.getsource(keys.KeyRing.find)
