"""What a caller without the right token is told (S44, S51; RFC 6750 §3, RFC 9728)."""

from __future__ import annotations

import json

from gateway.auth.challenge import Challenges, documents
from gateway.config.root import Config, View
from tests.kit.tokens import AUDIENCE, ISSUER, config, settings

METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
VIEWS = {"analysts": View(include=[])}


def test_without_tokens_a_challenge_names_its_scheme_alone() -> None:
    plain = Challenges.of(Config())

    assert plain.missing() == 'Bearer realm="mcp"'
    assert plain.invalid("x") == 'Bearer realm="mcp", error="invalid_token"'
    assert plain.insufficient("", ["b", "a"]) == 'Bearer realm="mcp", error="insufficient_scope", scope="a b"'


def test_with_tokens_it_says_where_to_learn_more_and_what_to_ask_for() -> None:
    told = Challenges.of(config(settings(required_scopes=["mcp", "offline_access"])))

    assert told.missing() == f'Bearer realm="mcp", resource_metadata="{METADATA}", scope="mcp"'
    assert told.invalid() == f'Bearer realm="mcp", error="invalid_token", resource_metadata="{METADATA}", scope="mcp"'


def test_missing_scopes_are_named_together_with_those_that_are_always_needed() -> None:
    """S51: one step up is enough, also for a client that asks for what the challenge says and nothing else."""
    told = Challenges.of(config(settings(required_scopes=["mcp"])))

    start = 'Bearer realm="mcp", error="insufficient_scope"'
    assert told.insufficient("", ["crm.write", "crm.read", "mcp"]) == (
        f'{start}, resource_metadata="{METADATA}", scope="mcp crm.read crm.write"'
    )


def test_what_an_issuer_wants_before_its_scopes_stands_before_all_that_clients_are_told_to_ask_for() -> None:
    """Entra ID asks for ``api://x/mcp`` and issues tokens with ``mcp``."""
    configured = config(settings(required_scopes=["mcp"], scope_prefix="https://mcp.example.com/mcp/"))

    assert Challenges.of(configured).missing().endswith('scope="https://mcp.example.com/mcp/mcp"')
    assert (
        Challenges.of(configured)
        .insufficient("", ["crm.write"])
        .endswith('scope="https://mcp.example.com/mcp/mcp https://mcp.example.com/mcp/crm.write"')
    )
    for body in documents(configured).values():
        assert json.loads(body)["scopes_supported"] == ["https://mcp.example.com/mcp/mcp"]


def test_each_view_has_metadata_of_its_own_and_an_unknown_one_that_of_the_endpoint() -> None:
    told = Challenges.of(config(views=VIEWS))

    assert f'"{METADATA}/analysts"' in told.missing("analysts")
    assert told.missing("nothing") == told.missing() == f'Bearer realm="mcp", resource_metadata="{METADATA}"'


def test_the_documents_are_beside_each_resource_and_at_the_root() -> None:
    found = {path: json.loads(body) for path, body in documents(config(views=VIEWS)).items()}

    prefix = "/.well-known/oauth-protected-resource"
    assert set(found) == {prefix, f"{prefix}/mcp", f"{prefix}/mcp/analysts"}
    assert found[prefix] == found[f"{prefix}/mcp"]
    assert found[prefix]["resource"] == AUDIENCE
    assert found[prefix]["authorization_servers"] == [ISSUER]
    assert found[prefix]["bearer_methods_supported"] == ["header"]
    assert "scopes_supported" not in found[prefix]
    assert found[f"{prefix}/mcp/analysts"]["resource"] == f"{AUDIENCE}/analysts"


def test_the_scopes_of_a_document_are_those_that_every_token_needs() -> None:
    told = documents(config(settings(required_scopes=["mcp", "offline_access"])))

    assert json.loads(told["/.well-known/oauth-protected-resource"])["scopes_supported"] == ["mcp"]


def test_behind_a_proxy_both_paths_are_served_and_the_resource_is_the_public_one() -> None:
    found = documents(config(listen={"public_url": "https://x.example/tools/mcp/", "path": "/mcp"}))

    prefix = "/.well-known/oauth-protected-resource"
    assert set(found) == {prefix, f"{prefix}/mcp", f"{prefix}/tools/mcp"}
    assert len(set(found.values())) == 1
    assert json.loads(found[prefix])["resource"] == "https://x.example/tools/mcp/"


def test_without_tokens_there_are_no_documents() -> None:
    assert documents(Config()) == {}
