"""What a verified token must say, and whom it names (S38, S39, S50)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.auth.claims import (
    CERTIFICATE_PROOF,
    Grant,
    Terms,
    groups_of,
    has_claim,
    judge,
    lacking,
    normal_audience,
    requirements,
    scopes_of,
)
from gateway.auth.jwt import BadToken
from gateway.config.root import Config, View
from tests.kit.tokens import AUDIENCE, ISSUER, config, settings

NOW = 1_800_000_000.0
GOOD: dict[str, Any] = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": NOW, "exp": NOW + 300}


def terms(config_: Config | None = None) -> Terms:
    found = Terms.of(config_ or config())
    assert found is not None
    return found


def granted(terms_: Terms | None = None, **changes: Any) -> Grant:
    claims = {name: value for name, value in {**GOOD, **changes}.items() if value is not ...}
    return judge(claims, terms_ or terms(), NOW)


def why(terms_: Terms | None = None, **changes: Any) -> str:
    with pytest.raises(BadToken) as caught:
        granted(terms_, **changes)
    return caught.value.detail


def test_a_good_token_names_its_subject_and_ends_when_it_says() -> None:
    principal = granted(scope="read write", groups=["ops"]).principal

    assert (principal.id, principal.kind, principal.label) == (f"sub:{ISSUER}/alice", "sub", "jwt:idp.example.com")
    assert (principal.scopes, principal.groups) == (frozenset({"read", "write"}), frozenset({"ops"}))
    assert principal.expires == NOW + 300
    assert principal.claims["scope"] == "read write"


@pytest.mark.parametrize("value", [..., None, "", 7, ["x"], ISSUER + "/", ISSUER.upper(), "https://evil.example"])
def test_the_issuer_is_compared_as_plain_text(value: Any) -> None:
    assert why(iss=value) == "issuer"


@pytest.mark.parametrize(
    "value",
    [
        ...,
        None,
        "",
        [],
        7,
        {"a": AUDIENCE},
        [AUDIENCE, 7],
        "https://other.example.com/mcp",
        "https://mcp.example.com.evil.example/mcp",
        "https://mcp.example.com/mcp2",
        "https://mcp.example.com/",
        "https://mcp.example.com/mcp/x",
        "https://mcp.example.com/mcp//",
        "https://mcp.example.com/MCP",
        "http://mcp.example.com/mcp",
        "mcp.example.com/mcp",
        "https://[",
        [f"https://a{number}.example" for number in range(64)] + [AUDIENCE],
    ],
)
def test_a_token_for_anything_else_is_refused(value: Any) -> None:
    """S39."""
    assert why(aud=value) == "audience"


@pytest.mark.parametrize(
    "value",
    [AUDIENCE, [AUDIENCE], ["https://other.example", AUDIENCE], AUDIENCE + "/", "HTTPS://MCP.example.COM/mcp"],
)
def test_a_token_for_us_among_others_is_for_us(value: Any) -> None:
    assert granted(aud=value).opens("")
    assert granted(aud=value).opens("analysts")


def test_an_audience_that_is_no_address_is_compared_as_it_is() -> None:
    named = terms(config(settings(audience="api://Gateway")))

    assert granted(named, aud="api://Gateway").opens("")
    assert why(named, aud="api://gateway") == "audience"
    assert normal_audience("api://Gateway/") == "api://Gateway/"


def test_a_token_for_a_view_opens_that_view_alone() -> None:
    views = terms(config(views={"analysts": View(include=[]), "ops": View(include=[])}))
    narrow = granted(views, aud=f"{AUDIENCE}/analysts")

    assert narrow.opens("analysts")
    assert not narrow.opens("")
    assert not narrow.opens("ops")
    assert granted(views).opens("analysts")
    assert why(views, aud=f"{AUDIENCE}/none") == "audience"


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"exp": ...}, "no_expiry"),
        ({"exp": None}, "exp_is_no_time"),
        ({"exp": str(NOW + 300)}, "exp_is_no_time"),
        ({"exp": True}, "exp_is_no_time"),
        ({"exp": [NOW]}, "exp_is_no_time"),
        ({"exp": -1}, "exp_is_no_time"),
        ({"exp": 1e18}, "exp_is_no_time"),
        ({"exp": NOW + 86400 * 365}, "lives_too_long"),
        ({"iat": NOW - 86400, "exp": NOW + 300}, "lives_too_long"),
        ({"exp": NOW}, "expired"),
        ({"exp": NOW - 1}, "expired"),
        ({"nbf": NOW + 600}, "not_yet_valid"),
        ({"nbf": NOW + 61}, "not_yet_valid"),
        ({"iat": NOW + 61, "exp": NOW + 400}, "not_yet_valid"),
        ({"nbf": "now"}, "nbf_is_no_time"),
        ({"iat": "now"}, "iat_is_no_time"),
        ({"iat": None}, "iat_is_no_time"),
    ],
)
def test_a_token_is_valid_in_its_time_only(changes: dict[str, Any], detail: str) -> None:
    """S38."""
    assert why(**changes) == detail


@pytest.mark.parametrize("changes", [{"nbf": NOW + 60}, {"iat": NOW + 60}, {"iat": ...}, {"exp": NOW + 0.5}])
def test_clocks_may_differ_by_a_minute_where_a_token_begins(changes: dict[str, Any]) -> None:
    assert granted(**changes).principal.id == f"sub:{ISSUER}/alice"


def test_an_expired_token_is_told_apart_for_metrics() -> None:
    with pytest.raises(BadToken) as caught:
        granted(exp=NOW - 1)
    assert caught.value.reason == "expired_token"


@pytest.mark.parametrize(
    ("changes", "identifier"),
    [
        ({"client_id": "app"}, f"sub:{ISSUER}/alice"),
        ({"sub": "robot", "client_id": "robot"}, f"client:{ISSUER}/robot"),
        ({"sub": ..., "client_id": "robot"}, f"client:{ISSUER}/robot"),
        ({"sub": "robot", "azp": "robot"}, f"client:{ISSUER}/robot"),
        ({"sub": "robot", "client_id": "app", "azp": "robot"}, f"sub:{ISSUER}/robot"),
        ({"sub": "Ünï|x/y"}, f"sub:{ISSUER}/Ünï|x/y"),
    ],
)
def test_a_client_of_its_own_is_told_from_a_person(changes: dict[str, Any], identifier: str) -> None:
    assert granted(**changes).principal.id == identifier


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"sub": ...}, "nobody"),
        ({"sub": ""}, "nobody"),
        ({"sub": None}, "sub_is_no_name"),
        ({"sub": 7}, "sub_is_no_name"),
        ({"sub": ["alice"]}, "sub_is_no_name"),
        ({"sub": "a\nb"}, "sub_is_no_name"),
        ({"sub": "a" * 256}, "sub_is_no_name"),
        ({"client_id": 7}, "client_id_is_no_name"),
        ({"azp": "x\x1b[0m"}, "azp_is_no_name"),
    ],
)
def test_a_token_that_names_nobody_is_refused(changes: dict[str, Any], detail: str) -> None:
    assert why(**changes) == detail


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "a b  c"}, {"a", "b", "c"}),
        ({"scope": ""}, set()),
        ({"scp": "a b"}, {"a", "b"}),
        ({"scp": ["a", "b"]}, {"a", "b"}),
        ({"scope": "a", "scp": ["root"]}, {"a"}),
        ({"scope": ["a"]}, {"a"}),
        ({"scope": None, "scp": ["root"]}, set()),
        ({"scp": ["a", 1]}, set()),
        ({"scp": {"a": True}}, set()),
        ({}, set()),
    ],
)
def test_scopes_are_words_or_a_list(claims: dict[str, Any], scopes: set[str]) -> None:
    assert scopes_of(claims) == scopes


@pytest.mark.parametrize(
    ("path", "claims", "groups"),
    [
        ("groups", {"groups": ["a", "b"]}, {"a", "b"}),
        ("groups", {"groups": "a b"}, {"a b"}),
        ("realm_access.roles", {"realm_access": {"roles": ["a"]}}, {"a"}),
        ("https://x.example/groups", {"https://x.example/groups": ["a"]}, {"a"}),
        ("a.b", {"a.b": ["dotted"], "a": {"b": ["nested"]}}, {"dotted"}),
        ("groups", {"groups": ["a", 1]}, set()),
        ("groups", {"groups": {"a": 1}}, set()),
        ("groups", {"groups": 7}, set()),
        ("groups", {"groups": ""}, set()),
        ("a.b", {"a": ["b"]}, set()),
        ("groups", {}, set()),
    ],
)
def test_groups_are_a_text_or_a_list_of_texts(path: str, claims: dict[str, Any], groups: set[str]) -> None:
    assert groups_of(claims, path) == groups


def test_a_claim_that_says_something_unreadable_can_be_told_from_none() -> None:
    assert has_claim({"groups": 7}, "groups")
    assert not has_claim({"groups": []}, "groups")
    assert not has_claim({}, "a.b")


def test_scopes_that_every_token_needs_are_never_those_for_refreshing() -> None:
    principal = granted(scope="mcp read").principal

    assert not lacking(principal, ["mcp"])
    assert lacking(principal, ["mcp", "write"])
    assert requirements(["mcp", "offline_access", "mcp"]) == ["mcp"]


def test_a_token_bound_to_a_certificate_says_so_and_other_bindings_are_refused() -> None:
    """RFC 8705 §3, RFC 9449 §6: a proof that nobody checks would make the token a bearer's."""
    assert granted(cnf={CERTIFICATE_PROOF: "abc"}).bound == "abc"
    for proof in (
        {"jkt": "abc"},
        {CERTIFICATE_PROOF: "abc", "jkt": "abc"},
        {CERTIFICATE_PROOF: 7},
        {CERTIFICATE_PROOF: ""},
        "x",
        {},
    ):
        assert why(cnf=proof) == "bound_to_another_proof"


def test_terms_are_named_by_what_a_token_must_say() -> None:
    assert Terms.of(Config()) is None
    assert terms().digest == terms(config(settings(max_stale="10m", ca="/ca.pem"))).digest
    changed = [settings(required_scopes=["x"]), settings(audience="api://x"), settings(require_at_jwt=True)]
    assert len({terms(config(each)).digest for each in changed} | {terms().digest}) == 4
    assert terms(config(views={"v": View(include=[])})).digest != terms().digest
