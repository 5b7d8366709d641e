from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.start_rules import start_problems
from tests.kit.config_files import KEY, loaded

CLIENT = f"clients: {{bot: {{key_sha256: ['{'0' * 64}']}}}}\n"


def paths(folder: Path, text: str) -> list[str]:
    return [
        f"{one.line}:{one.path}: {one.message.partition(':')[0]}"
        for one in start_problems(loaded(folder, text, {"K": KEY}))
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.3.2.1"])
def test_loopback_needs_nothing(tmp_path: Path, host: str) -> None:
    assert paths(tmp_path, f"listen: {{host: '{host}'}}\n") == []
    assert paths(tmp_path, "servers: {}\n") == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "gateway.example.com"])
def test_any_other_address_refuses_an_open_door(tmp_path: Path, host: str) -> None:
    """S04."""
    assert paths(tmp_path, f"servers: {{}}\nlisten:\n  host: '{host}'\n") == [
        "3:listen.host: an address other than loopback needs authentication",
        "3:listen.host: an address other than loopback needs TLS",
        "3:listen.host: an address other than loopback needs to know its own name",
    ]


@pytest.mark.parametrize("tls", ["behind_tls_proxy: true", "tls: {cert: c, key: k}"])
@pytest.mark.parametrize("name", ["public_url: 'https://x/mcp'", "allowed_hosts: [x]"])
def test_with_a_client_tls_and_a_name_it_starts(tmp_path: Path, tls: str, name: str) -> None:
    assert paths(tmp_path, f"{CLIENT}listen: {{host: 0.0.0.0, {tls}, {name}}}\n") == []


def test_each_missing_part_is_named_alone(tmp_path: Path) -> None:
    base = "listen: {host: 0.0.0.0, behind_tls_proxy: true, allowed_hosts: [x]}\n"
    assert [text.split("needs ")[1] for text in paths(tmp_path, base)] == ["authentication"]
    no_tls = CLIENT + base.replace("true", "false")
    assert [text.split("needs ")[1] for text in paths(tmp_path, no_tls)] == ["TLS"]
    no_name = CLIENT + base.replace("[x]", "[]")
    assert [text.split("needs ")[1] for text in paths(tmp_path, no_name)] == ["to know its own name"]


def test_policies_are_no_authentication(tmp_path: Path) -> None:
    listen = "listen: {host: 0.0.0.0, behind_tls_proxy: true, allowed_hosts: [x]}\n"
    assert len(paths(tmp_path, listen + "policies: [{name: p, clients: [anonymous]}]\n")) == 1


def test_an_admin_listener_off_loopback_needs_users(tmp_path: Path) -> None:
    assert paths(tmp_path, "admin:\n  host: 0.0.0.0\n") == ["2:admin.host: an address other than loopback needs users"]
    users = f"users: {{al: {{token_sha256: '{'0' * 64}'}}}}"
    assert paths(tmp_path, f"admin: {{host: 0.0.0.0, {users}}}\n") == []


def test_both_listeners_on_one_port_are_refused(tmp_path: Path) -> None:
    assert paths(tmp_path, "admin:\n  port: 8080\n") == ["2:admin.port: is the port of the endpoint too"]
    assert paths(tmp_path, "listen: {port: 0}\nadmin: {port: 0}\n") == []


@pytest.mark.parametrize(
    "setting", ["url: 'redis://r'", "database: 'postgres://db/x'", "database: 'file:///shared/documents'"]
)
def test_what_is_shared_needs_keys_that_all_have(tmp_path: Path, setting: str) -> None:
    """S98: what one replica seals another opens."""
    name = setting.partition(":")[0]
    assert paths(tmp_path, f"state:\n  {setting}\n") == [
        f"2:state.{name}: is shared with other gateways, which need the same keys to read it"
    ]
    assert paths(tmp_path, f"state:\n  {setting}\n  sealing_keys: ['{'k' * 32}']\n") == []
