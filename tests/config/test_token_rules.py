"""An issuer is configured whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.config_files import loaded, only, problems

PUBLIC = "listen: {public_url: 'https://mcp.example.com/mcp'}\n"
GOOD = "issuer: 'https://idp.example.com', audience: 'https://mcp.example.com/mcp'"


def jwt(fields: str, public: str = PUBLIC) -> str:
    return f"{public}auth: {{jwt: {{{fields}}}}}\n"


def test_an_issuer_an_audience_and_the_public_address_are_enough(tmp_path: Path) -> None:
    found = loaded(tmp_path, jwt(GOOD))

    assert not found.anonymous
    assert found.notes == []


@pytest.mark.parametrize("field", ["issuer", "audience"])
def test_neither_can_be_left_out(tmp_path: Path, field: str) -> None:
    rest = ", ".join(part for part in GOOD.split(", ") if not part.startswith(field))
    problem = only(problems(tmp_path, jwt(rest)))
    assert problem.path == f"auth.jwt.{field}"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ("issuer: '', audience: 'https://mcp.example.com/mcp'", "auth.jwt.issuer"),
        ("issuer: 'idp', audience: 'https://mcp.example.com/mcp'", "auth.jwt.issuer"),
        ("issuer: 'http://idp.example.com', audience: 'https://mcp.example.com/mcp'", "auth.jwt.issuer"),
        ("issuer: 'https://u:p@idp.example.com', audience: 'https://mcp.example.com/mcp'", "auth.jwt.issuer"),
        ("issuer: 'https://idp.example.com?x=1', audience: 'https://mcp.example.com/mcp'", "auth.jwt.issuer"),
        (f"{GOOD}, jwks_url: 'http://idp.example.com/jwks'", "auth.jwt.jwks_url"),
        (f"{GOOD}, jwks_url: 'ftp://idp.example.com/jwks'", "auth.jwt.jwks_url"),
        (f"{GOOD}, algorithms: []", "auth.jwt.algorithms"),
        (f"{GOOD}, algorithms: [none]", "auth.jwt.algorithms[0]"),
        (f"{GOOD}, algorithms: [RS256, HS256]", "auth.jwt.algorithms[1]"),
        (f"{GOOD}, algorithms: [ES256K]", "auth.jwt.algorithms[0]"),
        (f"{GOOD}, required_scopes: ['a b']", "auth.jwt.required_scopes[0]"),
        (f"{GOOD}, required_scopes: ['a', 'b\"c']", "auth.jwt.required_scopes[1]"),
        (f"{GOOD}, required_scopes: ['']", "auth.jwt.required_scopes[0]"),
        (f"{GOOD}, scope_prefix: 'a b'", "auth.jwt.scope_prefix"),
        (f"{GOOD}, max_stale: 30s", "auth.jwt.max_stale"),
        (f"{GOOD}, max_lifetime: 0s", "auth.jwt.max_lifetime"),
        (f"{GOOD}, groups_claim: ' '", "auth.jwt.groups_claim"),
    ],
)
def test_what_would_let_anybody_in_or_nobody_does_not_start(tmp_path: Path, fields: str, path: str) -> None:
    """S37, S42."""
    assert only(problems(tmp_path, jwt(fields))).path == path


def test_an_empty_audience_is_no_audience(tmp_path: Path) -> None:
    problem = only(problems(tmp_path, jwt("issuer: 'https://idp.example.com', audience: ' '")))
    assert (problem.path, "tokens for anything" in problem.message) == ("auth.jwt.audience", True)


def test_clients_have_to_learn_the_public_address(tmp_path: Path) -> None:
    problem = only(problems(tmp_path, jwt(GOOD, "")))
    assert (problem.path, "listen.public_url" in problem.message) == ("auth.jwt", True)


def test_an_issuer_on_this_machine_may_be_plain_http(tmp_path: Path) -> None:
    local = (
        "issuer: 'http://127.0.0.1:8081', audience: 'https://mcp.example.com/mcp', jwks_url: 'http://localhost/k?v=1'"
    )
    assert loaded(tmp_path, jwt(local)).notes == []


def test_another_audience_than_the_public_address_is_noted(tmp_path: Path) -> None:
    found = loaded(tmp_path, jwt("issuer: 'https://idp.example.com', audience: 'api://gateway'"))
    assert len(found.notes) == 1
    assert "auth.jwt.audience" in found.notes[0]


def test_scopes_of_policies_are_words_and_belong_to_allow(tmp_path: Path) -> None:
    rule = "servers: {a: {command: x}}\npolicies: [{name: p, clients: ['*'], "
    bad = only(problems(tmp_path, jwt(GOOD) + rule + "allow: [{tools: 'a/*', scopes: [ok, 'a b']}]}]\n"))
    assert bad.path == "policies[0].allow[0].scopes[1]"
    denied = only(problems(tmp_path, jwt(GOOD) + rule + "deny: [{tools: 'a/*', scopes: [x]}]}]\n"))
    assert (denied.path, denied.message) == ("policies[0].deny[0].scopes[0]", "belongs to allow")


def test_scopes_that_nobody_can_have_are_noted(tmp_path: Path) -> None:
    rule = "[{tools: 'a/*', scopes: [x]}]"
    text = f"servers: {{a: {{command: x}}}}\npolicies: [{{name: p, clients: [anonymous], allow: {rule}}}]\n"
    assert any("nobody can have a scope" in note for note in loaded(tmp_path, text).notes)
