"""Spans by the OpenTelemetry SDK, and their form on the wire, read by the protocol's own classes."""

from __future__ import annotations

import gzip

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from gateway.telemetry import traces
from gateway.telemetry.spans import MAX_FACT, Side
from gateway.telemetry.traces import MAX_WAITING, Queue, Sampling, Traces
from tests.kit.collector import Received, read

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def made(sampling: Sampling | None = None) -> tuple[Traces, Queue, list[int]]:
    """Return a tracer, its queue, and what was dropped."""
    dropped: list[int] = []
    queue = Queue(dropped.append)
    return Traces(sampling or Sampling(), {"service.name": "gw"}, queue), queue, dropped


def sent(queue: Queue, most: int = 1000) -> list[Received]:
    """Return what waits, as a collector reads it."""
    _, write = queue.take(most)
    return list(read(ExportTraceServiceRequest.FromString(gzip.decompress(write()))))


def test_a_span_is_the_child_of_its_parent_and_tells_the_next_hop_of_itself() -> None:
    tracer, queue, _ = made()

    span = tracer.begin(Side.SERVER, "tools/call", {"traceparent": PARENT, "tracestate": "a=1,b=2"}, {"k": "v", "n": 7})
    child = tracer.begin(Side.CLIENT, "tools/call x", span.carrier, {})
    child.end()
    span.end()

    inner, outer = sent(queue)
    assert (outer.trace, outer.parent, outer.side) == (TRACE, "00f067aa0ba902b7", "server")
    assert (inner.trace, inner.parent, inner.side) == (TRACE, outer.id, "client")
    assert span.carrier == {"traceparent": f"00-{TRACE}-{outer.id}-01", "tracestate": "a=1,b=2"}
    assert (outer.facts, outer.failed, outer.state) == ({"k": "v", "n": 7}, False, "a=1,b=2")
    assert outer.service["service.name"] == "gw"
    assert outer.service["telemetry.sdk.name"] == "opentelemetry"


def test_without_a_parent_a_trace_begins() -> None:
    tracer, queue, _ = made()
    tracer.begin(Side.SERVER, "ping", {}, {}).end()
    tracer.begin(Side.SERVER, "ping", {}, {}).end()
    one, two = sent(queue)
    assert one.parent == two.parent == ""
    assert one.trace != two.trace


def test_a_failed_span_says_with_what_and_quotes_nobody() -> None:
    tracer, queue, _ = made()
    span = tracer.begin(Side.SERVER, "tools/call", {}, {})
    span.end("timeout")
    span.end("later")
    (only,) = sent(queue)
    assert (only.failed, only.facts, only.message) == (True, {"error.type": "timeout"}, "")


def test_a_span_is_renamed_noted_on_and_linked() -> None:
    tracer, queue, _ = made()
    span = tracer.begin(Side.SERVER, "tools/call", {}, {})
    span.name("tools/call x")
    span.note({"a": "\n" + "x" * 1000})
    span.link({"traceparent": PARENT})
    span.link({})
    span.end()
    (only,) = sent(queue)
    assert only.name == "tools/call x"
    assert str(only.facts["a"]).startswith("\\nxx")
    assert len(str(only.facts["a"])) == MAX_FACT
    assert only.links == (f"{TRACE}-00f067aa0ba902b7",)


def test_links_and_attributes_are_bounded() -> None:
    tracer, queue, _ = made()
    span = tracer.begin(Side.SERVER, "x", {}, {f"k{number}": 1 for number in range(100)})
    for _ in range(100):
        span.link({"traceparent": PARENT})
    span.end()
    (only,) = sent(queue)
    assert len(only.facts) == 32
    assert len(only.links) == traces.MAX_LINKS


@pytest.mark.parametrize(
    ("sampling", "flags", "recorded"),
    [
        (Sampling(), "01", True),
        (Sampling(), "00", True),
        (Sampling(0.0), "01", False),
        (Sampling(0.0), "", False),
        (Sampling(1.0), "", True),
        (Sampling(0.0, follow=True), "01", True),
        (Sampling(1.0, follow=True), "00", False),
        (Sampling(0.0, follow=True), "", False),
    ],
)
def test_the_share_decides_unless_a_client_is_followed(sampling: Sampling, flags: str, recorded: bool) -> None:
    tracer, queue, _ = made(sampling)
    parent = {"traceparent": PARENT[:-2] + flags} if flags else {}
    span = tracer.begin(Side.SERVER, "x", parent, {})
    inner = tracer.begin(Side.CLIENT, "x", span.carrier, {})
    inner.note({"a": 1})
    inner.link({"traceparent": PARENT})
    inner.end("timeout")
    span.end()
    assert len(queue) == (2 if recorded else 0)
    # The context goes on all the same, and says what was decided.
    assert int(inner.carrier["traceparent"][-2:], 16) & 1 == recorded
    assert inner.carrier["traceparent"].split("-")[2] != span.carrier["traceparent"].split("-")[2]


@pytest.mark.parametrize("trace", ["0" * 31 + "1", "f" * 32])
@pytest.mark.parametrize("flags", ["00", "01"])
def test_a_share_of_requests_is_drawn_whatever_trace_a_client_chooses(trace: str, flags: str) -> None:
    tracer, queue, _ = made(Sampling(0.5))
    parent = {"traceparent": f"00-{trace}-00f067aa0ba902b7-{flags}"}
    for _ in range(1000):
        span = tracer.begin(Side.SERVER, "x", parent, {})
        tracer.begin(Side.CLIENT, "x", span.carrier, {}).end()
        span.end()
    found = sent(queue, MAX_WAITING)
    # All or none of them would be the client's decision; chance misses these bounds once in 10^10 runs.
    assert 800 < len(found) < 1200
    outer = {span.id for span in found if span.side == "server"}
    assert {span.parent for span in found if span.side == "client"} == outer
    assert {(span.trace, span.parent) for span in found if span.side == "server"} == {(trace, "00f067aa0ba902b7")}


def test_the_queue_is_bounded_and_what_does_not_fit_is_counted() -> None:
    tracer, queue, dropped = made()
    for _ in range(MAX_WAITING + 3):
        tracer.begin(Side.SERVER, "x", {}, {}).end()
    assert len(queue) == MAX_WAITING
    assert sum(dropped) == 3
    assert queue.take(10)[0] == 10
    assert len(queue) == MAX_WAITING - 10


def test_what_a_collector_refused_is_read_from_its_answer() -> None:
    _, queue, _ = made()
    partial = ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=3))
    assert queue.refused(bytes(partial.SerializeToString())) == 3
    assert queue.refused(b"") == 0
    assert queue.refused(b"<html>") == 0


def test_nobody_asks_the_sdk_for_pseudonyms() -> None:
    assert made()[0].pseudonym("session") == ""
