"""What an operator wrote about who a server is, fact by fact."""

from __future__ import annotations

import pytest

from gateway.config.servers import Server
from gateway.pinning.facts import aspect_of, configured, digest, keyed, subject_of
from tests.kit.definitions import http, stdio
from tests.kit.openapi import source

KEY = b"k" * 32


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def test_an_address_is_told_in_parts() -> None:
    """S131, S136: origin and path as they are, what may be secret as keyed digests."""
    facts = configured(
        http(url="https://me:pw@Example.COM/mcp?token=s3cret", headers={"Authorization": "Bearer s3cret"}), KEY
    )
    assert (facts["origin"], facts["path"]) == ("https://example.com:443", "/mcp")
    assert set(facts) == {"origin", "path", "address", "header:authorization"}
    assert not any(secret in str(facts) for secret in ("s3cret", "pw", "Bearer"))


@pytest.mark.parametrize(
    ("url", "fact"),
    [
        ("https://b.example/mcp?t=1", "origin"),
        ("https://a.example:8443/mcp?t=1", "origin"),
        ("http://a.example/mcp?t=1", "origin"),
        ("https://a.example/other?t=1", "path"),
        ("https://a.example/mcp?t=2", "address"),
        ("https://u@a.example/mcp?t=1", "address"),
    ],
)
def test_each_part_of_an_address_counts(url: str, fact: str) -> None:
    assert changed(configured(http(url="https://a.example/mcp?t=1"), KEY), configured(http(url=url), KEY)) == {fact}


def test_a_process_is_told_by_argument_directory_and_variable() -> None:
    """S131."""
    settings = {"args": ["a", "b"], "env": {"TOKEN": "x"}, "cwd": "/srv", "sandbox": ["box"]}
    before = configured(stdio(**settings), KEY)
    assert set(before) == {"cwd", "sandbox:1", "argument:1", "argument:2", "env:TOKEN"}
    assert changed(before, configured(stdio(**settings | {"args": ["b", "a"]}), KEY)) == {"argument:1", "argument:2"}
    assert changed(before, configured(stdio(**settings | {"args": ["a"]}), KEY)) == {"argument:2"}
    assert changed(before, configured(stdio(**settings | {"env": {"TOKEN": "y"}}), KEY)) == {"env:TOKEN"}
    assert changed(before, configured(stdio(**settings | {"cwd": "/"}), KEY)) == {"cwd"}
    assert changed(before, configured(stdio(**settings | {"concurrency": 3}), KEY)) == set()


def test_without_the_key_a_digest_helps_nobody() -> None:
    assert keyed(KEY, "secret") != keyed(b"o" * 32, "secret") != digest("secret")


def test_a_fact_has_an_aspect_and_perhaps_a_subject() -> None:
    assert (aspect_of("header:x:y"), subject_of("header:x:y")) == ("header", "x:y")
    assert (aspect_of("origin"), subject_of("origin")) == ("origin", "")


def test_an_ipv6_address_keeps_its_brackets() -> None:
    assert configured(http(url="http://[::1]:8080/mcp"), KEY)["origin"] == "http://[::1]:8080"


def test_an_api_is_told_by_its_address_and_by_its_document() -> None:
    settings = {"openapi": "https://u:pw@Docs.example/o.json?k=s3cret", "headers": {"X-Key": "s3cret"}}
    before = configured(http(**settings), KEY)
    assert set(before) == {"origin", "path", "address", "document", "document_address", "header:x-key"}
    assert before["document"] == "https://docs.example:443/o.json"
    assert not any(secret in str(before) for secret in ("s3cret", "pw"))
    for url, fact in (
        ("https://u:pw@other.example/o.json?k=s3cret", "document"),
        ("https://u:pw@docs.example/p.json?k=s3cret", "document"),
        ("https://u:pw@docs.example/o.json?k=new", "document_address"),
    ):
        assert changed(before, configured(http(**settings | {"openapi": url}), KEY)) == {fact}


def test_a_document_in_a_file_is_told_by_what_is_in_it() -> None:
    api = Server.model_validate({"openapi": "/srv/a.yaml"})
    one, other = (configured(api.with_document(source({path: {}})), KEY) for path in ("/a", "/b"))
    assert set(one) == {"document_sha256"}
    assert changed(one, other) == {"document_sha256"}
