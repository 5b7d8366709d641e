from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import ref

import pytest

from gateway.config.servers import Server
from gateway.downstream.authorizer import Authorizable
from gateway.downstream.openapi.channel import ApiChannel
from gateway.downstream.transport import Departure, Request
from gateway.errors import DownstreamError, Reason
from tests.kit.http_server import Exchange, HttpServer, serving
from tests.kit.openapi import Json, source
from tests.kit.processes import Recorder

PATHS: Json = {"/a": {"get": {"operationId": "a"}}}


@asynccontextmanager
async def channel_to(base: str = "/v1", **settings: Any) -> AsyncIterator[tuple[ApiChannel, HttpServer]]:
    async def script(exchange: Exchange) -> None:
        await exchange.json({"ok": True})

    async with serving(script) as http:
        made = Server.model_validate(
            {"openapi": "api.yaml", "url": f"http://u:pass-word-1234@127.0.0.1:{http.port}{base}", **settings}
        )
        channel = ApiChannel("api", made.with_document(source(PATHS)), generation=3)
        await channel.open(Recorder())
        try:
            yield channel, http
        finally:
            await channel.aclose()


async def test_a_channel_says_what_it_is() -> None:
    async with channel_to() as (channel, _):
        assert (channel.kind, channel.instance, channel.key_digest, channel.last_words) == (
            "openapi",
            "openapi#3",
            "",
            "",
        )
        assert isinstance(channel, Authorizable)
        assert channel.max_result == 16 * 2**20


async def test_requests_go_to_the_origin_with_what_the_config_sends_and_exactly_as_written() -> None:
    async with channel_to("/v1?key=s3cret", headers={"X-Key": "k" * 20}) as (channel, http):
        await channel.tools()
        response = await channel.send("GET", "/v1/a%2F..%2fb;x?q=%2B+1", {"Accept": "x/y"}, None, Departure())
        response.close()
        (seen,) = http.seen
        assert (seen.method, seen.target) == ("GET", "/v1/a%2F..%2fb;x?q=%2B+1")
        assert (seen.headers["x-key"], seen.headers["accept"]) == ("k" * 20, "x/y")
        assert seen.headers["authorization"].startswith("Basic ")
        assert b"***" in channel.lent.masked(b"pass-word-1234")


async def test_the_config_names_what_no_argument_may_set() -> None:
    async with channel_to("/v1?key=s", headers={"X-Key": "k"}) as (channel, _):
        assert (channel.terms.fixed, channel.terms.headers) == (frozenset({"key"}), frozenset({"x-key"}))


async def test_tools_are_made_once_for_all_who_have_them_and_are_gone_with_the_last() -> None:
    made = Server.model_validate({"openapi": "api.yaml", "url": "http://127.0.0.1:1/v1"})
    one, other = (ApiChannel("api", made.with_document(source(PATHS))) for _ in range(2))
    first = await one.tools()
    assert await other.tools() is await one.tools() is first
    assert first.operations["a"].template == "/v1/a"
    seen = ref(first)
    del first
    await one.aclose()
    gc.collect()
    assert seen() is not None
    await other.aclose()
    gc.collect()
    assert seen() is None


async def test_a_document_without_tools_is_no_server() -> None:
    made = Server.model_validate({"openapi": "api.yaml", "url": "http://127.0.0.1:1"}).with_document(source({}))
    with pytest.raises(DownstreamError) as caught:
        await ApiChannel("api", made).tools()
    assert caught.value.reason is Reason.PROTOCOL_ERROR
    assert caught.value.message == "its OpenAPI document has no operation that can be called"


async def test_before_the_document_and_after_the_end_nothing_is_sent() -> None:
    async with channel_to() as (channel, http):
        with pytest.raises(DownstreamError, match="the connection is closed"):
            await channel.send("GET", "/a", {}, None, Departure())
        await channel.tools()
        await channel.aclose()
        await channel.aclose()
        with pytest.raises(DownstreamError, match="the connection is closed"):
            await channel.send("GET", "/a", {}, None, Departure())
        with pytest.raises(DownstreamError, match="the connection is closed"):
            await channel.tools()
        assert http.seen == []


async def test_messages_of_the_protocol_have_nowhere_to_go() -> None:
    async with channel_to() as (channel, http):
        await channel.tools()
        for send in (channel.request, channel.notify):
            with pytest.raises(DownstreamError, match="speaks no MCP"):
                await send(Request("ping", {}))
        assert http.seen == []
