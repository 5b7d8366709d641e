from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.server_auth import ServerAuth
from tests.kit.config_files import loaded, only, problems

SECRET = "client_id: me, client_secret: pw"


def config(auth: str, more: str = "", rest: str = "") -> str:
    return f"servers: {{a: {{url: 'https://x/mcp', auth: {{{auth}}}{more}}}}}\n{rest}"


@pytest.mark.parametrize(
    "auth",
    [
        "",
        f"client_credentials: {{{SECRET}}}",
        f"client_credentials: {{{SECRET}, token_url: 'https://idp.example/token', scopes: [a, b]}}",
        "client_credentials: {client_id: me, private_key: PEM, algorithm: RS256}",
        "authorization_code: {}",
        "authorization_code: {per: principal, client_metadata_url: 'https://gw.example/oauth/client.json'}",
        "authorization_code: {redirect_uri: 'http://localhost:8080/oauth/callback'}, ca: ca.pem",
    ],
)
def test_each_way_can_be_written(tmp_path: Path, auth: str) -> None:
    assert isinstance(loaded(tmp_path, config(auth)).config.servers["a"].auth, ServerAuth)


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        (f"client_credentials: {{{SECRET}}}, authorization_code: {{}}", "needs one way"),
        ("client_credentials: {client_id: me}", "either client_secret or private_key"),
        ("client_credentials: {client_secret: pw}", "needs client_id"),
        (f"client_credentials: {{{SECRET}, private_key: PEM}}", "either client_secret or private_key"),
        (f"client_credentials: {{{SECRET}, issuer: 'https://i', token_url: 'https://i/t'}}", "remove token_url"),
        (f"client_credentials: {{{SECRET}, issuer: 'http://idp.example'}}", "must be an https URL"),
        (f"client_credentials: {{{SECRET}, issuer: 'https://u:p@idp.example'}}", "user name or password"),
        (f"client_credentials: {{{SECRET}, scopes: ['a b']}}", "a form that is not accepted"),
        (f"token_exchange: {{{SECRET}}}", "needs issuer or token_url"),
        ("authorization_code: {client_secret: pw}", "client_secret needs client_id"),
        ("authorization_code: {client_metadata_url: 'https://gw.example'}", "with a path"),
        ("authorization_code: {client_metadata_url: 'http://localhost/x'}", "must be an https URL"),
        ("authorization_code: {redirect_uri: 'https://gw.example/elsewhere'}", "must end in /oauth/callback"),
        ("authorization_code: {per: everybody}", "server"),
    ],
)
def test_what_cannot_work_is_said_at_once(tmp_path: Path, auth: str, words: str) -> None:
    problem = only(problems(tmp_path, config(auth)))
    assert words in problem.message + problem.hint
    assert problem.path.startswith("servers.a.auth")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (config(f"client_credentials: {{{SECRET}}}", ", headers: {authorization: x}"), "servers.a.auth"),
        (config("authorization_code: {per: principal}", ", isolation: shared"), "servers.a.isolation"),
        (
            config(f"token_exchange: {{{SECRET}, issuer: 'https://i'}}", rest="clients: {c: {key: " + "k" * 40 + "}}"),
            "servers.a.auth.token_exchange",
        ),
    ],
)
def test_a_credential_that_contradicts_the_rest_is_an_error(tmp_path: Path, text: str, path: str) -> None:
    assert only(problems(tmp_path, text)).path == path


def test_browsers_need_an_address_to_come_back_to(tmp_path: Path) -> None:
    off = (
        "listen: {host: 0.0.0.0, behind_tls_proxy: true, allowed_hosts: [gw.example]}\n"
        "clients: {c: {key: " + "k" * 40 + "}}\n"
    )
    problem = only(problems(tmp_path, config("authorization_code: {}", rest=off)))
    assert problem.path == "servers.a.auth.authorization_code"
    fixed = config("authorization_code: {redirect_uri: 'https://gw.example/oauth/callback'}", rest=off)
    assert loaded(tmp_path, fixed).off == {}


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    text = config("client_credentials: {client_id: me, client_secret: canary}")
    assert "canary" not in repr(loaded(tmp_path, text).config.servers["a"])


def test_only_some_ways_give_each_principal_its_own_token() -> None:
    exchange = {"client_id": "me", "client_secret": "pw", "issuer": "https://i"}
    assert ServerAuth.model_validate({"token_exchange": exchange}).is_per_principal
    assert ServerAuth.model_validate({"authorization_code": {"per": "principal"}}).is_per_principal
    assert not ServerAuth.model_validate({"authorization_code": {}}).is_per_principal
    assert ServerAuth().ways == []
    assert ServerAuth().way is None


def test_tokens_over_plain_http_are_noted(tmp_path: Path) -> None:
    plain = config("authorization_code: {}").replace("https://x", "http://x")
    assert any("unencrypted" in note for note in loaded(tmp_path, plain).notes)
    local = config("authorization_code: {}").replace("https://x", "http://127.0.0.1:1")
    assert not any("unencrypted" in note for note in loaded(tmp_path, local).notes)
