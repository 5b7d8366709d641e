"""Tokens of the forms that docs/oauth-providers.md shows get their callers in, with the configs beside them."""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import jwt
import pytest
import yaml

from gateway.auth.challenge import Challenges
from gateway.config.loader import load
from tests.kit import wire
from tests.kit.gateway import ROOT, Gateway, serving
from tests.kit.peers import notes
from tests.kit.snippets import every_block, fits
from tests.kit.tokens import key_set, rsa_key

Json: TypeAlias = dict[str, Any]

PAGE: Final = ROOT / "docs" / "oauth-providers.md"
BLOCKS: Final = [block for block in every_block() if block.page == PAGE]
CONFIGS: Final = {block.heading: yaml.safe_load(block.text) for block in BLOCKS if block.language == "yaml"}
TOKENS: Final = {block.heading: json.loads(block.text) for block in BLOCKS if block.language == "json"}
AUTH: Final = [block for block in every_block() if block.page == ROOT / "docs" / "auth.md"]
PROVIDERS: Final = ("Keycloak", "Microsoft Entra ID")


@contextmanager
def issuer(path: str) -> Iterator[str]:
    """Run an issuer whose metadata is where both providers have it: behind the issuer's own path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            documents = {
                f"{path}/.well-known/openid-configuration": json.dumps(
                    {"issuer": own, "jwks_uri": f"{own}/keys", "token_endpoint": f"{own}/token"}
                ).encode(),
                f"{path}/keys": key_set(),
            }
            body = documents.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name.
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    own = f"http://127.0.0.1:{server.server_port}{path}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield own
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextmanager
def guarded(provider: str, folder: Path) -> Iterator[tuple[Gateway, str]]:
    """Serve the page's config, but for TLS and addresses: the issuer is ours and so is the server."""
    config: Json = CONFIGS[provider]
    with issuer(urlsplit(config["auth"]["jwt"]["issuer"]).path) as own:
        config = {
            "listen": {"public_url": config["listen"]["public_url"]},
            "auth": {"jwt": {**config["auth"]["jwt"], "issuer": own}},
            "servers": {"wiki": notes(folder, "notes").config},
            "policies": config["policies"],
        }
        with serving(folder / "gateway", config) as gateway:
            gateway.await_servers("wiki")
            yield gateway, own


def signed(provider: str, own: str, **changes: object) -> str:
    """Sign the page's payload as it is, but for issuer and times."""
    now = int(time.time())
    payload = {**TOKENS[provider], "iss": own, "iat": now, "exp": now + 300, **changes}
    if "nbf" in payload:
        payload["nbf"] = now
    kept = {name: value for name, value in payload.items() if value is not None}
    return jwt.encode(kept, rsa_key(), "RS256", headers={"kid": "k1", "typ": "JWT"})


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_token_of_the_providers_form_opens_what_its_group_may_use(provider: str, tmp_path: Path) -> None:
    with guarded(provider, tmp_path) as (gateway, own):
        async with wire.http_client(gateway.url, "modern", signed(provider, own)) as client:
            names = [tool["name"] for tool in await wire.every(client, "tools/list", "tools")]
            called = await wire.call(client, "wiki__whoami")
        others = {"groups": ["guests"], "roles": ["guests"]}
        async with wire.http_client(gateway.url, "modern", signed(provider, own, **others)) as client:
            none = [tool["name"] for tool in await wire.every(client, "tools/list", "tools")]
        refused = {
            name: await status(gateway.url, token)
            for name, token in {
                "audience": signed(provider, own, aud="https://other.example.com"),
                "no audience": signed(provider, own, aud=None),
                "scope": signed(provider, own, scope="openid", scp="other"),
            }.items()
        }
        records = gateway.records()

    assert "wiki__whoami" in names
    assert "isError" not in called.result or called.result["isError"] is False
    assert none == []
    assert refused == {"audience": 401, "no audience": 401, "scope": 403}
    principal = next(record for record in records if record["event"] == "call.end")["principal"]
    assert principal["kind"] == "sub"
    assert principal["groups"] == ["staff"]


async def status(url: str, token: str) -> int:
    """Return the HTTP status of a list that is asked for with a token."""
    async with wire.http_client(url, "modern", token) as client:
        return (await client.request("tools/list")).status


def test_clients_of_entra_are_told_to_ask_for_scopes_in_full(tmp_path: Path) -> None:
    with guarded("Microsoft Entra ID", tmp_path) as (gateway, own):
        address = f"http://127.0.0.1:{gateway.port}/.well-known/oauth-protected-resource/mcp"
        with urllib.request.urlopen(address, timeout=5) as reply:
            document = json.loads(reply.read())

    assert document["scopes_supported"] == ["https://mcp.example.com/mcp/mcp"]
    assert document["authorization_servers"] == [own]


def test_the_challenges_of_the_page_on_tokens_are_those_of_its_config(tmp_path: Path) -> None:
    """docs/auth.md: what a client sees."""
    file = tmp_path / "gateway.yaml"
    file.write_text(next(block.text for block in AUTH if block.language == "yaml"))
    told = Challenges.of(load(file, os.environ).config)
    shown = [block.text for block in AUTH if block.language == "http"]

    assert len(shown) == 2
    assert fits(tuple(shown[0].splitlines()), f"401 WWW-Authenticate: {told.missing()}\n")
    assert fits(tuple(shown[1].splitlines()), f"403 WWW-Authenticate: {told.insufficient('', ['crm.write'])}\n")


def test_both_providers_have_a_config_and_a_token_on_the_page() -> None:
    assert tuple(TOKENS) == PROVIDERS
    assert set(CONFIGS) == set(PROVIDERS)


def test_what_the_page_says_of_principals_is_made_of_its_token() -> None:
    text = PAGE.read_text("utf-8")
    token = TOKENS["Keycloak"]

    assert f"`sub:{token['iss']}/{token['sub']}`" in text
