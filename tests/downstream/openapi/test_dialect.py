from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest

from gateway.config.servers import Server
from gateway.downstream.dialect import Events, Peer
from gateway.downstream.leg import Leg
from gateway.downstream.openapi.answer import Answered, result_of
from gateway.downstream.openapi.channel import ApiChannel
from gateway.downstream.openapi.dialect import OpenApi
from gateway.downstream.openapi.operations import Operation
from gateway.downstream.transport import Departure
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.catalog import Definition, Kind
from gateway.model.exchange import Exchange as Notebook
from gateway.model.outcome import Complete, Failure
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members
from gateway.protocol.versions import Era
from tests.kit.http_server import Exchange, HttpServer, Script, serving
from tests.kit.openapi import Json, body, parameter, read_members, source
from tests.kit.processes import Recorder
from tests.kit.spans import Recorder as SpanRecorder
from tests.kit.transport import TRACE, call

PATHS: Json = {
    "/pets/{id}": {
        "get": {"operationId": "get", "parameters": [parameter("id", "path"), parameter("q")]},
        "head": {"operationId": "head", "parameters": [parameter("id", "path")]},
        "delete": {"operationId": "delete", "parameters": [parameter("id", "path")]},
    },
    "/pets": {"post": {"operationId": "add", **body({"properties": {"name": {"type": "string"}}})}},
    "/form": {
        "post": {
            "operationId": "form",
            **body({"type": "object", "additionalProperties": True}, "application/x-www-form-urlencoded"),
        }
    },
    "/open?view=all#it": {
        "post": {
            "operationId": "open",
            **body({"type": "object", "additionalProperties": True}, "application/x-www-form-urlencoded"),
        }
    },
    "/broken": {"$ref": "elsewhere.yaml"},
}


async def fine(exchange: Exchange) -> None:
    await exchange.json({"target": exchange.target, "body": exchange.body.decode()})


@dataclass
class Talk:
    """A dialect with what it talks to, and what it says has changed."""

    dialect: OpenApi
    http: HttpServer
    changed: list[frozenset[Kind]] = field(default_factory=list)

    async def call(self, tool: str, /, notebook: Notebook | None = None, **arguments: Any) -> Json:
        """Call a tool that answers."""
        outcome = await self.dialect.call(asking(tool, **arguments), notebook or Notebook())
        assert isinstance(outcome, Complete), outcome
        return read_members(outcome.result)

    async def fail(self, tool: str, /, **arguments: Any) -> DownstreamError:
        """Call a tool of which there is no answer."""
        with pytest.raises(DownstreamError) as caught:
            await asyncio.wait_for(self.dialect.call(asking(tool, **arguments), Notebook()), 10)
        return caught.value


def asking(tool: str, /, **arguments: Any) -> Call:
    return call(tool, params={"name": tool, "arguments": arguments}, trace=TRACE)


@asynccontextmanager
async def talking(script: Script = fine, **settings: Any) -> AsyncIterator[Talk]:
    async with serving(script) as http:
        made = Server.model_validate(
            {"openapi": "api.yaml", "url": f"http://127.0.0.1:{http.port}/v1?key=s3cret", **settings}
        )
        channel = ApiChannel("a", made.with_document(source(PATHS)))
        await channel.open(Recorder())
        changed: list[frozenset[Kind]] = []
        peer = Peer("a", channel, made.timeouts, events=Events(changed=changed.append))
        try:
            yield Talk(await OpenApi.meet(peer, channel), http, changed)
        finally:
            await channel.aclose()


async def test_towards_the_gateway_it_is_a_modern_server_with_tools_alone() -> None:
    async with talking() as talk:
        hello = talk.dialect.hello
        assert (hello.era, hello.version, hello.product, hello.completes) == (
            Era.MODERN,
            "OpenAPI 3.1.0",
            "Test/1",
            False,
        )
        assert hello.flag("tools", "listChanged")
        assert [
            (await talk.dialect.page(kind, None)).items for kind in (Kind.PROMPT, Kind.RESOURCE, Kind.TEMPLATE)
        ] == [[]] * 3
        page = await talk.dialect.page(Kind.TOOL, None)
        assert (len(page.items), page.next_cursor, page.ttl_ms) == (6, None, None)
        assert [name for name, _ in page.left_out] == ["/broken"]


async def test_a_call_becomes_a_request_and_its_answer_a_result() -> None:
    async with talking() as talk:
        notebook = Notebook()
        made = await talk.call("get", notebook, id="a b", q="1&2")
        assert made["structuredContent"] == {"target": "/v1/pets/a%20b?key=s3cret&q=1%262", "body": ""}
        (seen,) = talk.http.seen
        assert seen.headers["traceparent"] == TRACE["traceparent"]
        assert "content-type" not in seen.headers
        assert notebook.dispatched


async def test_a_body_is_sent_with_its_type() -> None:
    async with talking() as talk:
        await talk.call("add", name="Rex")
        (seen,) = talk.http.seen
        assert (seen.method, seen.target, seen.body) == ("POST", "/v1/pets?key=s3cret", b'{"name":"Rex"}')
        assert seen.headers["content-type"] == "application/json"


