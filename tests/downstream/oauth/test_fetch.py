from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gateway.config.servers import Server
from gateway.downstream.oauth import fetch
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.fetch import MAX_DOCUMENT, Fetched, Fetcher
from gateway.protocol import rawjson
from tests.kit import certificates
from tests.kit.http_server import Exchange, HttpServer, serving
from tests.kit.oauth import LOOPBACK

URL = "http://127.0.0.1:1/mcp"


def fetcher(url: str = URL, **settings: object) -> Fetcher:
    server = {"url": url, "auth": {"authorization_code": {}}, **settings}
    return Fetcher("a", Server.model_validate(server))


def place(http: HttpServer, path: str = "/doc") -> str:
    return http.url.removesuffix("/mcp") + path


async def document(exchange: Exchange) -> None:
    await exchange.json({"path": exchange.target})


async def test_the_servers_own_origin_is_trusted_and_learned_ones_must_be_allowed() -> None:
    """S118: an address learned from a server is dialed only where it is public or in allow_networks."""
    blocked: list[str] = []
    async with serving(document) as http:
        assert await fetcher(http.url).get(place(http)) == Fetched(200, {"path": "/doc"})
        learned = Fetcher("a", Server.model_validate({"url": URL, "auth": {}}), lambda: blocked.append("x"))
        with pytest.raises(NoToken, match="must not be dialed: loopback"):
            await learned.get(place(http))
        assert len(http.seen) == 1
        assert await fetcher(URL, allow_networks=LOOPBACK).get(place(http)) == Fetched(200, {"path": "/doc"})
    assert blocked == ["x"]


async def test_an_origin_an_operator_wrote_is_trusted() -> None:
    async with serving(document) as http:
        own = {"issuer": place(http, ""), "client_id": "me", "client_secret": "pw"}
        found = await fetcher(URL, auth={"client_credentials": own}).get(place(http))
    assert found.status == 200


@pytest.mark.parametrize(
    "url",
    [
        "http://idp.example/doc",
        "https://user:pw@127.0.0.1/doc",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "not an address",
        "https://",
    ],
)
async def test_nothing_but_https_and_loopback_is_asked(url: str) -> None:
    """S121."""
    with pytest.raises(NoToken) as caught:
        await fetcher(allow_networks=["0.0.0.0/0"]).get(url)
    assert url not in caught.value.message


async def test_a_loopback_name_over_http_never_leaves_the_machine() -> None:
    with pytest.raises(NoToken):
        await fetcher(allow_networks=["0.0.0.0/0", "::/0"]).get("http://localhost.:1/doc")


async def test_redirects_are_not_followed() -> None:
    """S119."""

    async def away(exchange: Exchange) -> None:
        await exchange.answer(302, head={"Location": "/elsewhere"})

    async with serving(away) as http:
        found = await fetcher(http.url).get(place(http))
        assert (found, len(http.seen)) == (Fetched(302, {}), 1)


@pytest.mark.parametrize("declared", [True, False])
async def test_a_document_that_is_too_long_is_not_read(declared: bool) -> None:
    """S121: 64 KiB."""

    async def flood(exchange: Exchange) -> None:
        body = b" " * (MAX_DOCUMENT + 1)
        if declared:
            await exchange.answer(200, body, "application/json")
            return
        await exchange.start_stream()
        await exchange.chunk(body)
        await exchange.until_gone()
        exchange.close()

    async with serving(flood) as http:
        with pytest.raises(NoToken, match="too long"):
            await fetcher(http.url).get(place(http))


async def test_a_compressed_document_is_not_read() -> None:
    async def squeezed(exchange: Exchange) -> None:
        await exchange.answer(200, gzip.compress(b"{}"), "application/json", {"Content-Encoding": "gzip"})

    async with serving(squeezed) as http:
        with pytest.raises(NoToken, match="compressed"):
            await fetcher(http.url).get(place(http))


async def test_silence_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(exchange: Exchange) -> None:
        await exchange.until_gone()
        exchange.close()

    monkeypatch.setattr(fetch, "TIMEOUT", 0.1)
    async with serving(silent) as http:
        with pytest.raises(NoToken, match="no answer within"):
            await fetcher(http.url).get(place(http))


async def test_what_is_no_json_object_is_empty() -> None:
    bodies = iter([b"[1]", b'{"a": 1, "a": 2}', b"\xff", b""])

    async def odd(exchange: Exchange) -> None:
        await exchange.answer(200, next(bodies), "application/json")

    async with serving(odd) as http:
        for _ in range(4):
            assert await fetcher(http.url).get(place(http)) == Fetched(200, {})


async def test_forms_and_documents_are_posted_without_cookies_or_credentials_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S130."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with serving(document) as http:
        one = fetcher(http.url)
        await one.post_form(place(http), {"a": "b c"}, {"Authorization": "Basic eA=="})
        await one.post_json(place(http), {"client_name": "x"})
        form, registration = http.seen
    assert (form.body, form.headers["authorization"]) == (b"a=b+c", "Basic eA==")
    assert form.headers["content-type"] == "application/x-www-form-urlencoded"
    assert rawjson.decode_strict(registration.body) == {"client_name": "x"}
    assert "authorization" not in registration.headers


async def test_certificates_are_verified_with_the_configured_authorities(tmp_path: Path) -> None:
    authority = certificates.make("authority")
    context = certificates.make("server", authority).server_context(tmp_path)
    ca = authority.write(tmp_path / "ca.pem")
    way: dict[str, object] = {"authorization_code": {}}
    async with serving(document, context) as http:
        with pytest.raises(NoToken, match="cannot be reached"):
            await fetcher(http.url).get(place(http))
        trusting = fetcher(http.url, auth={**way, "ca": ca})
        assert (await trusting.get(place(http))).status == 200
    with pytest.raises(NoToken, match=r"auth\.ca"):
        await fetcher("https://127.0.0.1:1/mcp", auth={**way, "ca": "/nowhere"}).get("https://127.0.0.1:1/doc")
