"""Official clients sign in to a real authorization server, told of it by nothing but the gateway's own answers."""

from __future__ import annotations

import hmac
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.environments import prepare
from tests.kit.gateway import Gateway, Json, eventually, free_port
from tests.kit.issuer import AuthorizationServer, Browser, authorization_server, private_jwk
from tests.kit.peers import Driver, environment, notes
from tests.kit.tokens import forged, rsa_key, segment, token

LIFETIME = 4
CLIENTS = ("mcp1-legacy", "mcp2-legacy", "mcp2-modern")


class Person:
    """Someone at a client that signs in: opens a browser whenever the client asks for one, and counts how often."""

    def __init__(self, driver: Driver, browser: Browser) -> None:
        self._driver, self._browser = driver, browser
        self.asked: list[str] = []
        self.connected = self._through(driver.connected)

    def do(self, command: str, **arguments: Any) -> Json:
        return self._through(self._driver.do(command, **arguments))

    def _through(self, answer: Json) -> Json:
        while "open" in answer:
            self.asked.append(answer["open"])
            answer = self._driver.send({"came": self._browser.sign_in(answer["open"])})
        return answer


@contextmanager
def person(client: str, url: str, log: Path) -> Iterator[Person]:
    """Connect an official client that knows the gateway's address and nothing else."""
    line, era = client.split("-")
    command: list[str | Path] = [
        environment(line) / "bin" / "python",
        prepare.HERE / f"drive_sign_in_{line}.py",
        url,
        era,
    ]
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=dict(os.environ)
        )
    try:
        yield Person(Driver(process), Browser())
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log.read_text()[-4000:]}") from None
    finally:
        process.kill()
        process.communicate()


def config(issuer: AuthorizationServer, port: int, folder: Path) -> Json:
    """Return a gateway that takes tokens of an issuer; reading needs one scope, writing one more."""
    return {
        "listen": {"port": port, "public_url": f"http://127.0.0.1:{port}/mcp"},
        "servers": {"notes": notes(folder, "notes").config},
        "auth": {
            "jwt": {
                "issuer": issuer.url,
                "audience": f"http://127.0.0.1:{port}/mcp",
                "required_scopes": ["mcp"],
                "require_at_jwt": True,
                "max_lifetime": "1h",
            },
            "throttle": {"failures": "1000/minute"},
        },
        "policies": [
            {
                "name": "staff",
                "clients": ["group:staff"],
                "allow": ["notes/whoami", {"tools": "notes/read_note", "scopes": ["notes.read", "notes.write"]}],
            }
        ],
    }