@pytest.mark.parametrize(("length", "aside"), [(1000, False), (64 * 1024, True)])
async def test_a_long_answer_is_read_beside_everything_else(
    monkeypatch: pytest.MonkeyPatch, length: int, aside: bool
) -> None:
    """A document of some megabytes takes long enough to hold up all other calls."""
    seen: list[bool] = []

    def reading(operation: Operation, answered: Answered) -> Members:
        seen.append(threading.current_thread() is not threading.main_thread())
        return result_of(operation, answered)

    async def script(exchange: Exchange) -> None:
        await exchange.json({"text": "x" * length})

    monkeypatch.setattr("gateway.downstream.openapi.dialect.result_of", reading)
    async with talking(script) as talk:
        assert (await talk.call("get", id="1"))["structuredContent"] == {"text": "x" * length}
    assert seen == [aside]


async def test_the_trace_is_the_gateways_own_however_a_field_is_spelled(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Mapping[str, str]] = []
    send = ApiChannel.send

    async def sending(
        self: ApiChannel, method: str, target: str, headers: Mapping[str, str], body: bytes | None, leaving: Departure
    ) -> aiohttp.ClientResponse:
        sent.append(headers)
        return await send(self, method, target, headers, body, leaving)

    monkeypatch.setattr(ApiChannel, "send", sending)
    monkeypatch.setattr("gateway.downstream.openapi.dialect.header_fields", lambda *_: {"TraceParent": "x", "X-A": "y"})
    async with talking() as talk:
        await talk.call("get", id="1")
    (fields,) = sent
    assert [name for name in fields if name.lower() == "traceparent"] == ["traceparent"]
    assert (fields["traceparent"], fields["X-A"]) == (TRACE["traceparent"], "y")


async def test_a_form_cannot_set_what_the_query_of_the_config_sets() -> None:
    async with talking() as talk:
        outcome = await talk.dialect.call(asking("form", body={"KEY[]": "mine"}), Notebook())
        assert isinstance(outcome, Failure)
        assert "the gateway's own configuration" in outcome.text
        assert talk.http.seen == []


async def test_a_query_in_a_documents_path_is_sent_behind_that_of_the_config_and_no_form_sets_it() -> None:
    async with talking() as talk:
        await talk.call("open", body={"a": 1})
        assert talk.http.seen[-1].target == "/v1/open?key=s3cret&view=all"
        outcome = await talk.dialect.call(asking("open", body={"VIEW": "none"}), Notebook())
        assert isinstance(outcome, Failure)
        assert len(talk.http.seen) == 1


async def test_the_length_in_an_answer_to_head_is_of_no_body() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n")

    async with talking(script) as talk:
        assert "without a body" in (await talk.call("head", id="1"))["content"][0]["text"]


async def test_arguments_that_cannot_be_sent_are_refused_and_nothing_is_sent() -> None:
    async with talking() as talk:
        outcome = await talk.dialect.call(asking("get", id=".."), Notebook())
        assert isinstance(outcome, Failure)
        assert (outcome.reason, outcome.may_have_run) == (Reason.INVALID_ARGUMENTS, False)
        assert outcome.text == (
            'The arguments do not fit server "a": id: it would lead to another path. The call did not run.'
        )
        assert talk.http.seen == []


@pytest.mark.parametrize("asked", [call("none"), call("get", method="prompts/get"), call("get", method="x/y")])
async def test_what_an_api_does_not_have_is_an_error(asked: Call) -> None:
    async with talking() as talk:
        outcome = await talk.dialect.call(asked, Notebook())
        assert isinstance(outcome, Failure)
        assert isinstance(outcome.error, ErrorObject)
        assert talk.http.seen == []


async def test_a_tool_that_is_not_what_was_decided_upon_is_not_called() -> None:
    async with talking() as talk:
        (item, *_) = (await talk.dialect.page(Kind.TOOL, None)).items
        known = Definition.parse(Kind.TOOL, item)
        asked = replace(asking("get", id="1"), definition=replace(known, digest="0" * 64))
        with pytest.raises(DownstreamError) as caught:
            await talk.dialect.call(asked, Notebook())
        assert (caught.value.reason, caught.value.retry_after_ms, caught.value.may_have_run) == (
            Reason.UNAVAILABLE,
            1000,
            False,
        )
        assert (talk.http.seen, talk.changed) == ([], [frozenset({Kind.TOOL})])
        same = await talk.dialect.call(replace(asking("get", id="1"), definition=known), Notebook())
        assert isinstance(same, Complete)


@pytest.mark.parametrize(("name", "ran"), [("get", False), ("head", False), ("delete", True), ("add", True)])
async def test_only_what_changes_something_may_have_run(name: str, ran: bool) -> None:
    """RFC 9110 §9.2.1: calling a safe method again does no harm, whatever became of the first time."""

    async def script(exchange: Exchange) -> None:
        exchange.close()

    async with talking(script) as talk:
        error = await talk.fail(name, id="1")
        assert (error.reason, error.may_have_run) == (Reason.UNAVAILABLE, ran)


