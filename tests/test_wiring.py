"""Metrics hear of what they measure."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.loader import load
from gateway.config.root import Listen, ListenTls
from gateway.downstream.oauth.shelf import Shelf
from gateway.protocol.rawjson import Object
from gateway.state.folder import FolderDocuments
from gateway.telemetry.metrics import Metrics
from gateway.wiring import ServerMeters, desk, origin_of, plain, sealing_keys
from tests.kit.configs import loaded


def test_a_servers_life_is_counted() -> None:
    metrics = Metrics()
    metrics.known_servers(["a"])
    meters = ServerMeters(metrics)
    meters.state("a", "up")
    meters.restarted("a", "exit")
    meters.protocol_error("a", "unknown_id")
    meters.stderr("a", 12)
    meters.in_flight("a", 4)
    meters.blocked("a")
    text = metrics.render("")[0].decode()
    assert 'mcp_gateway_downstream_up{server="a"} 1.0' in text
    assert 'mcp_gateway_downstream_restarts_total{reason="exit",server="a"} 1.0' in text
    assert 'mcp_gateway_downstream_protocol_errors_total{kind="unknown_id",server="a"} 1.0' in text
    assert 'mcp_gateway_downstream_stderr_bytes_total{server="a"} 12.0' in text
    assert 'mcp_gateway_inflight_calls{server="a"} 4.0' in text
    assert 'mcp_gateway_ssrf_blocked_total{purpose="server"} 1.0' in text


async def test_credentials_last_in_the_state_folder_and_consents_are_recorded(tmp_path: Path) -> None:
    written: list[Object] = []
    config = loaded({"state": {"dir": str(tmp_path)}, "listen": {"port": 8081}})
    made = desk(config, FolderDocuments(tmp_path), Shelf.alone(), written.append)
    made.vault.store({"access": "x"}, "wiki", "token", "")
    assert len(list((tmp_path / "credentials").iterdir())) == 1
    made.consents._told("wiki", "key:alice", "granted")
    assert written == [
        {
            "event": "downstream.consent",
            "server": "wiki",
            "downstream": {"principal": "key:alice", "result": "granted"},
        }
    ]
    assert made.origin == "http://127.0.0.1:8081"


async def test_a_servers_headers_are_read_again_from_its_files(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("old")
    secret.chmod(0o600)
    file = tmp_path / "gateway.yaml"
    file.write_text("servers: {wiki: {url: 'http://x/mcp', headers: {Authorization: 'Bearer ${file:token}'}}}\n")
    made = desk(load(file, {}), FolderDocuments(tmp_path), Shelf.alone(), lambda _: None)
    secret.write_text("new")
    fresh = await made.reread("wiki")
    assert fresh is not None
    assert fresh.headers["Authorization"].get_secret_value() == "Bearer new"
    assert await made.reread("other") is None
    file.write_text("nonsense: true\n")
    assert await made.reread("wiki") is None


@pytest.mark.parametrize(
    ("listen", "origin"),
    [
        (Listen(), "http://127.0.0.1:8080"),
        (Listen(host="::1"), "http://[::1]:8080"),
        (Listen(tls=ListenTls(cert="c", key="k")), "https://127.0.0.1:8080"),
        (Listen(public_url="https://gw.example:8443/mcp"), "https://gw.example:8443"),
    ],
)
def test_browsers_come_back_to_where_clients_reach_the_gateway(listen: Listen, origin: str) -> None:
    assert origin_of(listen) == origin


def test_what_seals_is_configured_or_kept(tmp_path: Path) -> None:
    own = sealing_keys(loaded(), tmp_path)
    assert sealing_keys(loaded(), tmp_path) == own
    keys = ["a" * 32, "b" * 32]
    assert sealing_keys(loaded({"state": {"sealing_keys": keys}}), tmp_path) == [key.encode() for key in keys]


def test_facts_are_plain_values() -> None:
    assert [plain(item) for item in (None, True, 1, 1.5, "x", Path("/p"))] == [None, True, 1, 1.5, "x", "/p"]
