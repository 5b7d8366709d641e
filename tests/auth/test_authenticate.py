"""Only one Authorization header with a known, valid key proves anything (S31 to S36, G077, G096)."""

from __future__ import annotations

import hashlib
import inspect
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from gateway.auth import keys
from gateway.auth.authenticate import Authenticator, InsufficientScope, Unauthenticated
from gateway.auth.certificate import Certificate
from gateway.auth.claims import CERTIFICATE_PROOF
from gateway.auth.issuer import KeysUnavailable
from gateway.config.access import Client
from gateway.config.root import Config, Listen, ListenTls, LoadedConfig, View
from gateway.config.servers import Server
from gateway.model.principal import ANONYMOUS, Principal
from tests.kit import tokens
from tests.kit.tokens import AUDIENCE, ISSUER, FixedIssuer, rsa_key, settings, token

NO_TOKEN = 'Bearer realm="mcp"'
INVALID_TOKEN = 'Bearer realm="mcp", error="invalid_token"'
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


BOTH = {"ci-bot": client(KEY)}
SECURED = ListenTls(cert="c", key="k", client_ca="ca")
CERTIFICATE = Certificate((("DNS", "ci.example.org"),), 4e9, b"der")


def mutual(clients: dict[str, Client] | None = None) -> Authenticator:
    return Authenticator(loaded(Config(listen=Listen(tls=SECURED), clients=clients or {})), lambda: NOW)


async def test_keys_and_tokens_are_accepted_side_by_side() -> None:
    both = tokens.authenticator(tokens.config(clients=BOTH))

    assert (await both.authenticate([f"Bearer {KEY}"])).id == "key:ci-bot"
    assert (await both.authenticate([f"bearer {token()}"])).id == f"sub:{ISSUER}/alice"


@pytest.mark.parametrize(
    ("text", "kind", "reason", "detail"),
    [
        (f"{KEY}x", "key", "unknown_key", "unknown_key"),
        ("opaque", "key", "unknown_key", "unknown_key"),
        ("e30.e30.e30", "jwt", "signature", "algorithm"),
        (token(key=rsa_key("attacker")), "jwt", "signature", "signature"),
        (token({"aud": "https://other.example"}), "jwt", "claims", "audience"),
        (token({"exp": 1, "iat": 0}), "jwt", "expired_token", "expired"),
        (token(headers={"kid": "none"}), "jwt", "unknown_key", "no_such_key"),
    ],
)
async def test_every_other_token_gets_one_and_the_same_challenge(
    text: str, kind: str, reason: str, detail: str
) -> None:
    """S44, G096: the operator alone learns why."""
    with pytest.raises(Unauthenticated) as caught:
        await tokens.authenticator(tokens.config(clients=BOTH)).authenticate([f"Bearer {text}"])
    found = caught.value
    assert (found.kind, found.reason, found.detail) == (kind, reason, detail)
    metadata = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
    assert found.challenge == f'Bearer realm="mcp", error="invalid_token", resource_metadata="{metadata}"'
    assert text not in repr(found)


async def test_without_an_issuer_a_token_is_an_unknown_key() -> None:
    with pytest.raises(Unauthenticated) as caught:
        await authenticator().authenticate([f"Bearer {token()}"])
    assert (caught.value.kind, caught.value.reason) == ("key", "unknown_key")


async def test_a_token_short_of_the_scopes_that_all_need_is_known_and_refused() -> None:
    strict = tokens.authenticator(tokens.config(settings(required_scopes=["mcp", "read"]), clients=BOTH))

    assert (await strict.authenticate([f"Bearer {token({'scope': 'read mcp x'})}"])).scopes == {"read", "mcp", "x"}
    assert (await strict.authenticate([f"Bearer {KEY}"])).id == "key:ci-bot"
    with pytest.raises(InsufficientScope) as caught:
        await strict.authenticate([f"Bearer {token({'scope': 'read'})}"])
    assert caught.value.principal.id == f"sub:{ISSUER}/alice"
    assert caught.value.challenge.endswith('scope="mcp read"')


async def test_when_the_issuer_cannot_be_reached_nobody_is_let_in_or_called_a_liar() -> None:
    """S43, S45."""
    dark = tokens.authenticator(tokens.config(clients=BOTH), FixedIssuer(keys=None))

    with pytest.raises(KeysUnavailable):
        await dark.authenticate([f"Bearer {token()}"])
    assert (await dark.authenticate([f"Bearer {KEY}"])).id == "key:ci-bot"


