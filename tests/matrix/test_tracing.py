"""Traces through a real gateway to a collector: one trace from client to server in all four cells (SEP-414, S179).

The collector reads real export requests; clients and servers are raw, so that nothing but the gateway makes spans.
"""

from __future__ import annotations

import asyncio
import itertools
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit.answering import Manner, answering
from tests.kit.clients import Json, Reply
from tests.kit.collector import Collector, Received, collecting
from tests.kit.extending import ERAS, Talker, extended, talker
from tests.kit.gateway import Gateway, eventually, serving
from tests.kit.http_server import Exchange, McpServer
from tests.kit.http_server import serving as http_serving
from tests.kit.wire import EraName

SERVERS = ("new", "old")
CANARY = "canary-7c1e"
ELSEWHERE = "0af7651916cd43dd8448eb211c80319c"
"""The trace that servers name in their questions."""
KEY = f"mcpgw_{CANARY}_{'k' * 32}"
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Traced:
    """A gateway and where it tells of its spans."""

    gateway: Gateway
    collector: Collector

    async def client(self, era: EraName, capabilities: Json | None = None) -> Talker:
        """Return a client of an era."""
        return await talker(self.gateway.port, era, capabilities, KEY)


def context() -> tuple[str, Json]:
    """Return a trace's id, and the context of a client's span in it."""
    trace = f"{next(_numbers):032x}"
    return trace, {"traceparent": f"00-{trace}-00f067aa0ba902b7-01", "tracestate": "vendor=1"}


def configured(url: str, **telemetry: object) -> Json:
    """Return a config with a server of each era, a key, and a policy that refuses one tool."""
    secret = {"env": {"TOKEN": CANARY}}
    return {
        "servers": {
            "new": extended("new", "modern", None, asks=["elicitation"], **secret),
            "old": extended("old", "legacy", None, asks=["elicitation"], **secret),
        },
        "clients": {"bot": {"key": KEY}},
        "policies": [
            {
                "name": "p",
                "clients": ["*"],
                "allow": ["any:*/*"],
                "deny": [{"tools": "new/page", "when": "size(args) > 0"}],
            }
        ],
        "telemetry": {"otlp": {"url": url, "headers": {"Authorization": f"Bearer {CANARY}"}, **telemetry}},
    }


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    with (
        collecting() as collector,
        serving(tmp_path_factory.mktemp("tracing"), configured(collector.url)) as gateway,
    ):
        gateway.await_servers(*SERVERS)
        yield Traced(gateway, collector)


def ends(spans: list[Received]) -> tuple[Received, Received]:
    """Return the server span and the client span of one call."""
    by_side = {span.side: span for span in spans}
    assert len(spans) == 2, spans
    return by_side["server"], by_side["client"]


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("era", ERAS)
async def test_one_trace_reaches_from_the_client_to_the_server(traced: Traced, era: EraName, server: str) -> None:
    trace, meta = context()
    client = await traced.client(era)

    heard = (await client.told(f"{server}__meta", {**meta, "baggage": "user=alice"}))["meta"]

    above, below = ends(traced.collector.await_spans(trace, 2))
    assert (above.parent, above.name) == ("00f067aa0ba902b7", f"tools/call {server}__meta")
    assert (below.parent, below.name) == (above.id, "tools/call meta")
    assert heard["traceparent"] == f"00-{trace}-{below.id}-01"
    assert (heard["tracestate"], "baggage" in heard) == ("vendor=1", False)
    assert not above.failed
    assert not below.failed
    assert above.service["service.name"] == "mcp-gateway"
    assert below.nanoseconds <= above.nanoseconds
    versions = {"modern": "2026-07-28", "legacy": "2025-11-25"}
    assert above.facts["mcp.protocol.version"] == versions[era]
    assert below.facts["mcp.protocol.version"] == versions["modern" if server == "new" else "legacy"]


