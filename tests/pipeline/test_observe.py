"""Every call is measured, however it ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure, InputRequired, Outcome
from gateway.pipeline.observe import Observe, error_type, outcome_label
from gateway.protocol.jsonrpc import ErrorObject
from gateway.telemetry.metrics import OUTCOMES, Metrics
from tests.kit.calls import OK, Next, call, passage, result


@pytest.mark.parametrize(
    ("outcome", "label", "error"),
    [
        (OK, "ok", ""),
        (result(isError=True, content=[]), "tool_error", "tool_error"),
        (Failure(Reason.UNAVAILABLE, ""), "unavailable", "unavailable"),
        (Failure(Reason.RATE_LIMITED, ""), "limited", "rate_limited"),
        (Failure(Reason.DENIED, ""), "denied", "denied"),
        (Failure(Reason.PROTOCOL_ERROR, "", error=ErrorObject(-32602, "m")), "tool_error", "-32602"),
        (InputRequired({}, None), "ok", ""),
    ],
)
def test_each_outcome_has_its_labels(outcome: Outcome, label: str, error: str) -> None:
    assert outcome_label(outcome) == label
    assert error_type(outcome) == error
    assert label in OUTCOMES


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_an_outcome_label(reason: Reason) -> None:
    assert outcome_label(Failure(reason, "")) in OUTCOMES


def observed(metrics: Metrics) -> str:
    return metrics.render("")[0].decode()


async def test_a_call_is_counted_by_server_tool_and_client() -> None:
    metrics = Metrics()
    metrics.known_servers(["a"])
    metrics.known_tools(["a__t"])
    metrics.known_clients(["bot"])
    assert await Observe(metrics)(call(), passage(), Next()) is OK
    text = observed(metrics)
    assert 'mcp_gateway_tool_calls_total{outcome="ok",server="a",tool="a__t"} 1.0' in text
    assert 'mcp_gateway_client_calls_total{client="bot",outcome="ok"} 1.0' in text


async def test_a_cancelled_call_is_counted_as_such() -> None:
    metrics = Metrics()
    metrics.known_clients(["bot"])
    with pytest.raises(asyncio.CancelledError):
        await Observe(metrics)(call(), passage(), Next(asyncio.CancelledError()))
    assert 'mcp_gateway_client_calls_total{client="bot",outcome="cancelled"} 1.0' in observed(metrics)


async def test_the_gateways_own_share_is_what_the_server_did_not_take() -> None:
    metrics, way = Metrics(), passage()
    way.exchange.mark_dispatched()
    way.exchange.answered_at = way.exchange.dispatched_at + 0.5
    await Observe(metrics)(call(), way, Next())
    text = observed(metrics)
    assert (
        'mcp_client_operation_duration_seconds_sum{error_type="",mcp_method_name="tools/call",server="_other"} 0.5'
        in text
    )
    assert 'mcp_gateway_gateway_overhead_seconds_count{era="modern"} 1.0' in text


async def test_a_call_that_never_left_has_no_downstream_time() -> None:
    metrics = Metrics()
    await Observe(metrics)(call(), passage(), Next(Failure(Reason.DENIED, "")))
    assert "mcp_client_operation_duration_seconds_sum{" not in observed(metrics)


async def test_whoever_watches_sees_each_call_with_how_it_ended() -> None:
    seen: list[tuple[str, Outcome]] = []
    step = Observe(Metrics(), lambda asked, outcome: seen.append((asked.target.name, outcome)))
    refused = Failure(Reason.DENIED, "no")
    await step(call("t"), passage(), Next())
    await step(call("u"), passage(), Next(refused))
    with pytest.raises(asyncio.CancelledError):
        await step(call("v"), passage(), Next(asyncio.CancelledError()))
    assert seen == [("t", OK), ("u", refused), ("v", Failure(Reason.CANCELLED, ""))]


async def test_a_call_is_on_the_roll_while_it_runs_and_leaves_it_however_it_ends() -> None:
    class Written:
        def __init__(self) -> None:
            self.lines: list[tuple[str, ...]] = []

        def began(self, call: Call, exchange: Exchange) -> None:
            self.lines.append(("began", call.target.name))

        def ended(self, call: Call, label: str, seconds: float) -> None:
            self.lines.append(("ended", call.target.name, label))

    roll = Written()
    step = Observe(Metrics(), roll=roll)
    await step(call("t"), passage(), Next())
    with pytest.raises(asyncio.CancelledError):
        await step(call("u"), passage(), Next(asyncio.CancelledError()))
    assert roll.lines == [("began", "t"), ("ended", "t", "ok"), ("began", "u"), ("ended", "u", "cancelled")]


@pytest.mark.parametrize(("traced", "flags", "shown"), [(True, "01", True), (True, "00", False), (False, "01", False)])
async def test_a_bucket_names_a_call_whose_trace_is_kept(traced: bool, flags: str, shown: bool) -> None:
    """A client's own trace, while the gateway makes none, leads nowhere."""
    metrics, way = Metrics(), passage()
    way.exchange.mark_dispatched()
    way.exchange.answered_at = way.exchange.dispatched_at + 0.3
    asked = replace(call(), trace={"traceparent": f"00-{'a' * 32}-{'b' * 16}-{flags}"})
    await Observe(metrics, traced=lambda: traced)(asked, way, Next())
    text = metrics.render("application/openmetrics-text")[0].decode()
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call] # the library does not annotate it
    samples = [sample for family in families for sample in family.samples if sample.exemplar is not None]
    every = {"mcp_server_operation_duration_seconds", "mcp_client_operation_duration_seconds"}
    every |= {"mcp_gateway_gateway_overhead_seconds"}
    assert {sample.name.removesuffix("_bucket") for sample in samples} == (every if shown else set())
    for sample in samples:
        assert sample.exemplar is not None
        assert sample.exemplar.labels == {"trace_id": "a" * 32, "span_id": "b" * 16}
    assert "trace_id" not in observed(metrics)
