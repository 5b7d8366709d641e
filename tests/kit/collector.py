"""An OpenTelemetry collector as far as OTLP over HTTP goes: reads real export requests, and answers as it is told."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from tests.kit.gateway import eventually, free_port

Facts: TypeAlias = dict[str, str | int | bool]
KINDS = {2: "server", 3: "client"}


@dataclass(frozen=True, slots=True)
class Received:
    """One span as it arrived; ids in hex."""

    name: str
    side: str
    trace: str
    id: str
    parent: str
    failed: bool
    facts: Facts
    links: tuple[str, ...]
    message: str
    service: Facts
    nanoseconds: int
    state: str = ""


@dataclass(slots=True)
class Collector:
    """Keeps what it gets; answers with ``statuses`` first, one each, then with 200, unless it is ``stuck``."""

    port: int = field(default_factory=free_port)
    spans: list[Received] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    refuses: int = 0
    """How many spans of the next request it says that it does not want."""
    asked: int = 0
    """How many requests have come, answered or not."""
    stuck: threading.Event = field(default_factory=threading.Event)
    """While it is cleared a request gets no answer."""
    _server: ThreadingHTTPServer | None = None

    def __post_init__(self) -> None:
        self.stuck.set()

    @property
    def url(self) -> str:
        """Its base address."""
        return f"http://127.0.0.1:{self.port}"

    def up(self) -> None:
        """Listen, again on the same port."""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer = collector.take(self.path, {**self.headers}, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name.
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Stop listening."""
        self.stuck.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Take one request."""
        self.asked += 1
        self.stuck.wait(30)
        self.requests.append((path, {name.lower(): value for name, value in headers.items()}))
        status = self.statuses.pop(0) if self.statuses else 200
        if status != 200:
            return status, b""
        plain = gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body
        self.bodies.append(plain)
        refused, self.refuses = self.refuses, 0
        self.spans += read(ExportTraceServiceRequest.FromString(plain))
        partial = ExportTracePartialSuccess(rejected_spans=refused, error_message="too much" if refused else "")
        answer = ExportTraceServiceResponse(partial_success=partial) if refused else ExportTraceServiceResponse()
        return 200, bytes(answer.SerializeToString())

    def of(self, trace: str, side: str = "") -> list[Received]:
        """Return the spans of a trace, oldest end first, by their side if one is given."""
        return [span for span in tuple(self.spans) if span.trace == trace and side in ("", span.side)]

    def await_spans(self, trace: str, count: int) -> list[Received]:
        """Wait until so many spans of a trace are there, and return them."""
        eventually(lambda: len(self.of(trace)) >= count, f"{count} spans of {trace}: {self.spans}", 5.0)
        return self.of(trace)


def read(request: ExportTraceServiceRequest) -> Iterator[Received]:
    """Read the spans of an export request."""
    for group in request.resource_spans:
        service = _facts(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield Received(
                    name=span.name,
                    side=KINDS.get(span.kind, str(span.kind)),
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    failed=span.status.code == 2,
                    facts=_facts(span.attributes),
                    links=tuple(f"{link.trace_id.hex()}-{link.span_id.hex()}" for link in span.links),
                    message=span.status.message,
                    service=service,
                    nanoseconds=span.end_time_unix_nano - span.start_time_unix_nano,
                    state=span.trace_state,
                )


def _facts(pairs: Iterator[KeyValue]) -> Facts:
    found: Facts = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        assert kind is not None, pair.key
        found[pair.key] = getattr(pair.value, kind)
    return found


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run one for a block."""
    collector = Collector()
    collector.up()
    try:
        yield collector
    finally:
        collector.down()