@pytest.mark.parametrize("era", ERAS)
async def test_what_spans_say_is_fixed_and_ids_of_sessions_are_hashes(traced: Traced, era: EraName) -> None:
    """S179: the exact set of attributes. S153."""
    trace, meta = context()
    client = await traced.client(era)
    await client.call("new__meta", {"q": CANARY}, meta)
    above, below = ends(traced.collector.await_spans(trace, 2))
    own = {"mcp.session.id"} if era == "legacy" else set()
    assert set(above.facts) == own | {
        "mcp.method.name",
        "mcp.protocol.version",
        "jsonrpc.request.id",
        "network.transport",
        "network.protocol.name",
        "client.address",
        "gen_ai.tool.name",
        "gen_ai.operation.name",
        "mcp_gateway.client.id",
        "mcp_gateway.server",
        "mcp_gateway.call_id",
        "mcp_gateway.outcome",
        "mcp_gateway.tool.definition_sha256",
    }
    assert set(below.facts) == {
        "mcp.method.name",
        "mcp.protocol.version",
        "jsonrpc.request.id",
        "network.transport",
        "gen_ai.tool.name",
        "gen_ai.operation.name",
        "mcp_gateway.server",
    }
    assert above.facts["mcp_gateway.client.id"] == "bot"
    records = [each for each in traced.gateway.records() if each.get("trace", {}).get("trace_id") == trace]
    assert {each["event"] for each in records} == {"call.start", "call.end"}
    assert {each["trace"]["span_id"] for each in records} == {above.id}
    assert above.facts["mcp_gateway.call_id"] == records[0]["call_id"]
    if client.session is not None:
        assert above.facts["mcp.session.id"] == records[0]["mcp"]["session_h"]


async def test_refusals_are_failed_spans_without_a_request_to_the_server(traced: Traced) -> None:
    client = await traced.client("modern")
    trace, meta = context()
    assert (await client.call("new__page", {"x": CANARY}, meta)).refusal["reason"] == "denied"
    (denied,) = traced.collector.await_spans(trace, 1)
    assert (denied.failed, denied.facts["error.type"], denied.message) == (True, "denied", "")
    trace, meta = context()
    assert (await client.call(f"new__{CANARY}", {}, meta)).code == -32602
    (unknown,) = traced.collector.await_spans(trace, 1)
    assert (unknown.failed, unknown.facts["error.type"], unknown.name) == (True, "-32602", "tools/call")


@pytest.mark.parametrize("bad", ["", "00-zz-1", 7, f"00-{'0' * 32}-00f067aa0ba902b7-01", "x" * 10_000])
async def test_a_context_that_is_none_begins_a_trace(traced: Traced, bad: object) -> None:
    """S71."""
    client = await traced.client("modern")
    heard = (await client.told("new__meta", {"traceparent": bad, "tracestate": "y" * 10_000}))["meta"]
    trace = heard["traceparent"].split("-")[1]
    above, _ = ends(traced.collector.await_spans(trace, 2))
    assert (above.parent, above.state, "tracestate" in heard) == ("", "", False)


async def test_a_state_that_is_none_is_left_out_and_never_logged(traced: Traced) -> None:
    """S71. It may hold whatever a client likes."""
    client = await traced.client("modern")
    for state in (f"{CANARY} and more", f"a={CANARY},a=b", ",".join(f"k{number}=v" for number in range(40))):
        trace, meta = context()
        heard = (await client.told("new__meta", {**meta, "tracestate": state}))["meta"]
        above, _ = ends(traced.collector.await_spans(trace, 2))
        assert (above.parent, above.state, "tracestate" in heard) == ("00f067aa0ba902b7", "", False)
    log = traced.gateway.log.read_text()
    assert CANARY not in log
    assert "opentelemetry" not in log


@pytest.mark.parametrize("server", SERVERS)
async def test_the_rounds_of_a_modern_client_are_spans_of_their_own_and_linked(traced: Traced, server: str) -> None:
    client = await traced.client("modern", {"elicitation": {}})
    first, meta = context()
    asked = (await client.call(f"{server}__question", {}, meta)).result
    (key,) = asked["inputRequests"]
    second, again = context()
    answers = {"inputResponses": {key: {"action": "accept", "content": {}}}, "requestState": asked["requestState"]}
    reply = await client.ask("tools/call", {"name": f"{server}__question", "arguments": {}, **answers, "_meta": again})
    assert reply.status == 200
    one = next(span for span in traced.collector.await_spans(first, 1) if span.side == "server")
    eventually(lambda: traced.collector.of(second, "server"), "the second round's span", 5.0)
    (two,) = traced.collector.of(second, "server")
    assert two.links == (f"{first}-{one.id}",)
    assert two.facts["mcp_gateway.call_id"] == one.facts["mcp_gateway.call_id"]
    assert (two.facts["mcp_gateway.round"], two.failed) == (2, False)


