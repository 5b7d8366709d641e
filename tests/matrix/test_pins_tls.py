"""Pinned TLS keys, with a real TLS server: another key gets no byte of a request, and the server is quarantined."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest

from gateway.downstream.health import State
from gateway.runtime import Runtime
from tests.kit import certificates
from tests.kit.http_server import McpServer, serving
from tests.test_runtime import records, running, tools, until, write

KEY = "k" * 40


def config(folder: Path, url: str, authority: str, *pins: str) -> Path:
    server = {
        "url": url,
        "headers": {"Authorization": "Bearer a-secret-of-ours"},
        "tls": {"ca": authority, "spki_sha256": list(pins)},
        "pin": {"mode": "tofu"},
    }
    return write(folder, servers={"a": server})


def events(folder: Path, name: str) -> list[Any]:
    return [record["pin"] for record in records(folder) if record["event"] == name]


async def test_another_key_gets_no_byte_and_quarantines_the_server(tmp_path: Path) -> None:
    """S135: same host, a valid certificate of the same authority, another key; the spare key is accepted."""
    authority = certificates.make("authority")
    ca = authority.write(tmp_path / "ca.pem")
    leaf, other, spare = (certificates.make("server", authority) for _ in range(3))
    pins = [hashlib.sha256(each.spki).hexdigest() for each in (leaf, spare)]
    context = leaf.server_context(tmp_path)
    mcp = McpServer(name="x")
    async with serving(mcp.script, context) as server, running(config(tmp_path, server.url, ca, *pins)) as runtime:
        await until(lambda: bool(tools(runtime)), "served")
        assert runtime.trust.state("a") == "recorded"

        other.server_context(tmp_path)
        context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
        server.seen.clear()
        runtime.pool.sever("a", "for the test")
        await until(lambda: runtime.trust.state("a") == "quarantined", "quarantined")
        assert tools(runtime) == []
        await until(lambda: _state(runtime) in (State.QUARANTINED, State.FAILED), "shown")
        assert [exchange.method for exchange in server.seen] == []
        [wrong] = events(tmp_path, "pin.mismatch")
        assert (wrong["name"], wrong["kind"]) == ("tls_pin", "tls_key")
        assert wrong["after"] == hashlib.sha256(other.spki).hexdigest()

        spare.server_context(tmp_path)
        context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
        runtime.pool.retry("a")
        await until(lambda: bool(tools(runtime)), "served again")


def _state(runtime: Runtime) -> State:
    return runtime.pool.status()["a"].state


@pytest.mark.parametrize("mode", ["tofu"])
async def test_a_key_that_nobody_pinned_is_recorded_and_its_change_told(tmp_path: Path, mode: str) -> None:
    """A renewed certificate is no reason to stop; that it was renewed is worth knowing."""
    authority = certificates.make("authority")
    ca = authority.write(tmp_path / "ca.pem")
    leaf, other = (certificates.make("server", authority) for _ in range(2))
    context = leaf.server_context(tmp_path)
    mcp = McpServer(name="x")
    async with serving(mcp.script, context) as server, running(config(tmp_path, server.url, ca)) as runtime:
        await until(lambda: bool(tools(runtime)), "served")
        other.server_context(tmp_path)
        context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
        runtime.pool.sever("a", "for the test")
        await until(lambda: runtime.trust.state("a") == "changed", "told")
        await until(lambda: bool(events(tmp_path, "pin.mismatch")), "recorded")
        [told] = events(tmp_path, "pin.mismatch")
        assert (told["name"], told["before"]) == ("tls_key", hashlib.sha256(leaf.spki).hexdigest())
        await asyncio.sleep(0)
        assert tools(runtime) != []