@dataclass(frozen=True)
class Site:
    """A gateway and the authorization server that it believes."""

    gateway: Gateway
    issuer: AuthorizationServer

    def answer(self, token: str, tool: str = "notes__whoami", path: str = "") -> tuple[int, str, Json]:
        """Call a tool with a token; returns the status, the challenge and the body."""
        params = {"name": tool, "arguments": {"id": "n1"} if tool == "notes__read_note" else {}}
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**params, "_meta": meta}}
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        request = urllib.request.Request(self.gateway.url + path, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return reply.status, "", json.loads(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
            return error.code, error.headers.get("WWW-Authenticate", ""), json.loads(text) if text else {}


def fetched(url: str) -> tuple[int, Json]:
    """GET a document without any credential."""
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        error.close()
        return error.code, {}


@contextmanager
def site(folder: Path, lifetime: int) -> Iterator[Site]:
    """Run both sides for a block."""
    port = free_port()
    with authorization_server(f"http://127.0.0.1:{port}/mcp", folder / "issuer.log", lifetime) as issuer:
        gateway = Gateway(folder, config(issuer, port, folder))
        gateway.port, gateway.url = port, f"http://127.0.0.1:{port}/mcp"
        try:
            gateway.start()
            gateway.await_servers("notes")
            yield Site(gateway, issuer)
        finally:
            gateway.stop()


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose tokens outlive every test."""
    with site(tmp_path_factory.mktemp("sign-in"), 300) as running:
        yield running


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose tokens live four seconds."""
    with site(tmp_path_factory.mktemp("expiry"), LIFETIME) as running:
        yield running


@pytest.mark.parametrize("client", CLIENTS)
def test_an_official_client_signs_in_and_steps_up(client: str, lasting: Site, tmp_path: Path) -> None:
    """2026-07-28 basic/authorization, S44, S51: metadata, challenge, PKCE, resource; then one more consent."""
    with person(client, lasting.gateway.url, tmp_path / "client.log") as alice:
        assert alice.connected["ok"]["scope"] == "mcp"
        assert len(alice.asked) == 1
        assert [tool["name"] for tool in alice.do("tools")["ok"]["tools"]] == ["notes__read_note", "notes__whoami"]
        assert alice.do("call", name="notes__whoami", arguments={})["ok"]["structuredContent"]["dataset"] == "notes"

        stepped = alice.do("call", name="notes__read_note", arguments={"id": "n1"})
        assert "Release on Thursday" in stepped["ok"]["content"][0]["text"]
        assert len(alice.asked) == 2
        assert alice.do("call", name="notes__whoami", arguments={})["ok"]
        assert len(alice.asked) == 2


def test_a_missing_scope_is_told_with_all_that_are_needed(lasting: Site) -> None:
    """S51, rows 6 and 18."""
    metadata = f"http://127.0.0.1:{lasting.gateway.port}/.well-known/oauth-protected-resource/mcp"
    start = f'Bearer realm="mcp", error="insufficient_scope", resource_metadata="{metadata}"'

    status, challenge, body = lasting.answer(lasting.issuer.robot_token("notes.read"))
    assert (status, challenge, body["id"]) == (403, f'{start}, scope="mcp"', None)
    status, challenge, body = lasting.answer(lasting.issuer.robot_token("mcp notes.read"), "notes__read_note")
    assert (status, challenge, body["id"]) == (403, f'{start}, scope="mcp notes.read notes.write"', 1)
    assert lasting.answer(lasting.issuer.robot_token("mcp notes.read notes.write"), "notes__read_note")[0] == 200


def test_tokens_that_others_made_or_that_are_for_others_are_refused_alike(lasting: Site) -> None:
    """S37 to S41, S44, S46: and none of them is in anything that the gateway writes or tells."""
    good = lasting.issuer.robot_token("mcp")
    header, payload, _ = good.split(".")
    told = jwt.decode(good, options={"verify_signature": False})
    keys = fetched(f"{lasting.issuer.url}/jwks")[1]
    public = json.dumps(keys["keys"][0]).encode()
    confused = f"{segment({'alg': 'HS256', 'typ': 'at+jwt', 'kid': 'first'})}.{segment(told)}"
    attacker, first = rsa_key("attacker"), {"kid": "first"}
    bad = {
        "no_signature": f"{header}.{payload}.",
        "none": forged({"alg": "none", "typ": "at+jwt"}, told),
        "hs256_with_the_public_key": f"{confused}.{segment(hmac.digest(public, confused.encode(), 'sha256'))}",
        "another_key": token(told, attacker, headers=first),
        "another_issuer": token({**told, "iss": "https://evil.example"}, attacker, headers=first),
        "unknown_kid": token(told, attacker, headers={"kid": "../../first"}),
        "another_audience": lasting.issuer.robot_token("mcp", resource=f"{lasting.gateway.url}2"),
        "one_below_ours": lasting.issuer.robot_token("mcp", resource=f"{lasting.gateway.url}/below"),
        "an_opaque_one": "opaque-" + "x" * 40,
    }
    refused = {name: lasting.answer(text) for name, text in bad.items()}
    metadata = f"http://127.0.0.1:{lasting.gateway.port}/.well-known/oauth-protected-resource/mcp"
    expected = f'Bearer realm="mcp", error="invalid_token", resource_metadata="{metadata}", scope="mcp"'

    assert {name: found[0] for name, found in refused.items()} == dict.fromkeys(bad, 401)
    assert {found[1] for found in refused.values()} == {expected}
    assert lasting.answer(good)[0] == 200
    assert lasting.gateway.metric("mcp_gateway_auth_failures_total", kind="jwt") >= 7
    eventually(
        lambda: any(record["event"] == "auth.failed" for record in lasting.gateway.records()), "audited", seconds=15
    )
    files = [path for path in lasting.gateway.folder.rglob("*") if path.is_file()]
    written = "".join(path.read_text("utf-8", "replace") for path in files)
    written += lasting.gateway.admin("/metrics")[1] + lasting.gateway.admin("/status")[1]
    parts = [part for text in (*bad.values(), good) for part in text.split(".")[1:] if part]
    assert lasting.gateway.log in files
    assert [part for part in parts if part in written] == []


def test_the_metadata_is_there_for_everybody_and_nothing_else_is(lasting: Site) -> None:
    """S44, row 4."""
    base = f"http://127.0.0.1:{lasting.gateway.port}/.well-known/oauth-protected-resource"
    documents = [fetched(url)[1] for url in (base, f"{base}/mcp")]

    assert documents[0] == documents[1]
    assert documents[0]["resource"] == lasting.gateway.url
    assert documents[0]["authorization_servers"] == [lasting.issuer.url]
    assert documents[0]["scopes_supported"] == ["mcp"]
    for path in (f"{base}/other", base.rpartition("/")[0], f"{base}/mcp/"):
        assert fetched(path)[0] == 404


@pytest.mark.parametrize("client", ["mcp1-legacy", "mcp2-modern"])
def test_an_official_client_loses_access_when_its_token_ends_and_signs_in_again(
    client: str, brief: Site, tmp_path: Path
) -> None:
    """S52: its connection stays, and the session of a legacy client as well."""
    with person(client, brief.gateway.url, tmp_path / "client.log") as alice:
        assert alice.do("call", name="notes__whoami", arguments={})["ok"]
        before, signed_in = len(alice.asked), time.monotonic()
        eventually(lambda: time.monotonic() - signed_in > LIFETIME, "the token has expired", LIFETIME + 5)
        assert alice.do("call", name="notes__whoami", arguments={})["ok"]["structuredContent"]["dataset"] == "notes"
        assert len(alice.asked) > before


def test_a_token_opens_what_its_claims_say_and_nothing_after_its_end(brief: Site) -> None:
    """S38, S50: a robot is in the group that the issuer put it in, and narrowed by its scopes."""
    token = brief.issuer.robot_token("mcp")
    status, _, body = brief.answer(token)
    assert (status, body["result"]["structuredContent"]["dataset"]) == (200, "notes")
    assert brief.gateway.metric("mcp_gateway_client_calls_total", client="jwt:127.0.0.1", outcome="ok") >= 1
    assert brief.answer(token, "notes__read_note")[0] == 403
    assert brief.answer(token, "notes__delete_note")[0] == 400
    eventually(lambda: brief.answer(token)[0] == 401, "the token has expired", LIFETIME + 5)


def test_the_issuers_keys_rotate_and_its_outage_is_survived(lasting: Site) -> None:
    """S43: what is known goes on working, a new key is neither believed nor refused until the issuer is back.

    The last one: it leaves the issuer with other keys.
    """
    old = lasting.issuer.robot_token("mcp")
    assert lasting.answer(old)[0] == 200
    lasting.issuer.rotate(private_jwk("second", "ES256"), private_jwk("first"))
    new = lasting.issuer.robot_token("mcp")
    lasting.issuer.stop()
    eventually(lambda: lasting.answer(new)[0] == 503, "nobody can tell", 15)
    assert lasting.answer(old)[0] == 200
    assert lasting.gateway.metric("mcp_gateway_jwks_fetches_total", result="failed") >= 1
    assert any(record["event"] == "auth.degraded" for record in lasting.gateway.records())

    lasting.issuer.start()
    eventually(lambda: lasting.answer(new)[0] == 200, "the issuer is back", 15)
    assert lasting.answer(old)[0] == 200
    fetched_before = lasting.issuer.requests().count("/jwks")
    for number in range(15):
        assert lasting.answer(token(headers={"kid": str(number)}))[0] == 401
    assert lasting.issuer.requests().count("/jwks") <= fetched_before + 1


def test_a_reload_decides_anew_whose_tokens_are_taken(lasting: Site, tmp_path: Path) -> None:
    """S34, S183: without another look at the issuer's keys, and back again."""
    good = lasting.issuer.robot_token("mcp")
    eventually(lambda: lasting.answer(good)[0] == 200, "the keys are known", 15)
    whole = json.loads(lasting.gateway.file.read_text())
    strict = json.loads(json.dumps(whole))
    strict["auth"]["jwt"]["required_scopes"] = ["mcp", "notes.read"]
    elsewhere = json.loads(json.dumps(whole))
    elsewhere["auth"]["jwt"]["audience"] = "https://elsewhere.example/mcp"
    for changed, status in ((strict, 403), (elsewhere, 401), (whole, 200)):
        lasting.gateway.reload(changed)
        assert lasting.answer(good)[0] == status
