"""A collector that is somebody else's program: spans and audit records arrive there, in one trace."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.environments import wanted
from tests.kit.extending import extended, talker
from tests.kit.gateway import eventually, free_port, serving

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CLIENT = "00f067aa0ba902b7"


@dataclass(frozen=True, slots=True)
class Program:
    """The running collector, and what it prints of all that it gets."""

    url: str
    output: Path

    def said(self) -> str:
        """Return what it has printed, without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.output.read_text("utf-8", "replace"))

    def spans(self) -> list[dict[str, str]]:
        """Return spans by the names under which it prints their parts."""
        return self._blocks("Span")

    def records(self) -> list[dict[str, str]]:
        """Return log records likewise."""
        return self._blocks("LogRecord")

    def _blocks(self, kind: str) -> list[dict[str, str]]:
        pieces = re.split(r"^((?:Resource)?\w+) #\d+$", self.said(), flags=re.MULTILINE)[1:]
        pairs = zip(pieces[::2], pieces[1::2], strict=True)
        parts = re.compile(r"^ *(?:-> )?([\w. ]+?) *: (.*)$", re.MULTILINE)
        return [dict(parts.findall(block)) for name, block in pairs if name == kind]


@contextmanager
def running(folder: Path) -> Iterator[Program]:
    """Run the collector for a block."""
    command = wanted.collector_command()
    if command is None:
        pytest.skip("the collector is not here: its wheel needs the shared library of Python (make environments)")
    http, grpc = free_port(), free_port()
    output = folder / "collector.log"
    options = ["--otlp-http-endpoint", f"127.0.0.1:{http}", "--otlp-grpc-endpoint", f"127.0.0.1:{grpc}"]
    shown = ["--debug-log", "traces", "--debug-log", "logs", "--debug-log-verbosity", "detailed"]
    with output.open("wb") as file:
        process = subprocess.Popen(
            [command, "start", *options, "--exporter", "blackhole", *shown, "--log-file", str(folder / "own.log")],
            env=wanted.collector_variables(),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=folder,
        )
        program = Program(f"http://127.0.0.1:{http}", output)
        try:
            eventually(lambda: process.poll() is not None or "Starting" in program.said(), "the collector runs")
            yield program
        finally:
            process.terminate()
            process.wait(10)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_spans_and_audit_records_of_a_call_meet_in_one_trace(era: str, tmp_path: Path) -> None:
    """S179."""
    with running(tmp_path) as collector:
        config = {
            "servers": {"notes": extended("notes", era)},
            "telemetry": {"otlp": collector.url},
            "audit": {"sinks": ["otlp"]},
        }
        environment = {"OTEL_SERVICE_NAME": "tools-gateway"}
        with serving(tmp_path / "gateway", config, environment) as gateway:
            gateway.await_servers("notes")
            client = await talker(gateway.port, "modern")
            heard = (await client.told("notes__meta", {"traceparent": f"00-{TRACE}-{CLIENT}-01"}))["meta"]
            eventually(lambda: [span for span in collector.spans() if span["Trace ID"] == TRACE][1:], "two spans")
            eventually(lambda: [record for record in collector.records() if record["Trace ID"] == TRACE][1:], "records")
            assert gateway.metric("mcp_gateway_spans_total", result="refused") == 0

    ours = {span["Kind"]: span for span in collector.spans() if span["Trace ID"] == TRACE}
    above, below = ours["SPAN_KIND_SERVER"], ours["SPAN_KIND_CLIENT"]
    assert (above["Parent ID"], above["Name"]) == (CLIENT, "tools/call notes__meta")
    assert (below["Parent ID"], below["Name"]) == (above["ID"], "tools/call meta")
    assert heard["traceparent"] == f"00-{TRACE}-{below['ID']}-01"
    records = [record for record in collector.records() if record["Trace ID"] == TRACE]
    assert {record["EventName"] for record in records} == {"mcp_gateway.call.start", "mcp_gateway.call.end"}
    assert {record["Span ID"] for record in records} == {above["ID"]}
    assert set(re.findall(r"-> service\.name: Str\((.*)\)", collector.said())) == {"tools-gateway"}
