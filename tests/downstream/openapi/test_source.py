from __future__ import annotations

import asyncio
import json

import pytest

from gateway.config.servers import Server
from gateway.downstream.authorizer import Refusal
from gateway.downstream.openapi.source import Source
from gateway.errors import DownstreamError, Reason
from tests.kit.http_server import Exchange, Script, serving
from tests.kit.openapi import Json, source

DOCUMENT: Json = {"openapi": "3.1.0", "paths": {"/a": {"get": {"operationId": "a"}}}}


class Token:
    """Sends a token along."""

    async def headers(self) -> dict[str, str]:
        return {"Authorization": "Bearer lent"}

    async def refused(self, refusal: Refusal) -> bool:
        return False


def server(where: str, /, **settings: object) -> Server:
    return Server.model_validate({"openapi": where, **settings})


async def failing(script: Script, **settings: object) -> DownstreamError:
    async with serving(script) as http:
        with pytest.raises(DownstreamError) as caught:
            await Source(server(http.url, **settings)).get(None)
        return caught.value


async def test_a_document_of_a_file_was_read_with_the_config() -> None:
    known = source({"/a": {}})
    made = server("api.yaml", url="http://127.0.0.1:1").with_document(known)
    assert await Source(made).get(None) is known
    with pytest.raises(DownstreamError, match="was not read"):
        await Source(server("api.yaml")).get(None)


async def test_a_document_is_fetched_with_what_the_api_is_sent() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.json(DOCUMENT)

    async with serving(script) as http:
        url = f"http://u:p@127.0.0.1:{http.port}/openapi.json?v=1"
        made = await Source(server(url, headers={"X-Key": "k"})).get(Token())
    assert made.tree == DOCUMENT
    (seen,) = http.seen
    assert (seen.method, seen.target) == ("GET", "/openapi.json?v=1")
    assert seen.headers["x-key"] == "k"
    assert seen.headers["authorization"] == "Bearer lent"
    assert "json" in seen.headers["accept"]


async def test_another_origin_than_the_apis_gets_no_credentials() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.json(DOCUMENT)

    async with serving(script) as http:
        made = server(http.url, url="https://api.example/v1", headers={"X-Key": "k"})
        await Source(made).get(Token())
    assert "x-key" not in http.seen[0].headers
    assert "authorization" not in http.seen[0].headers


async def test_an_unchanged_document_is_not_sent_again() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.headers.get("if-none-match") == '"one"':
            await exchange.answer(304)
        else:
            await exchange.json(DOCUMENT, head={"ETag": '"one"'})

    async with serving(script) as http:
        fetched = Source(server(http.url))
        first = await fetched.get(None)
        assert await fetched.get(None) is first
    assert [each.headers.get("if-none-match") for each in http.seen] == [None, '"one"']


async def test_a_document_that_comes_again_is_not_read_again() -> None:
    """Not every server knows when a document is unchanged, and each connection of a server has it."""

    async def script(exchange: Exchange) -> None:
        await exchange.json(DOCUMENT)

    async with serving(script) as http:
        fetched = Source(server(http.url))
        first = await fetched.get(None)
        assert await fetched.get(None) is first
        assert await Source(server(http.url)).get(None) is first
    assert [each.headers.get("if-none-match") for each in http.seen] == [None] * 3


async def test_a_changed_document_is_another_one() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.json({**DOCUMENT, "x": len(http.seen)})

    async with serving(script) as http:
        fetched = Source(server(http.url))
        assert await fetched.get(None) != await fetched.get(None)


@pytest.mark.parametrize(
    ("status", "body", "reason", "says"),
    [
        (404, b"", Reason.UNAVAILABLE, "the answer has HTTP status 404"),
        (304, b"", Reason.UNAVAILABLE, "the answer has HTTP status 304"),
        (200, b"<html>", Reason.PROTOCOL_ERROR, "its OpenAPI document is no OpenAPI document"),
        (200, b'{"swagger": "2.0"}', Reason.PROTOCOL_ERROR, "Swagger 2.0, which is not served (convert it"),
        (200, b"openapi: [", Reason.PROTOCOL_ERROR, "its OpenAPI document is not valid YAML in line"),
    ],
)
async def test_what_is_no_document_is_told(status: int, body: bytes, reason: Reason, says: str) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.answer(status, body, "application/json")

    error = await failing(script)
    assert error.reason is reason
    assert says in error.message
    assert not error.may_have_run


async def test_a_document_elsewhere_is_not_followed() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.answer(302, head={"Location": "http://169.254.169.254/"})

    assert "redirects (302) to another origin" in (await failing(script)).message


async def test_a_document_is_bounded_in_length_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def long(exchange: Exchange) -> None:
        await exchange.answer(200, json.dumps({**DOCUMENT, "x": "y" * 1000}).encode(), "application/json")

    async def never(exchange: Exchange) -> None:
        await exchange.until_gone()

    error = await failing(never, timeouts={"start": "50ms"})
    assert (error.reason, error.message) == (Reason.TIMEOUT, "its OpenAPI document did not come within 0.05 s")
    monkeypatch.setattr("gateway.downstream.openapi.source.MAX_DOCUMENT", 1000)
    assert (await failing(long)).reason is Reason.TOO_LARGE


async def test_a_connection_that_breaks_is_told_as_such() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        exchange.close()

    assert (await failing(script)).reason is Reason.UNAVAILABLE


async def test_giving_up_leaves_nothing_behind() -> None:
    started = asyncio.Event()
    gone = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        started.set()
        await exchange.until_gone()
        gone.set()

    async with serving(script) as http:
        task = asyncio.get_running_loop().create_task(Source(server(http.url)).get(None))
        await asyncio.wait_for(started.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(gone.wait(), 5)