@pytest.mark.parametrize(("name", "ran"), [("get", False), ("delete", True)])
async def test_a_call_ends_at_its_deadline_and_its_connection_with_it(name: str, ran: bool) -> None:
    gone = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.until_gone()
        gone.set()

    async with talking(script, timeouts={"call": "100ms"}) as talk:
        error = await talk.fail(name, id="1")
        assert (error.reason, error.may_have_run) == (Reason.TIMEOUT, ran)
        await asyncio.wait_for(gone.wait(), 5)


@pytest.mark.parametrize("begun", [False, True])
async def test_a_cancelled_call_closes_its_connection(begun: bool) -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def script(exchange: Exchange) -> None:
        if begun:
            await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
        arrived.set()
        await exchange.until_gone()
        gone.set()

    async with talking(script) as talk:
        task = asyncio.get_running_loop().create_task(talk.call("get", id="1"))
        await asyncio.wait_for(arrived.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(gone.wait(), 5)


async def test_a_call_nobody_answers_never_ran() -> None:
    async with talking() as talk:
        pass
    with pytest.raises(DownstreamError, match="the connection is closed"):
        await talk.dialect.call(asking("add"), Notebook())


async def test_an_answer_is_bounded_while_it_is_read() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        for _ in range(100):
            await exchange.chunk(b"x" * 1000)
        await exchange.end_stream()

    async with talking(script, max_result=5000) as talk:
        error = await talk.fail("add", name="x")
        assert (error.reason, error.may_have_run) == (Reason.TOO_LARGE, True)
        assert not (await talk.fail("get", id="1")).may_have_run


async def test_an_answer_that_breaks_off_is_no_answer() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
        exchange.close()

    async with talking(script) as talk:
        error = await talk.fail("add", name="x")
        assert (error.reason, error.may_have_run) == (Reason.UNAVAILABLE, True)


async def test_redirects_are_followed_at_the_same_origin_only() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.target.startswith("/v1/"):
            await exchange.answer(307, head={"Location": "/v2/pets"})
        else:
            await fine(exchange)

    async def away(exchange: Exchange) -> None:
        await exchange.answer(307, head={"Location": "http://other.example/"})

    async with talking(script) as talk:
        assert (await talk.call("add", name="x"))["structuredContent"]["target"] == "/v2/pets"
    async with talking(away) as talk:
        error = await talk.fail("add", name="x")
        assert (error.reason, error.may_have_run) == (Reason.PROTOCOL_ERROR, True)
        assert "other.example" not in error.message


async def test_a_list_is_read_from_the_document_as_it_is_now() -> None:
    document = {"openapi": "3.1.0", "paths": PATHS}

    async def script(exchange: Exchange) -> None:
        await exchange.json(document)

    async with serving(script) as http:
        made = Server.model_validate({"openapi": f"http://127.0.0.1:{http.port}/openapi.json"})
        channel = ApiChannel("a", made)
        dialect = await OpenApi.meet(Peer("a", channel, made.timeouts), channel)
        assert len((await dialect.page(Kind.TOOL, None)).items) == 6
        assert len(http.seen) == 1
        document["paths"] = {"/new": {"get": {"operationId": "new"}}}
        assert len((await dialect.page(Kind.TOOL, None)).items) == 1
        document["openapi"] = "2.0"
        with pytest.raises(DownstreamError, match="is no OpenAPI document"):
            await dialect.page(Kind.TOOL, None)
        await channel.aclose()


async def test_nothing_is_said_and_nothing_is_heard() -> None:
    async with talking() as talk:
        talk.dialect.notification("notifications/message", {})
        assert isinstance(talk.dialect.ask("ping", {}), ErrorObject)
        await talk.dialect.listen()
        await talk.dialect.subscribe(frozenset({"a"}))
        await talk.dialect.abandon()
        await talk.dialect.aclose()
        assert talk.http.seen == []


async def test_a_request_is_a_span_below_that_of_its_call() -> None:
    async with serving(fine) as http:
        made = Server.model_validate({"openapi": "api.yaml", "url": f"http://127.0.0.1:{http.port}/v1"})
        channel = ApiChannel("a", made.with_document(source(PATHS)))
        recorder = SpanRecorder()
        peer = Peer("a", channel, made.timeouts, leg=Leg(recorder, "a", made))
        dialect = await OpenApi.meet(peer, channel)
        assert isinstance(await dialect.call(asking("get", id="1"), Notebook()), Complete)
        await channel.aclose()
    span = recorder.only
    assert (span.title, span.error, span.parent) == ("tools/call get", "", TRACE)
    assert (span.facts["network.transport"], span.facts["server.port"]) == ("tcp", http.port)
    assert http.seen[0].headers["traceparent"] == TRACE["traceparent"][:36] + "0000000000000001-01"
