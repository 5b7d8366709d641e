"""What stands in a record is safe to write and to show, and holds no secret (S152, S153, G108)."""

from __future__ import annotations

import json

import pytest

from gateway.audit import fields
from gateway.model.principal import ANONYMOUS, Principal
from gateway.protocol.rawjson import Value
from tests.kit.audit import KEY, PRINCIPAL, caller

HOSTILE = [
    'x\n{"event":"call.end"}',
    "\x1b]0;pwn\x07",
    "a\x00b",
    "a\u2028b",
    "\u202egnp.exe",
    "\ud800",
    "x" * 1_000_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_foreign_text_can_neither_forge_a_line_nor_move_a_cursor(text: str) -> None:
    for safe, limit in ((fields.name(text), 128), (fields.text(text), 1024)):
        assert safe.isprintable()
        assert len(safe.encode()) <= limit * 4
        assert len(safe) <= limit


def test_a_text_is_cut_by_bytes() -> None:
    assert len(fields.text("é" * 2000).encode()) <= 1024


def test_numbers_are_integers_that_every_reader_holds_exactly() -> None:
    assert fields.plain(2**53 - 1) == 2**53 - 1
    assert fields.plain(-(2**53)) == "-9007199254740992"
    assert fields.plain(0.5) == "0.5"
    assert fields.plain(True) is True
    assert fields.plain(10**500) == "1" + "0" * 127


def test_foreign_values_are_bounded_in_depth_and_width() -> None:
    deep: Value = "end"
    for _ in range(50):
        deep = {"x": deep, "y": [deep]}

    assert len(json.dumps(fields.plain(deep))) < 200
    assert len(json.dumps(fields.members({f"key-{n:04}": [1] * 1000 for n in range(1000)}))) < 64 * 64 * 8
    assert list(fields.members({"b": 1, "a": 2})) == ["a", "b"]


def test_a_subject_appears_as_a_keyed_hash_alone() -> None:
    block = fields.principal_block(PRINCIPAL, KEY, {"department": "sales"})

    assert "alice" not in json.dumps(block)
    assert block == {
        "kind": "jwt",
        "client": "example-idp",
        "groups": ["admins", "analysts"],
        "scopes": ["crm.write"],
        "claims_used": {"department": "sales"},
        "cred": "kid:ab12",
        "iss": "https://as.example",
        "sub_h": KEY.digest("subject", b"alice@example.org", 32),
    }


def test_a_subject_without_its_issuer_claim_is_hashed_whole() -> None:
    block = fields.principal_block(Principal("sub:https://as.example/alice", "jwt", "idp"), KEY, {})

    assert block["sub_h"] == KEY.digest("subject", b"https://as.example/alice", 32)
    assert "iss" not in block


def test_a_configured_client_keeps_its_name() -> None:
    block = fields.principal_block(Principal("key:ci-bot", "key", "ci-bot", credential="ab12cd34"), KEY, {})

    assert (block["id"], block["client"], block["cred"]) == ("key:ci-bot", "ci-bot", "ab12cd34")
    assert fields.principal_block(ANONYMOUS, KEY, {})["id"] == "anonymous"


@pytest.mark.parametrize(
    ("source", "network"),
    [
        ("203.0.113.77", {"ip": "203.0.113.0/24"}),
        ("::ffff:203.0.113.77", {"ip": "203.0.113.0/24"}),
        ("2001:db8:1:2:3::4", {"ip": "2001:db8:1::/48"}),
        ("::1", {"ip": "::/48"}),
        ("0.0.0.1", {"ip": "0.0.0.0/24"}),
        ("", {}),
        ("unix", {}),
    ],
)
def test_of_an_address_the_network_is_kept(source: str, network: dict[str, str]) -> None:
    assert fields.source_block(source) == network


def test_a_session_appears_as_a_short_keyed_hash() -> None:
    block = fields.mcp_block(caller(session="very-secret-session"), KEY, "tools/call", "7")

    assert block["session_h"] == KEY.digest("session", b"very-secret-session", 8)
    assert "very-secret" not in json.dumps(block)
    assert fields.mcp_block(caller(), KEY, "tools/call", None) == {
        "era": "modern",
        "version": "2026-07-28",
        "method": "tools/call",
        "rpc_id": None,
        "session_h": None,
        "client_info": "Example/1.0",
    }


def test_an_id_is_told_as_text_whatever_its_type() -> None:
    assert fields.mcp_block(caller(), KEY, "tools/call", 7)["rpc_id"] == "7"
    assert fields.mcp_block(caller(), KEY, "tools/call", 0)["rpc_id"] == "0"


def test_a_peer_that_says_nothing_of_itself_has_no_info() -> None:
    assert fields.client_info({}) is None
    assert fields.client_info({"name": 7, "version": "2"}) == "2"
