"""The legacy dialect against a scripted server (2025-11-25 basic/lifecycle, basic/transports)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import pytest

from gateway.downstream.handshake import Session, handshake
from gateway.downstream.legacy import Legacy
from gateway.downstream.parking import Asking
from gateway.downstream.transport import Reply
from gateway.errors import DownstreamError, Reason
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, Started
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Object, decode_value
from tests.kit.transport import (
    WAIT,
    Client,
    FakeHttp,
    FakeTransport,
    Heard,
    Script,
    Sent,
    bare,
    call,
    echo,
    failure,
    initialize,
    members,
    never,
    peer,
    reply,
)

ALL = frozenset(Kind)


async def legacy(transport: FakeTransport, heard: Heard | None = None, **config: object) -> Legacy:
    made = peer(transport, heard, **config)
    dialect = Legacy(made, await handshake(made, 5))
    transport.inbox = Inbox(dialect)
    return dialect


class Inbox:
    """Hands what a transport says straight to a dialect."""

    def __init__(self, dialect: Legacy) -> None:
        self.notification = dialect.notification
        self.ask = dialect.ask

    def violation(self, kind: str, detail: str) -> None:
        raise AssertionError(kind)

    def closed(self, reason: str) -> None:
        raise AssertionError(reason)


class SessionServer:
    """A legacy HTTP server whose sessions can be ended by the test; it knows only the newest one."""

    def __init__(self, refusal: Reply | None = None) -> None:
        self.refusal = refusal or bare(404)
        self.started = 0
        self.seen: list[str | None] = []
        self.transport = FakeHttp({"initialize": self.initialize, "tools/call": self.serve, "tools/list": self.serve})

    def initialize(self, sent: Sent) -> Reply:
        assert sent.request.headers == {}
        self.started += 1
        answer = initialize(sent)
        return Reply(answer.result, None, 200, {"mcp-session-id": f"s{self.started}"})

    def serve(self, sent: Sent) -> Reply:
        session = sent.request.headers.get("Mcp-Session-Id")
        self.seen.append(session)
        return reply(200, content=[], tools=[]) if session == self.session else self.refusal

    @property
    def session(self) -> str:
        return f"s{self.started}"

    def expire(self) -> None:
        self.started += 1


async def test_a_result_is_completed_and_keeps_everything_else() -> None:
    dialect = await legacy(FakeTransport({"initialize": initialize, "tools/call": echo}))
    outcome = await dialect.call(call(params={"name": "t", "arguments": {"x": 1}}), Exchange())
    assert isinstance(outcome, Complete)
    assert {key: decode_value(item) for key, item in outcome.result.items()} == {
        "resultType": "complete",
        "content": [],
        "structuredContent": {"x": 1},
    }


async def test_a_legacy_server_gets_no_modern_members_and_no_empty_meta() -> None:
    transport = FakeTransport({"initialize": initialize, "tools/call": echo})
    dialect = await legacy(transport)
    await dialect.call(call(params={"name": "t", "inputResponses": {}, "requestState": "s"}), Exchange())
    assert transport.of("tools/call")[0].params == {"name": "t"}
    await dialect.call(call(meta={"com.example/x": 1}), Exchange())
    assert transport.of("tools/call")[1].meta == {"com.example/x": 1}


async def test_a_task_that_was_asked_for_is_started() -> None:
    dialect = await legacy(
        FakeTransport(
            {"initialize": initialize, "tools/call": lambda sent: reply(task={"taskId": "t", "status": "working"})}
        )
    )
    assert isinstance(await dialect.call(call(params={"name": "t", "task": {}}), Exchange()), Started)
    assert isinstance(await dialect.call(call(), Exchange()), Complete)


async def test_a_servers_own_error_passes_unchanged() -> None:
    dialect = await legacy(FakeTransport({"initialize": initialize, "tools/call": lambda sent: failure(-32002, "?")}))
    outcome = await dialect.call(call(), Exchange())
    assert isinstance(outcome, Failure)
    assert outcome.error == ErrorObject(-32002, "?")


@pytest.mark.parametrize("answer", [bare(500), bare(401), failure(-32000, "no", status=403)])
async def test_a_status_without_an_answer_is_no_outcome(answer: Reply) -> None:
    dialect = await legacy(FakeHttp({"initialize": initialize, "tools/call": lambda sent: answer}))
    with pytest.raises(DownstreamError) as caught:
        await dialect.call(call(), Exchange())
    assert caught.value.reason is Reason.UNAVAILABLE


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_cancelling_is_a_notification_in_both_bindings(kind: str) -> None:
    """G047, G048: with our own id; over HTTP a closed stream means nothing in this era."""
    script: Script = {"initialize": initialize, "tools/call": never}
    transport = FakeHttp(script) if kind == "http" else FakeTransport(script)
    dialect = await legacy(transport)
    task = asyncio.get_running_loop().create_task(dialect.call(call(rpc_id=101), Exchange()))
    sent = await transport.reached("tools/call")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert transport.cancelled == [("notifications/cancelled", {"requestId": sent.id})]


async def test_progress_comes_back_under_the_clients_token() -> None:
    def work(sent: Sent) -> Reply:
        sent.transport.say("notifications/progress", progressToken=sent.meta["progressToken"], progress=1)
        return reply(content=[])

    client = Client()
    dialect = await legacy(FakeTransport({"initialize": initialize, "tools/call": work}))
    await dialect.call(call(progress_token=7), client.exchange())
    assert client.heard == [("notifications/progress", {"progressToken": 7, "progress": 1})]


@pytest.mark.parametrize("method", ["roots/list", "sampling/createMessage", "elicitation/create", "tools/call"])
async def test_requests_of_the_server_are_declined_at_once(method: str) -> None:
    """S96, S97: nothing was declared, so nothing may be asked."""
    heard = Heard()
    dialect = await legacy(FakeTransport({"initialize": initialize}), heard)
    answer = dialect.ask(method, {})
    assert isinstance(answer, ErrorObject)
    assert answer.code == -32601
    assert heard.violations == ["unexpected_request"]


@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/elicitation/complete"])
@pytest.mark.parametrize(("declares", "expected"), [({}, ["unexpected_notification"]), ({"elicitation": {}}, [])])
async def test_what_a_server_says_of_its_questions_is_no_violation_where_it_may_ask(
    method: str, declares: Object, expected: list[str]
) -> None:
    heard, transport = Heard(), FakeTransport({"initialize": initialize})
    made = peer(transport, heard)
    dialect = Legacy(made, await handshake(made, 5, declares), Asking(declares))
    dialect.notification(method, members(requestId="q-1"))
    assert heard.violations == expected


async def test_a_ping_is_answered() -> None:
    assert (await legacy(FakeTransport({"initialize": initialize}))).ask("ping", {}) == {}


async def test_changes_and_updates_are_handed_up_wherever_they_come_from() -> None:
    heard = Heard()

    def work(sent: Sent) -> Reply:
        sent.notify("notifications/prompts/list_changed")
        return reply(content=[])

    dialect = await legacy(FakeHttp({"initialize": initialize, "tools/call": work}), heard)
    dialect.notification("notifications/tools/list_changed", {})
    dialect.notification("notifications/resources/updated", members(uri="file:///x"))
    dialect.notification("notifications/resources/updated", {})
    dialect.notification("notifications/strange", {})
    await dialect.call(call(), Exchange())
    assert heard.changed == [frozenset({Kind.TOOL}), frozenset({Kind.PROMPT})]
    assert heard.updated == ["file:///x"]
    assert heard.violations == ["unexpected_notification"] * 2


async def test_sessions_travel_in_headers_after_the_handshake() -> None:
    server = SessionServer()
    dialect = await legacy(server.transport)
    await dialect.call(call(), Exchange())
    expected = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "s1"}
    assert server.transport.notices[0].headers == expected
    assert server.transport.of("tools/call")[0].request.headers == expected


@pytest.mark.parametrize("refusal", [bare(404), failure(-32001, "Session not found", status=404)])
async def test_an_ended_session_is_replaced_and_the_call_sent_once_more(refusal: Reply) -> None:
    """G031: no id of the old session is used again."""
    server, heard = SessionServer(refusal), Heard()
    dialect = await legacy(server.transport, heard)
    server.expire()
    assert isinstance(await dialect.call(call(), Exchange()), Complete)
    assert server.seen == ["s1", "s3"]
    assert heard.changed == [ALL]


async def test_a_bad_request_about_the_session_counts_as_its_end() -> None:
    """G033."""
    server = SessionServer(failure(-32000, "Bad Request: No valid session ID provided", status=400))
    dialect = await legacy(server.transport)
    server.expire()
    assert isinstance(await dialect.call(call(), Exchange()), Complete)


async def test_another_bad_request_is_the_servers_answer() -> None:
    server = SessionServer(failure(-32602, "bad arguments", status=400))
    dialect = await legacy(server.transport)
    server.expire()
    outcome = await dialect.call(call(), Exchange())
    assert isinstance(outcome, Failure)
    assert outcome.error is not None
    assert server.seen == ["s1"]


async def test_all_who_wait_share_one_new_session() -> None:
    """G031: concurrent callers share one re-initialisation."""
    server = SessionServer()
    dialect = await legacy(server.transport)
    server.expire()
    outcomes = await asyncio.gather(*(dialect.call(call(), Exchange()) for _ in range(50)))
    assert all(isinstance(outcome, Complete) for outcome in outcomes)
    assert len(server.transport.of("initialize")) == 2
    assert server.seen.count("s1") == 50
    assert server.seen.count("s3") == 50


async def test_a_session_that_ends_at_once_again_is_not_replaced_for_ever() -> None:
    server = SessionServer()
    dialect = await legacy(server.transport)
    server.transport.script["tools/call"] = lambda sent: bare(404)
    with pytest.raises(DownstreamError, match="HTTP status 404") as caught:
        await dialect.call(call(), Exchange())
    assert not caught.value.may_have_run
    assert len(server.transport.of("tools/call")) == 2


async def test_a_server_that_gives_no_new_session_fails_all_who_wait_once() -> None:
    server = SessionServer()
    dialect = await legacy(server.transport)
    server.expire()
    server.transport.script["initialize"] = lambda sent: bare(503)
    outcomes = await asyncio.gather(*(dialect.call(call(), Exchange()) for _ in range(20)), return_exceptions=True)
    assert all(isinstance(outcome, DownstreamError) for outcome in outcomes)
    assert len(server.transport.of("initialize")) == 2


async def test_a_cancelled_caller_does_not_take_the_new_session_from_others() -> None:
    server, gate = SessionServer(), asyncio.Event()
    dialect = await legacy(server.transport)
    server.expire()

    async def slow(sent: Sent) -> Reply:
        await gate.wait()
        return server.initialize(sent)

    server.transport.script["initialize"] = slow
    loop = asyncio.get_running_loop()
    first, second = (loop.create_task(dialect.call(call(), Exchange())) for _ in range(2))
    await server.transport.reached("initialize", 2)
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    gate.set()
    assert isinstance(await second, Complete)


async def test_without_a_session_a_404_is_an_answer() -> None:
    transport = FakeHttp({"initialize": initialize, "tools/call": lambda sent: bare(404)})
    dialect = await legacy(transport)
    with pytest.raises(DownstreamError):
        await dialect.call(call(), Exchange())
    assert transport.methods() == ["initialize", "tools/call"]


async def test_closing_deletes_the_session() -> None:
    server = SessionServer()
    dialect = await legacy(server.transport)
    await dialect.aclose()
    assert server.transport.deleted == [{"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "s1"}]


async def test_closing_says_nothing_where_there_is_no_session_or_nobody_to_hear() -> None:
    stateless = FakeHttp({"initialize": initialize})
    await (await legacy(stateless)).aclose()
    assert stateless.deleted == []
    server = SessionServer()
    await (await legacy(server.transport)).abandon()
    assert server.transport.deleted == []


async def test_closing_survives_a_server_that_is_gone() -> None:
    server = SessionServer()
    dialect = await legacy(server.transport)

    async def gone(headers: Mapping[str, str]) -> int:
        raise DownstreamError(Reason.UNAVAILABLE, "refused")

    server.transport.end_session = gone  # type: ignore[method-assign]  # reason: a server that is gone.
    await dialect.aclose()


async def test_the_log_level_is_raised_when_a_call_asks_and_never_lowered() -> None:
    transport = FakeTransport({"initialize": initialize, "tools/call": echo, "logging/setLevel": lambda sent: reply()})
    dialect = await legacy(transport)
    for level in (None, "warning", "error", "debug", "debug"):
        await dialect.call(call(log_level=level), Exchange())
    assert [sent.params["level"] for sent in transport.of("logging/setLevel")] == ["warning", "debug"]


async def test_a_call_outlives_a_log_level_that_cannot_be_set() -> None:
    async def broken(sent: Sent) -> Reply:
        raise DownstreamError(Reason.UNAVAILABLE, "lost")

    transport = FakeTransport({"initialize": initialize, "tools/call": echo, "logging/setLevel": broken})
    dialect = await legacy(transport)
    assert isinstance(await dialect.call(call(log_level="info"), Exchange()), Complete)


async def test_a_server_without_logging_is_not_asked_to_log() -> None:
    transport = FakeTransport(
        {"initialize": lambda sent: reply(protocolVersion="2025-11-25", capabilities={}), "tools/call": echo}
    )
    dialect = await legacy(transport)
    await dialect.call(call(log_level="debug"), Exchange())
    assert transport.methods() == ["initialize", "tools/call"]


async def test_pages_come_with_their_cursor_and_renew_the_session_too() -> None:
    server = SessionServer()
    dialect = await legacy(server.transport)
    server.expire()
    page = await dialect.page(Kind.TOOL, "c")
    assert (page.items, page.ttl_ms) == ([], None)
    assert server.transport.of("tools/list")[1].params == {"cursor": "c"}
    await dialect.page(Kind.TOOL, None)
    assert server.transport.of("tools/list")[2].request.params is None


async def test_a_list_that_the_server_does_not_offer_is_empty() -> None:
    transport = FakeTransport({"initialize": lambda sent: reply(protocolVersion="2025-11-25", capabilities={})})
    assert (await (await legacy(transport)).page(Kind.PROMPT, None)).items == []
    assert transport.methods() == ["initialize"]


async def test_subscriptions_follow_the_wish_and_survive_a_new_session() -> None:
    server = SessionServer()
    done: Script = {method: lambda sent: reply() for method in ("resources/subscribe", "resources/unsubscribe")}
    server.transport.script.update(done)
    dialect = await legacy(server.transport)
    await dialect.subscribe(frozenset({"file:///b", "file:///a"}))
    await dialect.subscribe(frozenset({"file:///a"}))
    server.expire()
    await dialect.call(call(), Exchange())
    await server.transport.reached("resources/subscribe", 3)
    told: list[tuple[str, object]] = [
        (sent.request.method, sent.params["uri"])
        for sent in server.transport.sent
        if sent.request.method.startswith("resources/")
    ]
    assert told == [
        ("resources/subscribe", "file:///a"),
        ("resources/subscribe", "file:///b"),
        ("resources/unsubscribe", "file:///b"),
        ("resources/subscribe", "file:///a"),
    ]
    await dialect.aclose()


async def test_a_server_that_refuses_subscriptions_is_left_alone() -> None:
    async def lost(sent: Sent) -> Reply:
        raise DownstreamError(Reason.UNAVAILABLE, "lost")

    dialect = await legacy(FakeTransport({"initialize": initialize, "resources/unsubscribe": lost}))
    await dialect.subscribe(frozenset({"file:///a"}))
    await dialect.subscribe(frozenset())
    bare_server = FakeTransport({"initialize": lambda sent: reply(protocolVersion="2025-11-25", capabilities={})})
    other = await legacy(bare_server)
    await other.subscribe(frozenset({"file:///a"}))
    assert bare_server.methods() == ["initialize"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the failures that back-off is asked about, and wait for none of them."""
    asked: list[int] = []

    def delay(failures: int, first: float = 1.0) -> float:
        asked.append(failures)
        return 0.0

    monkeypatch.setattr("gateway.downstream.legacy.backoff.delay", delay)
    return asked


