from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.config.server_auth import AuthorizationCode
from gateway.config.servers import Server
from gateway.downstream.oauth.client import Client
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.fetch import Fetcher
from gateway.downstream.oauth.metadata import AuthorizationServer
from gateway.downstream.oauth.registration import MAX_ISSUERS, Registry, client_metadata
from gateway.downstream.oauth.vault import MemoryVault, SealedVault, Vault
from gateway.protocol.rawjson import Object
from gateway.state.documents import Unreachable
from gateway.state.folder import FolderDocuments
from gateway.state.sealing import Sealer
from tests.kit.http_server import Exchange, HttpServer, serving

CALLBACK = "http://127.0.0.1:8080/oauth/callback"
METADATA = "https://gw.example/oauth/client.json"


@asynccontextmanager
async def idp(answer: Object, status: int = 201) -> AsyncIterator[HttpServer]:
    """Serve an authorization server that answers every registration the same way."""

    async def script(exchange: Exchange) -> None:
        await exchange.json(answer, status)

    async with serving(script) as http:
        yield http


def registry(http: HttpServer, way: AuthorizationCode | None = None, vault: Vault | None = None) -> Registry:
    way = way or AuthorizationCode()
    server = Server.model_validate({"url": http.url, "auth": {"authorization_code": {}}})
    return Registry("a", way, CALLBACK, Fetcher("a", server), vault or MemoryVault())


def at(http: HttpServer, issuer: str = "https://idp.example", **more: object) -> AuthorizationServer:
    plain = AuthorizationServer(issuer, "https://idp.example/token", registration_endpoint=http.url)
    return replace(plain, **more)  # type: ignore[arg-type] # fields of the dataclass


async def test_the_gateway_registers_once_for_each_issuer() -> None:
    vault = MemoryVault()
    async with idp({"client_id": "c", "client_secret": "s"}) as http:
        one = registry(http, vault=vault)
        assert await one.client(at(http), ("a",)) == Client("c", "client_secret_basic", "s")
        assert await registry(http, vault=vault).client(at(http), ()) == Client("c", "client_secret_basic", "s")
        assert len(http.seen) == 1
        await one.client(at(http, "https://other.example"), ())
        asked = [seen.message for seen in http.seen]
    assert len(asked) == 2
    assert asked[0]["application_type"] == "native"
    assert asked[0]["grant_types"] == ["authorization_code", "refresh_token"]
    assert (asked[0]["redirect_uris"], asked[0]["scope"]) == ([CALLBACK], "a")


async def test_a_registration_that_ended_or_is_for_another_place_is_not_used() -> None:
    vault = MemoryVault()
    async with idp({"client_id": "c", "client_secret": "s", "client_secret_expires_at": 100}) as http:
        one = replace(registry(http, vault=vault), clock=lambda: 50.0)
        await one.client(at(http), ())
        await one.client(at(http), ())
        assert len(http.seen) == 1
        await replace(one, clock=lambda: 100.0).client(at(http), ())
        assert len(http.seen) == 2
        await replace(one, redirect_uri="http://127.0.0.1:9/oauth/callback").client(at(http), ())
        assert len(http.seen) == 3
        await one.forget("https://idp.example")
        await one.client(at(http), ())
        assert len(http.seen) == 4


async def test_registrations_of_a_server_are_bounded() -> None:
    vault = MemoryVault()
    async with idp({"client_id": "c"}) as http:
        for number in range(MAX_ISSUERS + 3):
            await registry(http, vault=vault).client(at(http, f"https://idp{number}.example"), ())
    kept = vault.load("a", "registrations")["registered"]
    assert isinstance(kept, dict)
    assert len(kept) == MAX_ISSUERS
    assert "https://idp0.example" not in kept


@pytest.mark.parametrize(
    ("supported", "wanted"),
    [(None, "client_secret_basic"), (("client_secret_post", "none"), "client_secret_post"), (("none",), "none")],
)
async def test_the_method_is_one_that_is_supported(supported: tuple[str, ...] | None, wanted: str) -> None:
    async with idp({"client_id": "c"}) as http:
        client = await registry(http).client(at(http, auth_methods=supported), ())
        assert http.seen[0].message["token_endpoint_auth_method"] == wanted
    assert client == Client("c", "none")


