"""Client certificates end to end: a gateway process, real TLS, policies for the name that a certificate proves."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509

from tests.kit.certificates import Certificate, make
from tests.kit.gateway import Gateway, Json, eventually, serving
from tests.kit.peers import notes
from tests.kit.wire import modern_meta

KEY = "mcpgw_alice000_" + "a" * 43
CI = "spiffe://example.org/ci"


@dataclass(frozen=True)
class Secured:
    """A running gateway and the authority that it trusts."""

    gateway: Gateway
    authority: Certificate
    folder: Path

    def call(self, certificate: Certificate | None, key: str = "") -> tuple[int, Json]:
        """Call a tool; the status is 0 where there was no connection."""
        if certificate is None:
            tls = ssl.create_default_context(cafile=self.authority.write(self.folder / "server-ca.pem"))
        else:
            tls = certificate.client_context(self.folder, self.authority)
        params = {"name": "notes__whoami", "arguments": {}, "_meta": modern_meta()}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        headers = {
            "Content-Type": "application/json",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "notes__whoami",
            **({"Authorization": f"Bearer {key}"} if key else {}),
        }
        url = f"https://127.0.0.1:{self.gateway.port}/mcp"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10, context=tls) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())
        except (urllib.error.URLError, ConnectionError, ssl.SSLError):
            return 0, {}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("certificates")
    authority = make("authority")
    own = make("gateway", authority)
    config = {
        "listen": {
            "tls": {
                "cert": own.write(folder / "own.pem"),
                "key": own.write_key(folder / "own-key.pem"),
                "client_ca": authority.write(folder / "ca.pem"),
            }
        },
        "servers": {"notes": notes(folder, "notes").config},
        "clients": {"alice": {"key": "${ALICE_KEY}"}},
        "policies": [{"name": "known", "clients": [f"cert:{CI}", "alice"], "allow": ["notes/*"]}],
    }
    with serving(folder / "gateway", config, {"ALICE_KEY": KEY}) as gateway:
        gateway.await_servers("notes")
        yield Secured(gateway, authority, folder)


def named(secured: Secured, *names: x509.GeneralName, days: int = 1) -> Certificate:
    return make("client", secured.authority, names=names, days=days)


def test_a_certificate_proves_its_name_to_policies_and_audit(secured: Secured) -> None:
    """S53."""
    status, body = secured.call(named(secured, x509.UniformResourceIdentifier(CI)))
    assert (status, body["result"]["structuredContent"]["dataset"]) == (200, "notes")
    principals = [entry["principal"] for entry in secured.gateway.records() if entry["event"] == "call.end"]
    assert (principals[-1]["id"], principals[-1]["client"]) == (f"cert:{CI}", "cert")
    assert secured.gateway.metric("mcp_gateway_client_calls_total", client="cert", outcome="ok") == 1


def test_another_name_of_the_same_authority_is_known_and_sees_nothing(secured: Secured) -> None:
    assert secured.call(named(secured, x509.UniformResourceIdentifier(f"{CI}/x")))[0] == 400
    assert secured.call(named(secured, x509.DNSName("ci.example.org")))[0] == 400


def test_a_certificate_without_one_clear_name_is_nobodys(secured: Secured) -> None:
    two = named(secured, x509.UniformResourceIdentifier(CI), x509.UniformResourceIdentifier(f"{CI}/x"))
    assert secured.call(two)[0] == 401
    assert secured.call(two, KEY)[0] == 200


def test_a_key_works_without_a_certificate_and_a_wrong_one_not_even_with(secured: Secured) -> None:
    assert secured.call(None)[0] == 401
    assert secured.call(None, KEY)[0] == 200
    assert secured.call(named(secured, x509.UniformResourceIdentifier(CI)), KEY + "x")[0] == 401


def test_a_certificate_that_does_not_verify_gets_no_connection_and_is_recorded(secured: Secured) -> None:
    """S53, G105."""
    stranger = make("stranger", make("other authority"), names=[x509.UniformResourceIdentifier(CI)])
    for certificate in (stranger, named(secured, x509.UniformResourceIdentifier(CI), days=-1)):
        assert secured.call(certificate)[0] == 0
    assert secured.gateway.metric("mcp_gateway_auth_failures_total", kind="cert", reason="certificate") >= 2
    eventually(
        lambda: any(
            entry["event"] == "auth.failed" and entry["auth"]["kind"] == "cert" for entry in secured.gateway.records()
        ),
        "recorded",
        seconds=15,
    )