@pytest.mark.parametrize("server", SERVERS)
async def test_a_question_to_a_client_is_a_span_below_its_call(traced: Traced, server: str) -> None:
    """One that the server puts into another trace stays in the call's, and is linked."""
    trace, meta = context()

    async def accept(method: str, params: Json) -> Json:
        return {"action": "accept", "content": {}}

    manner = Manner({"elicitation": {}}, accept, KEY)
    async with answering(traced.gateway.url, "legacy", manner) as client:
        ended = await client.request("tools/call", {"name": f"{server}__question", "arguments": {}, "_meta": meta})

    ((method, params),) = ended.questions
    eventually(lambda: traced.collector.of(trace, "server"), "the call's span", 5.0)
    (above,) = traced.collector.of(trace, "server")
    (asked,) = (span for span in traced.collector.of(trace, "client") if span.name == method)
    assert (asked.parent, asked.failed, asked.links) == (above.id, False, (f"{ELSEWHERE}-00f067aa0ba902b7",))
    assert params["_meta"]["traceparent"] == f"00-{trace}-{asked.id}-01"
    assert asked.facts["mcp_gateway.server"] == server
    assert asked.facts["mcp_gateway.call_id"] == above.facts["mcp_gateway.call_id"]
    assert "baggage" not in params["_meta"]


async def test_metrics_lead_to_the_trace_of_a_call(traced: Traced) -> None:
    """As exemplars, for who reads OpenMetrics."""
    trace, meta = context()
    client = await traced.client("modern")
    await client.call("new__meta", meta=meta)
    above, _ = ends(traced.collector.await_spans(trace, 2))
    asked = urllib.request.Request(f"http://127.0.0.1:{traced.gateway.admin_port}/metrics")
    asked.add_header("Accept", "application/openmetrics-text; version=1.0.0")
    with await asyncio.to_thread(urllib.request.urlopen, asked, timeout=5) as answer:
        text = answer.read().decode()
    named = {line.partition("{")[0] for line in text.splitlines() if trace in line and above.id in line}
    histograms = ("mcp_server_operation_duration", "mcp_client_operation_duration", "mcp_gateway_gateway_overhead")
    assert named == {f"{name}_seconds_bucket" for name in histograms}
    assert trace not in traced.gateway.admin("/metrics")[1]


async def test_lists_and_connecting_are_spans_too(traced: Traced) -> None:
    client = await traced.client("legacy")
    trace, meta = context()
    await client.ask("tools/list", {"_meta": meta})
    (listed,) = traced.collector.await_spans(trace, 1)
    assert (listed.name, listed.side, listed.parent) == ("tools/list", "server", "00f067aa0ba902b7")
    names = {(span.name, span.facts["mcp_gateway.server"]) for span in traced.collector.spans if span.side == "client"}
    assert {("server/discover", "new"), ("initialize", "old"), ("tools/list", "new"), ("tools/list", "old")} <= names


async def test_no_secret_leaves_the_gateway_in_a_span(traced: Traced) -> None:
    """S46, S151: keys, variables of servers, arguments, and names that nobody has."""
    for era in ERAS:
        client = await traced.client(era)
        trace, meta = context()
        await client.call("old__meta", {"q": CANARY, CANARY: 1}, meta)
        await client.ask("resources/read", {"uri": f"x://bob:{CANARY}@host/?t={CANARY}", "_meta": meta})
        traced.collector.await_spans(trace, 3)
    assert traced.collector.requests[0][1]["authorization"] == f"Bearer {CANARY}"
    assert [body for body in traced.collector.bodies if CANARY.encode() in body] == []
    assert CANARY not in traced.gateway.log.read_text()


async def test_a_client_that_wants_not_to_be_seen_is_seen(traced: Traced) -> None:
    trace = f"{next(_numbers):032x}"
    client = await traced.client("modern")
    heard = (await client.told("new__meta", {"traceparent": f"00-{trace}-00f067aa0ba902b7-00"}))["meta"]
    above, below = ends(traced.collector.await_spans(trace, 2))
    assert above.parent == "00f067aa0ba902b7"
    assert heard["traceparent"] == f"00-{trace}-{below.id}-01"


