"""Spans by the OpenTelemetry SDK, and their form on the wire; the only home of it, which the ``otel`` extra brings.

Imported only where ``telemetry.otlp`` is set. Knows no network: finished spans wait in a bounded queue for whoever
takes them away, which never blocks and never makes a call wait.
"""

from __future__ import annotations

import gzip
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from google.protobuf.message import DecodeError
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.sdk.version import __version__ as sdk_version
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags, TraceState
from opentelemetry.trace import Span as ApiSpan
from opentelemetry.trace.propagation import set_span_in_context

from gateway import __version__
from gateway.telemetry import spans
from gateway.telemetry.resource import SERVICE
from gateway.telemetry.spans import Carrier, Facts, Side, Span

MAX_WAITING: Final = 4096
"""Finished spans that wait to be sent; those that come while it is full are dropped, and counted."""
MAX_LINKS: Final = 4
_KINDS: Final = {Side.SERVER: SpanKind.SERVER, Side.CLIENT: SpanKind.CLIENT}
_LIMITS: Final = SpanLimits(
    max_span_attributes=32, max_events=0, max_links=MAX_LINKS, max_span_attribute_length=spans.MAX_FACT
)
_NOWHERE: Final = Context()
_SDK: Final = {
    "telemetry.sdk.language": "python",
    "telemetry.sdk.name": "opentelemetry",
    "telemetry.sdk.version": sdk_version,
}


@dataclass(frozen=True, slots=True)
class Sampling:
    """Which requests are recorded: this share of them, drawn here, also of those in a client's trace.

    With ``follow`` a client that says whether its trace is recorded is believed instead.
    """

    share: float = 1.0
    follow: bool = False


class Queue(SpanProcessor):
    """Finished spans, oldest first."""

    def __init__(self, dropped: Callable[[int], None]) -> None:
        self._dropped = dropped
        self._waiting: deque[ReadableSpan] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def on_end(self, span: ReadableSpan) -> None:
        """Take a finished span, if it is one to send and there is room."""
        context = span.get_span_context()
        if context is None or not context.trace_flags.sampled:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._dropped(1)
            return
        self._waiting.append(span)

    def take(self, most: int) -> tuple[int, Callable[[], bytes]]:
        """Take the oldest ones away: how many, and what writes them."""
        batch = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        return len(batch), partial(encode, batch)

    def refused(self, answer: bytes) -> int:
        """Return how many spans of a request the collector says it did not want (OTLP §Partial Success).

        It may be any number. An answer that is none tells nothing: the request was taken.
        """
        try:
            told = ExportTraceServiceResponse.FromString(answer)
        except DecodeError:
            return 0
        return int(told.partial_success.rejected_spans)


@dataclass(slots=True)
class _Made:
    """A span of the SDK, as the rest of the gateway sees it."""

    _span: ApiSpan
    _ended: bool = False
    carrier: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.carrier = _written(self._span.get_span_context())

    def name(self, name: str) -> None:
        self._span.update_name(name)

    def note(self, facts: Facts) -> None:
        if self._span.is_recording():
            self._span.set_attributes(spans.fitting(facts))

    def link(self, carrier: Carrier) -> None:
        context = _read(carrier, remote=True)
        if context is not None and self._span.is_recording():
            self._span.add_link(context)

    def end(self, error: str = "") -> None:
        if self._ended:
            return
        self._ended = True
        if error and self._span.is_recording():
            self._span.set_attribute(spans.ERROR, error)
            # No description: the message of an error may quote what somebody asked for.
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


class Traces:
    """Makes spans and queues those that ended."""

    on: Final = True

    def __init__(self, sampling: Sampling, resource: Mapping[str, str], queue: Queue) -> None:
        self._sampling = sampling
        # ``Resource.create`` would look for detectors in threads, and needs what ``resource`` has read already.
        whole = Resource({**resource, **_SDK})
        # What is below another span is recorded with it.
        sampler = ParentBased(TraceIdRatioBased(sampling.share))
        provider = TracerProvider(sampler, whole, shutdown_on_exit=False, span_limits=_LIMITS)
        provider.add_span_processor(queue)
        self._tracer = provider.get_tracer(SERVICE, __version__)

    def begin(self, side: Side, name: str, parent: Carrier, facts: Facts) -> Span:
        """Begin a span below a parent; an empty one begins a trace."""
        above = _read(parent, remote=side is Side.SERVER)
        if above is not None and above.is_remote and not self._sampling.follow:
            above = self._decided(above)
        context = _NOWHERE if above is None else set_span_in_context(NonRecordingSpan(above), _NOWHERE)
        return _Made(self._tracer.start_span(name, context, _KINDS[side], spans.fitting(facts)))

    def _decided(self, theirs: SpanContext) -> SpanContext:
        """Put a decision of our own in place of a client's; its trace's id, which it chose, has no say either."""
        flags = TraceFlags.SAMPLED if random.random() < self._sampling.share else TraceFlags.DEFAULT
        return SpanContext(theirs.trace_id, theirs.span_id, theirs.is_remote, TraceFlags(flags), theirs.trace_state)

    def pseudonym(self, secret: str) -> str:
        """Nobody asks: who owns the key answers."""
        return ""


def _read(carrier: Carrier, *, remote: bool) -> SpanContext | None:
    """Read a context that was checked where it came in (W3C Trace Context §traceparent)."""
    parts = carrier.get("traceparent", "").split("-")
    if len(parts) != 4:
        return None
    state = carrier.get("tracestate")
    return SpanContext(
        int(parts[1], 16),
        int(parts[2], 16),
        is_remote=remote,
        trace_flags=TraceFlags(int(parts[3], 16)),
        trace_state=TraceState.from_header([state]) if state else TraceState(),
    )


def _written(context: SpanContext) -> dict[str, str]:
    if not context.is_valid:
        return {}
    written = {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"}
    return written | {"tracestate": context.trace_state.to_header()} if context.trace_state else written


def encode(batch: Sequence[ReadableSpan]) -> bytes:
    """Write spans as a compressed export request (OTLP §OTLP/HTTP, binary)."""
    return gzip.compress(bytes(encode_spans(batch).SerializeToString()), compresslevel=5)


__all__ = ["MAX_WAITING", "Queue", "Sampling", "Traces", "encode"]