async def test_on_stdio_there_is_nothing_to_listen_to() -> None:
    dialect = await legacy(FakeTransport({"initialize": initialize}))
    await asyncio.wait_for(dialect.listen(), WAIT)


@pytest.mark.parametrize("status", [405, 404, 400])
async def test_a_server_without_a_stream_is_asked_once(status: int, quick: list[int]) -> None:
    """G024: 405 means that there is no stream here, and nothing changed."""
    heard = Heard()

    async def none(headers: Mapping[str, str]) -> int:
        return status

    transport = FakeHttp({"initialize": initialize}, none)
    dialect = await legacy(transport, heard)
    await asyncio.wait_for(dialect.listen(), WAIT)
    assert len(transport.streams) == 1
    assert quick == []
    assert heard.changed == []


async def test_a_stream_that_ends_is_asked_for_again_and_a_broken_one_counts_as_a_change(quick: list[int]) -> None:
    heard, steps = Heard(), iter([200, 503, None, 200, 405])

    async def stream(headers: Mapping[str, str]) -> int:
        status = next(steps)
        if status is None:
            raise DownstreamError(Reason.UNAVAILABLE, "broke")
        return status

    script: Script = {"initialize": initialize, "resources/subscribe": lambda sent: reply()}
    dialect = await legacy(FakeHttp(script, stream), heard)
    await dialect.subscribe(frozenset({"file:///a"}))
    await asyncio.wait_for(dialect.listen(), WAIT)
    # Clean ends lose nothing; the fake agrees to every stream, so each gap is seen once.
    assert (heard.changed, heard.updated) == ([ALL, ALL], ["file:///a"] * 2)
    assert quick == [1, 2, 3, 4]


async def test_a_stream_whose_session_ended_moves_to_the_new_one(quick: list[int]) -> None:
    server = SessionServer()
    steps = iter([404, 405])

    async def stream(headers: Mapping[str, str]) -> int:
        return next(steps)

    server.transport._stream = stream
    dialect = await legacy(server.transport)
    await asyncio.wait_for(dialect.listen(), WAIT)
    assert [headers["Mcp-Session-Id"] for headers in server.transport.streams] == ["s1", "s2"]


async def test_a_session_without_an_id_names_only_the_version() -> None:
    dialect = await legacy(FakeHttp({"initialize": initialize}))
    expected: Object = {"MCP-Protocol-Version": "2025-11-25"}
    assert Session("", dialect.hello).headers() == expected