@pytest.mark.parametrize(
    ("answer", "status"),
    [({"error": "invalid_redirect_uri", "error_description": "canary"}, 400), ({}, 201), ({"client_id": 7}, 201)],
)
async def test_a_refused_registration_says_what_to_do(answer: Object, status: int) -> None:
    async with idp(answer, status) as http:
        with pytest.raises(NoToken, match="set client_id") as caught:
            await registry(http).client(at(http), ())
    assert "canary" not in caught.value.message


async def test_without_registration_somebody_has_to_register_the_gateway() -> None:
    async with idp({}) as http:
        with pytest.raises(NoToken, match="takes no registrations"):
            await registry(http).client(at(http, registration_endpoint=""), ())


async def test_a_metadata_document_is_used_where_it_is_understood() -> None:
    async with idp({"client_id": "c"}) as http:
        one = registry(http, AuthorizationCode(client_metadata_url=METADATA))
        assert await one.client(at(http, takes_metadata_documents=True), ()) == Client(METADATA)
        assert http.seen == []
        assert (await one.client(at(http), ())).id == "c"


async def test_a_registered_client_stays_with_the_issuer_it_was_used_with() -> None:
    """The specification's authorization server binding: an error rather than mismatched credentials."""
    vault = MemoryVault()
    way = AuthorizationCode.model_validate({"client_id": "me", "client_secret": "pw"})
    async with idp({}) as http:
        one = registry(http, way, vault)
        assert (await one.client(at(http), ())).id == "me"
        with pytest.raises(NoToken, match="another authorization server"):
            await one.client(at(http, "https://other.example"), ())
        fixed = way.model_copy(update={"issuer": "https://other.example"})
        assert (await registry(http, fixed, vault).client(at(http, "https://other.example"), ())).id == "me"
        assert http.seen == []


def test_a_gateway_on_the_web_says_so() -> None:
    assert client_metadata("https://gw.example/oauth/callback")["application_type"] == "web"
    assert client_metadata("http://[::1]:8080/oauth/callback")["application_type"] == "native"


async def test_replicas_that_register_at_once_are_one_client(tmp_path: Path) -> None:
    """Each would refresh with its own client otherwise, and not the one that got the token."""

    def vault() -> Vault:
        return SealedVault(FolderDocuments(tmp_path, shared=True), Sealer([b"k" * 32]))

    async with idp({"client_id": "c"}) as http, asyncio.timeout(5):
        found = await asyncio.gather(*(registry(http, vault=vault()).client(at(http), ()) for _ in range(3)))
        assert found == [Client("c")] * 3
        assert len(http.seen) == 1


class Away(MemoryVault):
    """Cannot be read, or written, now."""

    shared = True
    reads = True
    takes = True

    def read(self, *context: str) -> Object:
        if not self.reads:
            raise Unreachable(errno.EHOSTUNREACH, "cannot be reached")
        return super().read(*context)

    def store(self, value: Object, *context: str) -> bool:
        return self.takes and super().store(value, *context)


async def test_what_cannot_be_read_now_lets_no_other_authorization_server_in() -> None:
    vault = Away()
    way = AuthorizationCode.model_validate({"client_id": "mine", "client_secret": "canary"})
    async with idp({"client_id": "c"}) as http:
        one = registry(http, way, vault)
        await one.client(at(http), ())
        vault.reads = False
        for issuer in ("https://idp.example", "https://other.example"):
            with pytest.raises(NoToken, match="cannot be read now"):
                await one.client(at(http, issuer), ())
        vault.reads = True
        await one.client(at(http), ())
        with pytest.raises(NoToken, match="another authorization server"):
            await one.client(at(http, "https://other.example"), ())


async def test_a_registration_that_other_replicas_cannot_learn_of_is_not_used() -> None:
    vault = Away()
    async with idp({"client_id": "c"}) as http:
        vault.takes = False
        with pytest.raises(NoToken, match="cannot be kept now"):
            await registry(http, vault=vault).client(at(http), ())
        vault.takes = True
        assert (await registry(http, vault=vault).client(at(http), ())).id == "c"
