"""Tracing as it is put together: on, off, elsewhere by a reload, and without its library."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.config.root import LoadedConfig
from gateway.errors import ConfigError
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.spans import Side
from gateway.telemetry.traces import MAX_WAITING
from gateway.tracing import Tracing
from tests.kit.collector import collecting
from tests.kit.config_files import loaded


def config(folder: Path, url: str, more: str = "") -> LoadedConfig:
    """Read a config with a collector at an address, without one at none."""
    return loaded(folder, f"telemetry: {{otlp: {{url: '{url}'{more}}}}}\n" if url else "naming: {}\n")


def tracing(folder: Path, url: str, metrics: Metrics | None = None) -> Tracing:
    """Return the tracing of such a config."""
    return Tracing(config(folder, url), metrics or Metrics(), str.upper)


def counted(metrics: Metrics, result: str) -> float:
    """Return how many spans fared like this."""
    start = f'mcp_gateway_spans_total{{result="{result}"}}'
    lines = metrics.render("")[0].decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(start))


def one(tracer: Tracing, name: str = "ping") -> None:
    """Make a span."""
    tracer.begin(Side.SERVER, name, {}, {}).end()


async def until(true: Callable[[], bool]) -> None:
    """Wait for something, at most five seconds."""
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.01)


async def test_spans_arrive_while_it_runs_and_the_last_ones_at_its_end(tmp_path: Path) -> None:
    metrics = Metrics()
    with collecting() as collector:
        tracer = tracing(tmp_path, collector.url, metrics)
        assert tracer.on
        tracer.start()
        one(tracer, "first")
        await until(lambda: len(collector.spans) == 1)
        one(tracer, "last")
        await tracer.aclose()
        assert [span.name for span in collector.spans] == ["first", "last"]
    assert counted(metrics, "sent") == 2
    assert tracer.pseudonym("id") == "ID"


async def test_without_a_collector_nothing_is_traced_and_the_library_stays_out(tmp_path: Path) -> None:
    tracer = tracing(tmp_path, "")
    assert not tracer.on
    tracer.start()
    await tracer.aclose()
    code = "import gateway.app, gateway.cli.main, sys; print([name for name in sys.modules if 'opentelemetry' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"


async def test_a_reload_switches_it_on_elsewhere_and_off(tmp_path: Path) -> None:
    with collecting() as here, collecting() as there:
        tracer = tracing(tmp_path, "")
        tracer.start()
        tracer.prepare(config(tmp_path, here.url))()
        one(tracer, "here")
        await until(lambda: len(here.spans) == 1)
        tracer.prepare(config(tmp_path, there.url))()
        one(tracer, "there")
        await until(lambda: len(there.spans) == 1)
        one(tracer, "waits")
        tracer.prepare(config(tmp_path, ""))()
        assert not tracer.on
        await until(lambda: len(there.spans) == 2)
        tracer.prepare(config(tmp_path, here.url))()
        one(tracer, "again")
        await until(lambda: len(here.spans) == 2)
        await tracer.aclose()
    assert [span.name for span in here.spans] == ["here", "again"]


async def test_a_reload_that_cannot_be_changes_nothing(tmp_path: Path) -> None:
    with collecting() as collector:
        tracer = tracing(tmp_path, collector.url)
        (tmp_path / "ca.pem").write_text("nonsense")
        with pytest.raises(ConfigError, match=r"telemetry\.otlp\.ca"):
            tracer.prepare(config(tmp_path, "https://other", ", ca: ca.pem"))
        one(tracer)
        await tracer.aclose()
    assert len(collector.spans) == 1


def test_a_missing_library_is_said_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gateway.telemetry.traces", None)
    assert not tracing(tmp_path, "").on
    with pytest.raises(ConfigError, match="OpenTelemetry SDK") as caught:
        tracing(tmp_path, "http://127.0.0.1:1")
    (problem,) = caught.value.problems
    assert problem.path == "telemetry.otlp"
    assert "aiohttp-mcp-gateway[otel]" in problem.hint


async def test_with_a_collector_that_is_gone_spans_are_dropped_and_counted_and_the_end_is_quick(
    tmp_path: Path,
) -> None:
    metrics = Metrics()
    tracer = tracing(tmp_path, "http://127.0.0.1:1", metrics)
    for _ in range(MAX_WAITING + 5):
        one(tracer)
    assert counted(metrics, "dropped") == 5
    async with asyncio.timeout(5):
        await tracer.aclose()
    assert counted(metrics, "lost") == MAX_WAITING
    assert "mcp_gateway_span_export_failures_total 0.0" not in metrics.render("")[0].decode()


async def test_variables_of_the_specification_name_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "tools")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    with collecting() as collector:
        tracer = tracing(tmp_path, collector.url)
        one(tracer)
        await tracer.aclose()
    (span,) = collector.spans
    assert (span.service["service.name"], span.service["deployment.environment.name"]) == ("tools", "test")
