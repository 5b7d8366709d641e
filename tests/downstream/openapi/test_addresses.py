from __future__ import annotations

import pytest

from gateway.downstream.openapi.addresses import Base, Place, Terms, base_of, is_dots, origin_of, place_of, query_name
from gateway.downstream.openapi.document import DocumentError
from gateway.protocol.rawjson import Value

FETCHED = Terms(document_url="https://api.example/docs/openapi.json?key=s3cret")


def servers(*urls: str) -> Value:
    return [{"url": url} for url in urls]


def test_the_address_an_operator_wrote_counts_whatever_the_document_says() -> None:
    terms = Terms("https://u:p@Api.Example:443/v1/?key=s3cret")
    assert base_of(terms, servers("https://evil.example/")) == Base("https://api.example", "/v1")
    assert (terms.query, terms.fixed) == ("key=s3cret", frozenset({"key"}))
    assert Terms("https://a.example/?é=ü%20+").query == "%C3%A9=%C3%BC%20+"


@pytest.mark.parametrize(
    ("url", "prefix"),
    [
        ("/api/v3", "/api/v3"),
        ("v2/", "/docs/v2"),
        ("..", ""),
        ("/", ""),
        ("https://API.example:443/x", "/x"),
        ("/é", "/%C3%A9"),
    ],
)
def test_a_fetched_document_names_places_at_its_own_origin(url: str, prefix: str) -> None:
    assert base_of(FETCHED, servers(url, "https://second.example")) == Base("https://api.example", prefix)


def test_without_servers_it_is_the_root_of_the_documents_origin() -> None:
    assert base_of(FETCHED, None, []) == Base("https://api.example", "")


@pytest.mark.parametrize(
    "url",
    ["https://other.example/v1", "http://api.example/", "https://api.example:8443/", "//other.example/", "https://169.254.169.254/"],
)  # fmt: skip
def test_another_origin_needs_the_operators_word(url: str) -> None:
    """Credentials would go there: a document that was exchanged must not choose where."""
    with pytest.raises(DocumentError) as caught:
        base_of(FETCHED, servers(url))
    assert "names another origin than its own" in str(caught.value)
    assert "set url to the address" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_file_names_its_address_in_full() -> None:
    assert base_of(Terms(), servers("http://127.0.0.1:9/v1")) == Base("http://127.0.0.1:9", "/v1")
    for levels in (None, servers("/v1"), servers("ftp://a/"), servers("https://u:p@a/"), servers("https://a/?k=v")):
        with pytest.raises(DocumentError, match="set url"):
            base_of(Terms(), levels)


def test_variables_have_their_defaults() -> None:
    url: Value = {
        "url": "https://{host}:{port}/{none}",
        "variables": {"host": {"default": "a.example"}, "port": {"default": 8}},
    }
    assert base_of(Terms(), [url]) == Base("https://a.example:8", "/%7Bnone%7D")


def test_the_nearest_servers_count() -> None:
    assert base_of(FETCHED, None, servers("/near"), servers("/far")).prefix == "/near"


def test_an_address_that_leads_upwards_is_refused() -> None:
    with pytest.raises(DocumentError, match="leads upwards"):
        base_of(Terms("https://a.example/v1/%2e%2e/x"))


def test_origins_have_one_spelling() -> None:
    assert origin_of("HTTPS://A.example:443/x") == origin_of("https://u:p@a.example") == "https://a.example"
    assert origin_of("http://[::1]:8080/") == "http://[::1]:8080"


@pytest.mark.parametrize("segment", [".", "..", "%2e", "%2E%2e", ".%2E"])
def test_dots_in_any_spelling_are_steps(segment: str) -> None:
    assert is_dots(segment)
    assert not is_dots(segment + "a")


def test_templates_keep_their_names_and_encode_the_rest() -> None:
    assert place_of("/a b/{x}.json/{y}:do") == Place("/a%20b/{x}.json/{y}:do")
    assert place_of("/a%20b/é") == Place("/a%20b/%C3%A9")


def test_a_path_may_have_a_query_and_its_fragment_is_never_sent() -> None:
    """As documents write operations that share a path."""
    assert place_of("/files/{id}#share") == Place("/files/{id}")
    assert place_of("/tasks?beta=true&x=ü %20#a?b={c}") == Place("/tasks", "beta=true&x=%C3%BC%20%20")
    assert place_of("/?Action=Run") == Place("/", "Action=Run")


@pytest.mark.parametrize("path", ["a", "", "?x=1", "#b", "/a?x={y}", "/a\\b", "/a/../b", "/%2e%2E/x", "/."])
def test_paths_that_are_none_are_refused(path: str) -> None:
    with pytest.raises(DocumentError):
        place_of(path)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("key", "key"),
        (" KEY ", "key"),
        ("key[]", "key"),
        ("key[a][b]", "key"),
        ("a.b c", "a_b_c"),
        ("a[b", "a_b"),
        ("key\0x", "key"),
        ("[]", ""),
    ],
)
def test_names_of_a_query_compare_as_frameworks_read_them(name: str, plain: str) -> None:
    assert query_name(name) == plain
