"""The modern dialect against a scripted server."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.downstream.dialect import Hello, Peer, VersionRefused
from gateway.downstream.modern import HEADERS_REFUSED, Modern, cancellation, discovery, read_discovery
from gateway.downstream.transport import Reply
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Beyond, Call, Caller, Target
from gateway.model.catalog import Definition, Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Started
from gateway.protocol.rawjson import Object, Value, decode_value, encode
from gateway.protocol.versions import Era
from tests.kit.transport import (
    CAPABILITIES,
    Client,
    FakeHttp,
    FakeTransport,
    Heard,
    Script,
    Sent,
    bare,
    call,
    discover,
    failure,
    members,
    never,
    peer,
    reply,
)

HELLO = Hello(Era.MODERN, "2026-07-28", {}, CAPABILITIES)
ELICIT: Object = {"method": "elicitation/create", "params": {"message": "?"}}
TASKS = "io.modelcontextprotocol/tasks"
CAPABLE: Object = {"extensions": {TASKS: {}}}
TASKING = Caller(Era.MODERN, "2026-07-28", capabilities=CAPABLE)


def modern(script: Script, kind: str = "stdio", hello: Hello = HELLO, **config: object) -> tuple[Modern, FakeTransport]:
    transport = FakeHttp(script) if kind == "http" else FakeTransport(script)
    return Modern(peer(transport, None, **config), hello), transport


async def test_a_result_comes_back_whole_with_its_type() -> None:
    dialect, transport = modern({"tools/call": lambda sent: reply(content=[], _meta={"x": 1}, extra=2)})
    outcome = await dialect.call(call(), Exchange())
    assert isinstance(outcome, Complete)
    assert {key: decode_value(item) for key, item in outcome.result.items()} == {
        "resultType": "complete",
        "content": [],
        "_meta": {"x": 1},
        "extra": 2,
    }
    assert transport.sent[0].params["name"] == "echo"
    assert transport.sent[0].request.headers == {}


async def test_over_http_headers_mirror_the_rewritten_body() -> None:
    definition = Definition.parse(
        Kind.TOOL, encode({"name": "t", "inputSchema": {"properties": {"r": {"type": "string", "x-mcp-header": "R"}}}})
    )
    dialect, transport = modern({"tools/call": lambda sent: reply(content=[])}, kind="http")
    made = call(params={"name": "own", "arguments": {"r": "eu"}}, definition=definition, exposed="a__own")
    await dialect.call(made, Exchange())
    assert transport.sent[0].request.headers == {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "own",
        "Mcp-Param-R": "eu",
    }


async def test_the_exchange_knows_that_the_call_has_left() -> None:
    dialect, _ = modern({"tools/call": lambda sent: reply(content=[])})
    exchange = Exchange()
    await dialect.call(call(), exchange)
    assert exchange.dispatched


async def test_progress_on_stdio_comes_back_under_the_clients_token() -> None:
    def work(sent: Sent) -> Reply:
        sent.transport.say("notifications/progress", progressToken=sent.meta["progressToken"], progress=1)
        return reply(content=[])

    dialect, transport = modern({"tools/call": work})
    transport.inbox = Inbox(dialect)
    client = Client()
    await dialect.call(call(progress_token="mine"), client.exchange())
    assert client.heard == [("notifications/progress", {"progressToken": "mine", "progress": 1})]


class Inbox:
    """Hands what a transport says straight to a dialect."""

    def __init__(self, dialect: Modern) -> None:
        self.notification = dialect.notification
        self.ask = dialect.ask

    def violation(self, kind: str, detail: str) -> None:
        raise AssertionError(kind)

    def closed(self, reason: str) -> None:
        raise AssertionError(reason)


async def test_log_messages_on_a_calls_own_stream_are_its_own() -> None:
    def work(sent: Sent) -> Reply:
        assert sent.meta["io.modelcontextprotocol/logLevel"] == "warning"
        sent.notify("notifications/message", level="error", data="x")
        sent.notify("notifications/message", level="info", data="y")
        return reply(content=[])

    dialect, _ = modern({"tools/call": work}, kind="http")
    client = Client()
    await dialect.call(call(log_level="warning"), client.exchange())
    assert client.heard == [("notifications/message", {"level": "error", "data": "x"})]


async def test_other_notifications_on_a_calls_stream_are_counted_and_dropped() -> None:
    def work(sent: Sent) -> Reply:
        sent.notify("notifications/tools/list_changed")
        return reply(content=[])

    heard = Heard()
    await Modern(peer(FakeHttp({"tools/call": work}), heard), HELLO).call(call(), Exchange())
    assert heard.violations == ["unexpected_notification"]
    assert heard.changed == []


@pytest.mark.parametrize(("kind", "said"), [("stdio", [("notifications/cancelled", {"requestId": 1})]), ("http", [])])
async def test_cancelling_is_a_notification_on_stdio_and_a_closed_stream_over_http(
    kind: str, said: list[tuple[str, Object]]
) -> None:
    dialect, transport = modern({"tools/call": never}, kind)
    task = asyncio.get_running_loop().create_task(dialect.call(call(), Exchange()))
    await transport.reached("tools/call")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert transport.cancelled == said


async def test_a_timeout_cancels_and_says_that_the_call_may_have_run() -> None:
    dialect, transport = modern({"tools/call": never}, timeouts={"call": "50ms"})
    with pytest.raises(DownstreamError) as caught:
        await dialect.call(call(), Exchange())
    assert (caught.value.reason, caught.value.may_have_run) == (Reason.TIMEOUT, True)
    assert transport.cancelled == [("notifications/cancelled", {"requestId": 1})]


async def test_a_servers_own_error_passes_unchanged() -> None:
    dialect, _ = modern({"tools/call": lambda sent: failure(-32099, "odd", {"a": [1]})})
    outcome = await dialect.call(call(), Exchange())
    assert isinstance(outcome, Failure)
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == (-32099, "odd")
    assert outcome.error.data is not None
    assert decode_value(outcome.error.data) == {"a": [1]}


async def test_refused_headers_concern_our_hop() -> None:
    dialect, transport = modern({"tools/call": lambda sent: failure(-32020)}, kind="http")
    outcome = await dialect.call(call(), Exchange())
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.detail, outcome.may_have_run) == (Reason.PROTOCOL_ERROR, HEADERS_REFUSED, False)
    assert outcome.error is None
    assert len(transport.of("tools/call")) == 1


async def test_refused_headers_are_retried_once_with_the_definition_of_now() -> None:
    """What is mirrored may have changed since the definition was read; nothing ran."""
    stale = Definition.parse(Kind.TOOL, encode({"name": "echo", "inputSchema": {"type": "object"}}))
    schema: Value = {"type": "object", "properties": {"r": {"type": "string", "x-mcp-header": "R"}}}

    def answer(sent: Sent) -> Reply:
        return reply(content=[]) if "Mcp-Param-R" in sent.request.headers else failure(-32020)

    def listed(sent: Sent) -> Reply:
        if "cursor" not in sent.params:
            return reply(tools=[{"name": "other", "inputSchema": {}}], nextCursor="2")
        return reply(tools=[{"name": "echo", "inputSchema": schema}])

    dialect, transport = modern({"tools/call": answer, "tools/list": listed}, kind="http")
    made = call(params={"name": "echo", "arguments": {"r": "eu"}}, definition=stale)
    assert isinstance(await dialect.call(made, Exchange()), Complete)
    assert [sent.request.method for sent in transport.sent] == ["tools/call", "tools/list", "tools/list", "tools/call"]

    dialect, transport = modern({"tools/call": lambda sent: failure(-32020), "tools/list": listed}, kind="http")
    outcome = await dialect.call(made, Exchange())
    assert isinstance(outcome, Failure)
    assert outcome.detail == HEADERS_REFUSED
    assert len(transport.of("tools/call")) == 2


async def test_refused_metadata_concerns_our_hop() -> None:
    dialect, _ = modern({"tools/call": lambda sent: failure(-32602, "bad io.modelcontextprotocol/clientInfo")})
    outcome = await dialect.call(call(), Exchange())
    assert isinstance(outcome, Failure)
    assert outcome.error is None
    assert outcome.reason is Reason.PROTOCOL_ERROR


async def test_a_version_error_is_retried_once_with_a_supported_version() -> None:
    answers = iter([failure(-32022, data={"supported": ["2026-07-28"]}), reply(content=[])])
    dialect, transport = modern({"tools/call": lambda sent: next(answers)})
    assert isinstance(await dialect.call(call(), Exchange()), Complete)
    assert len(transport.sent) == 2


@pytest.mark.parametrize("supported", [["2026-07-28"], ["2025-11-25"], [], None, "2026-07-28"])
async def test_a_version_error_without_a_way_out_ends_the_conversation(supported: list[str] | str | None) -> None:
    data: Object = {"supported": [*supported] if isinstance(supported, list) else supported}
    dialect, transport = modern({"tools/call": lambda sent: failure(-32022, data=data)})
    with pytest.raises(VersionRefused):
        await dialect.call(call(), Exchange())
    assert len(transport.sent) <= 2


async def test_an_unknown_result_type_is_a_protocol_error() -> None:
    dialect, _ = modern({"tools/call": lambda sent: reply(resultType="maybe")})
    with pytest.raises(DownstreamError, match="unknown type") as caught:
        await dialect.call(call(), Exchange())
    assert (caught.value.reason, caught.value.may_have_run) == (Reason.PROTOCOL_ERROR, True)


async def test_a_task_handle_is_started() -> None:
    handle = members(resultType="task", taskId="t", status="working")
    dialect, transport = modern({"tools/call": lambda sent: Reply(handle)})
    assert isinstance(await dialect.call(call(caller=TASKING), Exchange()), Started)
    assert transport.sent[0].meta["io.modelcontextprotocol/clientCapabilities"] == {"extensions": {TASKS: {}}}


@pytest.mark.parametrize(
    ("caller", "method", "handle"),
    [
        (Caller(Era.MODERN, "2026-07-28"), "tools/call", {"taskId": "t", "status": "working"}),
        (Caller(Era.LEGACY, "2025-11-25", capabilities=CAPABLE), "tools/call", {"taskId": "t", "status": "working"}),
        (Caller(Era.MODERN, "2026-07-28", capabilities=CAPABLE), "prompts/get", {"taskId": "t", "status": "working"}),
        (Caller(Era.MODERN, "2026-07-28", capabilities=CAPABLE), "tools/call", {"taskId": "t"}),
    ],
)
async def test_a_task_that_nobody_asked_for_or_can_use_is_no_outcome(
    caller: Caller, method: str, handle: Object
) -> None:
    """Tasks extension §Capability Negotiation: an answer like that is an invalid one."""
    dialect, _ = modern({method: lambda sent: Reply(members(resultType="task", **handle))})
    with pytest.raises(DownstreamError, match="started a task") as caught:
        await dialect.call(call(method=method, caller=caller), Exchange())
    assert (caught.value.reason, caught.value.may_have_run) == (Reason.PROTOCOL_ERROR, True)


async def test_a_look_that_calls_itself_a_task_is_an_answer_all_the_same() -> None:
    """Examples of the Tasks extension (§Task Execution Errors) have that type, its rules another one."""
    dialect, made = look({"resultType": "task", "taskId": "t", "status": "failed", "error": {"code": 1}})
    outcome = await dialect.call(made, Exchange())
    assert isinstance(outcome, Complete)
    assert decode_value(outcome.result["resultType"]) == "complete"


def look(state: Object, **capabilities: Object) -> tuple[Modern, Call]:
    dialect, _ = modern({"tasks/get": lambda sent: Reply(members(**state))}, asks=["elicitation"])
    caller = replace(TASKING, capabilities={**CAPABLE, **capabilities})
    return dialect, call(method="tasks/get", params={"taskId": "t"}, caller=caller)


async def test_a_tasks_questions_are_judged_like_those_of_a_call() -> None:
    """S97."""
    asked: Object = {"taskId": "t", "status": "input_required", "inputRequests": {"k": ELICIT}}
    dialect, made = look(asked, elicitation={})
    assert isinstance(await dialect.call(made, Exchange()), Complete)
    dialect, made = look(asked)
    with pytest.raises(DownstreamError, match="asked for input where it must not"):
        await dialect.call(made, Exchange())
    dialect, made = look({**asked, "inputRequests": {"k": {"method": "sampling/createMessage"}}}, sampling={})
    outcome = await dialect.call(made, Exchange())
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.detail) == (Reason.DENIED, "asks")
    odd: list[tuple[Object, str]] = [({"taskId": "t"}, "no task"), ({**asked, "inputRequests": 1}, "must not")]
    for broken, text in odd:
        dialect, made = look(broken)
        with pytest.raises(DownstreamError, match=text):
            await dialect.call(made, Exchange())


@pytest.mark.parametrize("status", [401, 403, 429])
async def test_a_status_about_the_gateway_beats_the_message_with_it(status: int) -> None:
    dialect, _ = modern({"tools/call": lambda sent: replace(failure(-32000, "no"), status=status)}, kind="http")
    with pytest.raises(DownstreamError) as caught:
        await dialect.call(call(), Exchange())
    assert caught.value.reason is Reason.UNAVAILABLE


async def test_a_status_without_a_message_is_no_outcome() -> None:
    dialect, _ = modern({"tools/call": lambda sent: bare(502)}, kind="http")
    with pytest.raises(DownstreamError, match="HTTP status 502"):
        await dialect.call(call(), Exchange())


def asking(**capabilities: object) -> Caller:
    return Caller(Era.MODERN, "2026-07-28", capabilities={name: {} for name in capabilities})


async def test_a_server_may_ask_for_what_was_declared_to_it() -> None:
    result = reply(resultType="input_required", inputRequests={"k": ELICIT}, requestState="s")
    dialect, transport = modern({"tools/call": lambda sent: result}, asks=["elicitation"])
    outcome = await dialect.call(call(caller=asking(elicitation=1)), Exchange())
    assert isinstance(outcome, InputRequired)
    assert outcome.state == "s"
    assert {key: decode_value(item) for key, item in outcome.requests.items()} == {"k": ELICIT}
    assert transport.sent[0].meta["io.modelcontextprotocol/clientCapabilities"] == {"elicitation": {}}


async def test_answers_and_state_go_to_the_server_as_it_gave_them() -> None:
    """G137."""
    dialect, transport = modern({"tools/call": lambda sent: reply(content=[])})
    made = call(input_responses={"k": {"action": "accept"}}, request_state="s")
    assert isinstance(await dialect.call(made, Exchange()), Complete)
    assert transport.sent[0].params is not None
    assert transport.sent[0].params["inputResponses"] == {"k": {"action": "accept"}}
    assert transport.sent[0].params["requestState"] == "s"


async def test_a_state_alone_is_enough() -> None:
    dialect, _ = modern({"tools/call": lambda sent: reply(resultType="input_required", requestState="s")})
    assert await dialect.call(call(), Exchange()) == InputRequired({}, "s")


async def test_asking_for_what_the_configuration_withholds_is_denied_and_says_so() -> None:
    dialect, _ = modern({"tools/call": lambda sent: reply(resultType="input_required", inputRequests={"k": ELICIT})})
    outcome = await dialect.call(call(caller=asking(elicitation=1)), Exchange())
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.may_have_run) == (Reason.DENIED, True)
    assert "elicitation" in outcome.text


@pytest.mark.parametrize(
    "result",
    [
        reply(resultType="input_required", inputRequests={"k": ELICIT}),
        reply(resultType="input_required", inputRequests={"k": {"method": "tools/call"}}),
        reply(resultType="input_required", inputRequests={"k": 7}),
        reply(resultType="input_required", inputRequests=[]),
        reply(resultType="input_required"),
    ],
)
async def test_asking_beyond_what_was_declared_is_a_protocol_error(result: Reply) -> None:
    """S97: nothing reaches a client that did not declare the capability."""
    dialect, _ = modern({"tools/call": lambda sent: result}, asks=["elicitation"])
    with pytest.raises(DownstreamError) as caught:
        await dialect.call(call(), Exchange())
    assert caught.value.reason is Reason.PROTOCOL_ERROR


async def test_a_method_without_asks_cannot_ask() -> None:
    dialect, _ = modern({"completion/complete": lambda sent: reply(resultType="input_required", requestState="s")})
    with pytest.raises(DownstreamError):
        await dialect.call(call(method="completion/complete", params={"ref": {}}), Exchange())


@pytest.mark.parametrize("required", [{"sampling": {}}, ["sampling"]])
async def test_a_capability_that_only_the_configuration_withholds_is_denied(required: Object | list[str]) -> None:
    data: Object = {"requiredCapabilities": dict(required) if isinstance(required, dict) else [*required]}
    dialect, _ = modern({"tools/call": lambda sent: failure(-32021, data=data)})
    outcome = await dialect.call(call(caller=asking(sampling=1)), Exchange())
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.may_have_run, outcome.error) == (Reason.DENIED, False, None)


@pytest.mark.parametrize("data", [{"requiredCapabilities": {"sampling": {}}}, {"requiredCapabilities": 7}, None])
async def test_a_capability_that_the_client_lacks_is_the_servers_answer(data: Object | None) -> None:
    dialect, _ = modern({"tools/call": lambda sent: failure(-32021, data=data)})
    outcome = await dialect.call(call(), Exchange())
    assert isinstance(outcome, Failure)
    assert outcome.error is not None


async def test_pages_carry_the_cursor_and_our_own_meta() -> None:
    dialect, transport = modern(
        {"tools/list": lambda sent: reply(tools=[{"name": "t"}], nextCursor="n", ttlMs=9, cacheScope="public")},
        kind="http",
    )
    page = await dialect.page(Kind.TOOL, "")
    assert (len(page.items), page.next_cursor, page.ttl_ms, page.public) == (1, "n", 9, True)
    assert transport.sent[0].params["cursor"] == ""
    apps = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
    assert transport.sent[0].meta["io.modelcontextprotocol/clientCapabilities"] == {"extensions": apps}
    assert transport.sent[0].request.headers == {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
    await dialect.page(Kind.TOOL, None)
    assert "cursor" not in transport.sent[1].params


async def test_a_list_that_the_server_does_not_offer_is_empty_and_not_asked_for() -> None:
    dialect, transport = modern({}, hello=Hello(Era.MODERN, "2026-07-28"))
    assert [(await dialect.page(kind, None)).items for kind in Kind] == [[], [], [], []]
    assert transport.sent == []


async def test_a_server_without_templates_has_none() -> None:
    dialect, _ = modern({})
    assert (await dialect.page(Kind.TEMPLATE, None)).items == []
    with pytest.raises(DownstreamError, match="resources/list with error -32601"):
        await dialect.page(Kind.RESOURCE, None)


@pytest.mark.parametrize("answer", [reply(tools={}), reply(), bare(500), bare(401)])
async def test_an_unusable_list_is_an_error(answer: Reply) -> None:
    dialect, _ = modern({"tools/list": lambda sent: answer}, kind="http")
    with pytest.raises(DownstreamError):
        await dialect.page(Kind.TOOL, None)


async def test_a_request_of_a_modern_server_is_counted_and_never_answered() -> None:
    """G139; basic/patterns §Overview: clients do not send JSON-RPC responses."""
    heard = Heard()
    assert Modern(peer(FakeTransport({}), heard), HELLO).ask("roots/list", {}).cancelled()
    assert heard.violations == ["unexpected_request"]


async def test_changes_are_heard_on_a_listen_stream_and_the_dialect_closes_without_a_word() -> None:
    heard = Heard()
    transport = FakeTransport({"subscriptions/listen": never})
    dialect = Modern(peer(transport, heard), HELLO)
    task = asyncio.get_running_loop().create_task(dialect.listen())
    await dialect.subscribe(frozenset({"file:///x"}))
    await transport.reached("subscriptions/listen")
    dialect.notification("notifications/tools/list_changed", members())
    assert heard.changed == [frozenset({Kind.TOOL})]
    await dialect.aclose()
    await dialect.abandon()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert dialect.hello is HELLO


def test_discovery_asks_with_headers_only_over_http() -> None:
    assert discovery(5, peer(FakeTransport({}))).headers == {}
    assert discovery(5, peer(FakeHttp({}))).headers["Mcp-Method"] == "server/discover"


def test_a_discovery_is_read_with_its_versions() -> None:
    result = discover(Sent(1, discovery(1, peer(FakeTransport({}))), FakeTransport({}))).result
    assert result is not None
    found = read_discovery(result)
    assert found is not None
    assert found[1] == ("2026-07-28",)
    assert (found[0].product, found[0].instructions) == ("scripted/1.0", "Be kind.")


@pytest.mark.parametrize(
    "result",
    [members(), members(supportedVersions="2026-07-28"), members(supportedVersions=[], resultType="task")],
)
def test_what_is_no_discovery_is_none(result: dict[str, object]) -> None:
    assert read_discovery(result) is None  # type: ignore[arg-type]  # reason: members() is exactly that.


def test_a_cancellation_names_our_id() -> None:
    assert cancellation(7) == ("notifications/cancelled", {"requestId": 7})


def test_a_peer_knows_its_binding() -> None:
    made: Peer = peer(FakeHttp({}))
    assert made.is_http


EXTENDED = Hello(Era.MODERN, "2026-07-28", {}, {**CAPABILITIES, "extensions": {"com.example/search": {}}})


def searching(era: Era = Era.MODERN, name: str = "com.example/search") -> Caller:
    return Caller(era, "2026-07-28", capabilities={"extensions": {name: {"v": 1}}})


async def test_a_method_of_an_extension_goes_as_it_is_with_the_standard_headers_alone() -> None:
    def run(sent: Sent) -> Reply:
        sent.notify("notifications/search/found", hit=1)
        sent.notify("notifications/tools/odd", hit=2)
        return reply(hits=[1])

    client = Client()
    dialect, transport = modern({"search/run": run}, kind="http", hello=EXTENDED)
    made = call(
        method="search/run",
        params={"name": "x", "inputResponses": {"own": 1}, "task": 1},
        target=Target(Beyond.METHOD, "a", "search/run"),
        caller=searching(),
    )
    outcome = await dialect.call(made, client.exchange())
    assert isinstance(outcome, Complete)
    sent = transport.sent[0]
    assert {key: sent.params[key] for key in made.params} == made.params
    assert sent.request.headers == {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "search/run"}
    assert sent.meta["io.modelcontextprotocol/clientCapabilities"] == {"extensions": {"com.example/search": {"v": 1}}}
    assert client.heard == [("notifications/search/found", {"hit": 1})]


@pytest.mark.parametrize(
    ("caller", "hello"),
    [(searching(Era.LEGACY), EXTENDED), (searching(name="com.example/other"), EXTENDED), (searching(), HELLO)],
)
async def test_a_result_of_an_unknown_type_needs_an_extension_that_both_have(caller: Caller, hello: Hello) -> None:
    """2026-07-28 basic/index: the types are the core's and those of extensions that were advertised."""
    script: Script = {"tools/call": lambda sent: reply(resultType="com.example/partial", part=1)}
    dialect, _ = modern(script, hello=EXTENDED)
    outcome = await dialect.call(call(caller=searching()), Exchange())
    assert isinstance(outcome, Complete)
    assert decode_value(outcome.result["resultType"]) == "com.example/partial"
    dialect, _ = modern(script, hello=hello)
    with pytest.raises(DownstreamError, match="unknown type"):
        await dialect.call(call(caller=caller), Exchange())


async def test_what_a_server_needs_of_an_extension_is_no_matter_of_asks() -> None:
    data: Object = {"requiredCapabilities": {"extensions": {"com.example/other": {}}}}
    dialect, _ = modern({"tools/call": lambda sent: failure(-32021, data=data)}, hello=EXTENDED)
    outcome = await dialect.call(call(caller=searching()), Exchange())
    assert isinstance(outcome, Failure)
    assert outcome.error is not None
    assert outcome.error.code == -32021
