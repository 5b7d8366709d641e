"""What counts as a changed server (G128)."""

from __future__ import annotations

import pytest

from gateway.downstream.fingerprint import Secret, fingerprint, offering
from tests.kit.openapi import source
from tests.kit.transport import server

KEY = b"k" * 32
BASE: dict[str, object] = {"command": "npx", "args": ["-y", "x"], "env": {"TOKEN": "secret-1"}}


def digest(**changes: object) -> str:
    return fingerprint("a", server(**(BASE | changes)), KEY)


def test_it_is_stable_and_hex() -> None:
    assert digest() == digest()
    assert len(bytes.fromhex(digest())) == 32


@pytest.mark.parametrize(
    "change",
    [
        {"command": "uvx"},
        {"args": ["-y", "y"]},
        {"env": {"TOKEN": "secret-2"}},
        {"cwd": "/srv"},
        {"isolation": "shared"},
        {"protocol": "legacy"},
        {"timeouts": {"call": "5s"}},
        {"idempotent": ["t"]},
    ],
)
def test_what_a_connection_depends_on_changes_it(change: dict[str, object]) -> None:
    assert digest(**change) != digest()


@pytest.mark.parametrize(
    "change",
    [
        {"namespace": "x"},
        {"tools": {"include": ["a"]}},
        {"pin": {"mode": "off"}},
        {"text": "strip"},
        {"required": True},
    ],
)
def test_what_no_connection_reads_leaves_processes_alone(change: dict[str, object]) -> None:
    assert digest(**change) == digest()


def test_name_and_key_matter() -> None:
    assert fingerprint("b", server(**BASE), KEY) != digest()
    assert fingerprint("a", server(**BASE), b"other") != digest()


def test_secrets_in_urls_and_headers_count() -> None:
    one = server(url="https://a.example/mcp", headers={"Authorization": "Bearer 1"})
    two = server(url="https://a.example/mcp", headers={"Authorization": "Bearer 2"})
    assert fingerprint("a", one, KEY) != fingerprint("a", two, KEY)
    assert isinstance(one.url, Secret)


def test_another_document_is_another_server() -> None:
    api = server(url="http://x", openapi="api.yaml")
    known = [api, *(api.with_document(source({path: {}})) for path in ("/a", "/b"))]
    assert len({fingerprint("a", each, KEY) for each in known}) == 3
    assert fingerprint("a", known[1], KEY) == fingerprint("a", api.with_document(source({"/a": {}})), KEY)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"env": {"TOKEN": "secret-2"}}, True),
        ({"timeouts": {"call": "5s"}}, True),
        ({"concurrency": 3, "max_result": "1MiB", "asks": ["elicitation"]}, True),
        ({"env": {"TOKEN": "secret-1", "MODE": "x"}}, False),
        ({"command": "uvx"}, False),
        ({"args": ["-y", "y"]}, False),
        ({"cwd": "/srv"}, False),
        ({"protocol": "legacy"}, False),
    ],
)
def test_what_a_server_lists_depends_on_what_it_is_and_not_on_its_settings(
    change: dict[str, object], same: bool
) -> None:
    """G128. Nor on the values of its credentials."""
    before, after = server(**BASE), server(**(BASE | change))
    assert (offering("a", before, KEY) == offering("a", after, KEY)) is same
    assert offering("a", before, KEY) != offering("b", before, KEY)


def test_what_an_api_lists_is_in_its_document_and_renewed_headers_change_nothing() -> None:
    one = server(url="https://a.example/mcp", headers={"Authorization": "Bearer 1"})
    two = server(url="https://a.example/mcp", headers={"authorization": "Bearer 2"})
    assert offering("a", one, KEY) == offering("a", two, KEY)
    assert offering("a", one, KEY) != offering("a", server(url="https://b.example/mcp", headers=one.headers), KEY)
    api = server(url="http://x", openapi="api.yaml")
    known = [api.with_document(source({path: {}})) for path in ("/a", "/b")]
    assert len({offering("a", each, KEY) for each in known}) == 2
