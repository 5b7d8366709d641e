from __future__ import annotations

import pytest

from gateway.downstream.oauth.metadata import (
    PKCE,
    Unsound,
    canonical,
    covers,
    origin,
    read_resource,
    read_server,
    resource_places,
    server_places,
)
from gateway.protocol.rawjson import Object, Value

ISSUER = "https://idp.example"
SERVER: Object = {"issuer": ISSUER, "token_endpoint": f"{ISSUER}/token"}
RESOURCE = "https://mcp.example/a/mcp"


@pytest.mark.parametrize(
    ("url", "resource"),
    [
        ("HTTPS://user:pw@MCP.example:443/mcp?key=1", "https://mcp.example/mcp"),
        ("https://mcp.example/", "https://mcp.example"),
        ("http://[::1]:8080/mcp", "http://[::1]:8080/mcp"),
    ],
)
def test_a_resource_identifier_has_no_secrets_and_no_ports_that_go_without_saying(url: str, resource: str) -> None:
    assert canonical(url) == resource


def test_places_of_metadata_come_in_the_order_of_the_specification() -> None:
    base = "https://mcp.example/.well-known/oauth-protected-resource"
    assert resource_places(RESOURCE) == [f"{base}/a/mcp", base]
    assert resource_places("https://mcp.example") == [base]
    assert server_places(f"{ISSUER}/t") == [
        f"{ISSUER}/.well-known/oauth-authorization-server/t",
        f"{ISSUER}/.well-known/openid-configuration/t",
        f"{ISSUER}/t/.well-known/openid-configuration",
    ]
    assert server_places(ISSUER) == [
        f"{ISSUER}/.well-known/oauth-authorization-server",
        f"{ISSUER}/.well-known/openid-configuration",
    ]


@pytest.mark.parametrize(
    ("named", "is_ours"),
    [
        (RESOURCE, True),
        ("https://mcp.example", True),
        ("https://MCP.example:443/a", True),
        ("https://mcp.example/a/mc", False),
        ("https://mcp.example/b", False),
        ("https://mcp.example.evil/a/mcp", False),
        ("http://mcp.example/a/mcp", False),
        ("https://mcp.example/a/mcp?x", False),
        ("no address", False),
    ],
)
def test_metadata_about_another_resource_is_not_used(named: str, is_ours: bool) -> None:
    """S121."""
    assert covers(named, RESOURCE) is is_ours
    document: Object = {"resource": named, "authorization_servers": [ISSUER]}
    if is_ours:
        assert read_resource(document, RESOURCE).issuers == (ISSUER,)
    else:
        with pytest.raises(Unsound, match="another resource"):
            read_resource(document, RESOURCE)


def test_a_server_without_an_authorization_server_leads_nowhere() -> None:
    odd: tuple[Value, ...] = ([], None, [1], "https://idp.example")
    for listed in odd:
        with pytest.raises(Unsound, match="no authorization server"):
            read_resource({"resource": RESOURCE, "authorization_servers": listed}, RESOURCE)


def test_scopes_that_are_not_named_are_told_from_none_at_all() -> None:
    document: Object = {"resource": RESOURCE, "authorization_servers": [ISSUER]}
    assert read_resource(document, RESOURCE).scopes is None
    assert read_resource(document | {"scopes_supported": ["a", 1]}, RESOURCE).scopes == ("a",)


@pytest.mark.parametrize("issuer", [f"{ISSUER}/", "HTTPS://idp.example", f"{ISSUER}:443", "https://evil.example", None])
def test_issuers_are_compared_as_plain_text(issuer: str | None) -> None:
    """S121: RFC 8414 §3.3."""
    with pytest.raises(Unsound, match="another issuer"):
        read_server({**SERVER, "issuer": issuer}, ISSUER)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://idp.example/token",
        "http://127.0.0.1/token",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://user@idp.example/token",
        "http://x/$(touch /x/p)",
        7,
    ],
)
def test_endpoints_are_of_the_issuers_scheme_and_hold_nobodys_name(endpoint: object) -> None:
    """S121."""
    for name in ("token_endpoint", "authorization_endpoint", "registration_endpoint"):
        with pytest.raises(Unsound):
            read_server({**SERVER, name: endpoint}, ISSUER)  # type: ignore[dict-item] # wrong on purpose


def test_an_authorization_server_needs_a_token_endpoint_and_says_what_it_can_do() -> None:
    with pytest.raises(Unsound, match="no token endpoint"):
        read_server({"issuer": ISSUER}, ISSUER)
    plain = read_server(SERVER, ISSUER)
    assert (plain.has_pkce, plain.auth_methods, plain.names_issuer, plain.takes_metadata_documents) == (
        False,
        None,
        False,
        False,
    )
    able = read_server(
        {
            **SERVER,
            "code_challenge_methods_supported": ["plain", PKCE],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
        },
        ISSUER,
    )
    assert (able.has_pkce, able.auth_methods, able.names_issuer, able.takes_metadata_documents) == (
        True,
        ("none",),
        True,
        True,
    )


def test_loopback_may_do_without_tls() -> None:
    local = "http://127.0.0.1:9000"
    assert read_server({"issuer": local, "token_endpoint": f"{local}/token"}, local).issuer == local
    with pytest.raises(Unsound, match="not https"):
        read_server(
            {"issuer": "http://idp.example", "token_endpoint": "http://idp.example/token"}, "http://idp.example"
        )


def test_origins_of_the_same_place_are_equal() -> None:
    assert origin("HTTPS://A.example:443/x") == origin("https://a.example") != origin("https://a.example:8443")