async def test_a_token_for_a_view_opens_that_view_alone() -> None:
    """S39."""
    views = tokens.authenticator(tokens.config(views={"analysts": View(include=[])}))
    narrow = f"Bearer {token({'aud': f'{AUDIENCE}/analysts'})}"

    assert (await views.authenticate([narrow], "analysts")).id == f"sub:{ISSUER}/alice"
    for other in ("", "ops"):
        with pytest.raises(Unauthenticated) as caught:
            await views.authenticate([narrow], other)
        assert caught.value.detail == "audience"


async def test_a_certificate_counts_where_no_header_speaks() -> None:
    principal = await mutual().authenticate([], "", CERTIFICATE)

    assert principal.id == "cert:ci.example.org"
    assert mutual().is_current(principal)
    assert mutual().fresh(principal) == principal
    assert (await mutual(BOTH).authenticate([f"Bearer {KEY}"], "", CERTIFICATE)).id == "key:ci-bot"
    for shown in (["Bearer wrong"], ["Basic x"], [""]):
        with pytest.raises(Unauthenticated):
            await mutual(BOTH).authenticate(shown, "", CERTIFICATE)


async def test_a_certificate_that_names_nobody_is_challenged() -> None:
    with pytest.raises(Unauthenticated) as caught:
        await mutual().authenticate([], "", Certificate((), 4e9, b"der"))
    assert (caught.value.kind, caught.value.reason) == ("cert", "certificate")
    assert (caught.value.detail, caught.value.challenge) == ("certificate_names_nobody", NO_TOKEN)


async def test_certificates_prove_nothing_where_no_authority_is_configured() -> None:
    with pytest.raises(Unauthenticated) as caught:
        await authenticator().authenticate([], "", CERTIFICATE)
    assert caught.value.reason == "missing"
    named = await mutual().authenticate([], "", CERTIFICATE)
    assert not authenticator().is_current(named)
    assert authenticator().fresh(named) is None


async def test_a_token_bound_to_a_certificate_needs_that_certificate() -> None:
    """RFC 8705 §3."""
    bound = f"Bearer {token({'cnf': {CERTIFICATE_PROOF: CERTIFICATE.thumbprint}})}"
    plain = tokens.authenticator(tokens.config())

    assert (await plain.authenticate([bound], "", CERTIFICATE)).id == f"sub:{ISSUER}/alice"
    for other in (None, Certificate((), 4e9, b"other")):
        with pytest.raises(Unauthenticated) as caught:
            await plain.authenticate([bound], "", other)
        assert caught.value.detail == "bound_to_another_certificate"


async def test_a_token_is_current_until_it_ends_or_its_terms_change() -> None:
    """S34, S52, S183."""
    config = tokens.config(clients=BOTH)
    principal = await tokens.authenticator(config).authenticate([f"Bearer {token()}"])
    assert principal.expires is not None
    assert tokens.authenticator(config).is_current(principal)
    stricter = tokens.authenticator(tokens.config(settings(required_scopes=["x"])))
    assert not stricter.is_current(principal)
    assert stricter.fresh(principal) == principal

    late = datetime.fromtimestamp(principal.expires, UTC)
    expired = Authenticator(loaded(config), lambda: late, tokens.tokens(config))
    assert not expired.is_current(principal)
    assert expired.fresh(principal) == principal

    for other in (authenticator(), tokens.authenticator(tokens.config(settings(issuer="https://other.example")))):
        assert not other.is_current(principal)
        assert other.fresh(principal) is None


async def test_a_token_stays_with_its_principal_only_where_a_server_takes_one_in_exchange() -> None:
    """S46, S48: nowhere else, and never in a text."""
    exchange = {"issuer": "https://other.example", "client_id": "gateway", "client_secret": "s" * 32}
    server = Server.model_validate({"url": "https://crm.example.com/mcp", "auth": {"token_exchange": exchange}})
    text = token()
    with_exchange = await tokens.authenticator(tokens.config(servers={"crm": server})).authenticate([f"Bearer {text}"])
    without = await tokens.authenticator(tokens.config()).authenticate([f"Bearer {text}"])

    assert (with_exchange.token, without.token) == (text, "")
    assert text not in repr(with_exchange)