@pytest.mark.parametrize(
    ("sample", "follow", "flags", "recorded"),
    [(1, True, "00", False), (0, True, "01", True), (0, False, "01", False)],
)
async def test_a_client_decides_only_where_it_is_followed_and_its_context_goes_on_all_the_same(
    tmp_path: Path, sample: int, follow: bool, flags: str, recorded: bool
) -> None:
    with (
        collecting() as collector,
        serving(tmp_path, configured(collector.url, sample=sample, follow=follow)) as gateway,
    ):
        gateway.await_servers("new")
        client = await talker(gateway.port, "modern", None, KEY)
        trace = f"{next(_numbers):032x}"
        heard = (await client.told("new__meta", {"traceparent": f"00-{trace}-00f067aa0ba902b7-{flags}"}))["meta"]
        _, reached, parent, decided = heard["traceparent"].split("-")
        assert (reached, decided) == (trace, "01" if recorded else "00")
        assert parent != "00f067aa0ba902b7"
        gateway.terminate()
        assert gateway.wait() == 0
        assert len(collector.of(trace)) == (2 if recorded else 0)


async def test_a_collector_that_is_gone_or_stuck_delays_no_call_and_an_end_flushes(tmp_path: Path) -> None:
    collector = Collector()
    with serving(tmp_path, configured(collector.url)) as gateway:
        gateway.await_servers(*SERVERS)
        client = await talker(gateway.port, "modern", None, KEY)
        eventually(lambda: gateway.metric("mcp_gateway_span_export_failures_total") > 0, "a try failed")
        gone: list[Reply] = await asyncio.gather(*(client.call("new__meta") for _ in range(50)))
        collector.stuck.clear()
        collector.up()
        eventually(lambda: collector.asked, "a request that gets no answer")
        stuck: list[Reply] = await asyncio.gather(*(client.call("new__meta") for _ in range(50)))
        # All of them have ended while the collector has taken nothing yet.
        assert collector.spans == []
        assert {reply.result["resultType"] for reply in [*gone, *stuck]} == {"complete"}
        collector.stuck.set()
        eventually(lambda: gateway.metric("mcp_gateway_spans_total", result="sent") > 0, "sent again")
        trace, meta = context()
        await client.call("new__meta", meta=meta)
        gateway.terminate()
        assert gateway.wait() == 0
    assert len(collector.of(trace)) == 2
    collector.down()


async def test_a_reload_switches_traces_on_and_off(tmp_path: Path) -> None:
    with collecting() as collector:
        off = {**configured(collector.url), "telemetry": {}}
        with serving(tmp_path, off) as gateway:
            gateway.await_servers(*SERVERS)
            client = await talker(gateway.port, "modern", None, KEY)
            trace, meta = context()
            heard = (await client.told("new__meta", meta))["meta"]
            # Relayed as it came, as without tracing ever.
            assert heard["traceparent"] == meta["traceparent"]
            gateway.reload(configured(collector.url))
            await client.told("new__meta", meta)
            collector.await_spans(trace, 2)
            gateway.reload(off)
            heard = (await client.told("new__meta", meta))["meta"]
            assert heard["traceparent"] == meta["traceparent"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_over_http_is_told_in_the_body_and_its_session_by_a_pseudonym(era: str, tmp_path: Path) -> None:
    """S153. The specification has no header for it, and none of ours is sent."""
    there = McpServer(era=era)
    with collecting() as collector:
        async with http_serving(there.script) as server:
            url = server.url.replace("http://", f"http://bob:{CANARY}@") + f"?token={CANARY}"
            gateway = Gateway(tmp_path, {"servers": {"web": {"url": url}}, "telemetry": {"otlp": collector.url}})
            try:
                await asyncio.to_thread(gateway.start)
                await asyncio.to_thread(gateway.await_servers, "web")
                trace, meta = context()
                await (await talker(gateway.port, "modern")).call("web__echo", {}, meta)
                _, below = ends(await asyncio.to_thread(collector.await_spans, trace, 2))
            finally:
                await asyncio.to_thread(gateway.stop)
            (called,) = [seen for seen in server.seen if seen.method == "POST" and _method(seen) == "tools/call"]
    assert called.message["params"]["_meta"]["traceparent"] == f"00-{trace}-{below.id}-01"
    assert "traceparent" not in called.headers
    assert (below.facts["server.address"], below.facts["server.port"]) == ("127.0.0.1", server.port)
    assert (below.facts["network.transport"], below.facts["network.protocol.name"]) == ("tcp", "http")
    assert ("mcp.session.id" in below.facts) == (era == "legacy")
    for secret in (CANARY, *there.sessions):
        assert [body for body in collector.bodies if secret.encode() in body] == []


def _method(seen: Exchange) -> str:
    return str(seen.message.get("method"))
