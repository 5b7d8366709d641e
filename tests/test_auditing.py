"""The audit log and its sinks as a config puts them together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.audit import notes
from gateway.audit.verify import verify
from gateway.auditing import AuditMeters, Shipping, audit_log
from gateway.errors import ConfigError
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash
from gateway.telemetry.metrics import Metrics
from tests.kit.audit import events, notice
from tests.kit.config_files import loaded
from tests.kit.hook import Hook, until

SERVER = "servers: {a: {command: x}}\n"


def test_the_audit_logs_life_is_counted() -> None:
    metrics = Metrics()
    meters = AuditMeters(metrics)
    meters.recorded("call.start")
    meters.failed("no_space")
    meters.synced(0.002)
    meters.lag(3)
    meters.dropped(2)
    meters.signed(1787479200.0)
    text = metrics.render("")[0].decode()
    assert 'mcp_gateway_audit_records_total{event="call.start"} 1.0' in text
    assert 'mcp_gateway_audit_write_errors_total{reason="no_space"} 1.0' in text
    assert "mcp_gateway_audit_fsync_seconds_count 1.0" in text
    assert "mcp_gateway_audit_lag_records 3.0" in text
    assert "mcp_gateway_audit_dropped_total 2.0" in text
    assert "mcp_gateway_audit_last_checkpoint_timestamp_seconds 1.7874792e+09" in text


def config_text(folder: Path, *sinks: str) -> str:
    return f"audit: {{dir: {folder}/audit, sinks: {json.dumps([*sinks])}}}\nstate: {{dir: {folder}/state}}\n{SERVER}"


async def test_records_reach_every_sink_and_the_last_ones_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    metrics, tasks = Metrics(), TaskSet(on_crash(get_logger("test")))
    async with Hook.listening() as hook, Hook.listening() as collector:
        conf = loaded(tmp_path, config_text(tmp_path, hook.url, f"otlp+{collector.url}"))
        log = audit_log(conf, tmp_path / "state", metrics)
        shipping = Shipping(conf.config, tmp_path / "state", log, metrics)
        await log.open()
        shipping.start(tasks)
        await log.append(notice(1), durable=True)
        await until(lambda: "gateway.started" in hook.events())
        await until(lambda: b"gateway.started" in b"".join(collector.bodies))
        await tasks.aclose()
        await log.append(notice(2), durable=True)
        await log.aclose()
        await shipping.aclose()

        assert hook.events() == [
            "audit.segment",
            "audit.checkpoint",
            "gateway.started",
            "gateway.started",
            "audit.checkpoint",
        ]
        assert collector.paths == ["/v1/logs"] * len(collector.paths)
    verdict = verify(tmp_path / "audit")
    assert (verdict.ok, verdict.unanchored) == (True, 0)
    text = metrics.render("")[0].decode()
    assert 'result="sent",sink="webhook-' in text
    assert 'audit_sink_lag_records{sink="otlp-' in text


async def test_what_commands_did_with_the_log_stands_in_it(tmp_path: Path) -> None:
    """S172; a note that is none of theirs is not written."""
    (tmp_path / "state").mkdir(mode=0o700)
    tasks = TaskSet(on_crash(get_logger("test")))
    conf = loaded(tmp_path, config_text(tmp_path))
    log = audit_log(conf, tmp_path / "state", Metrics())
    await log.open()
    notes.leave(tmp_path / "state", {"event": "call.end", "call_id": "forged"})
    notes.leave(tmp_path / "state", {"event": "admin.audit_export", "admin": {"user": "uid 0"}})
    notes.leave(tmp_path / "state", {"event": "audit.verified", "audit": {"ok": True}})
    Shipping(conf.config, tmp_path / "state", log, Metrics()).start(tasks)
    await until(lambda: "audit.verified" in events(tmp_path / "audit"))
    await tasks.aclose()
    await log.aclose()
    assert events(tmp_path / "audit")[1:3] == ["admin.audit_export", "audit.verified"]


@pytest.mark.parametrize("twice", [1, 2])
def test_a_sink_that_is_named_twice_is_one(tmp_path: Path, twice: int) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    conf = loaded(tmp_path, config_text(tmp_path, *["stdout"] * twice, "postgres://u:secret@127.0.0.1:1/x"))
    shipping = Shipping(conf.config, tmp_path / "state", audit_log(conf, tmp_path / "state", Metrics()), Metrics())
    assert [route.name.split("-")[0] for route in shipping._routes] == ["stdout", "postgres"]
    assert "secret" not in str([route.name for route in shipping._routes])


def test_otlp_needs_an_address(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    conf = loaded(tmp_path, config_text(tmp_path, "otlp"))
    log = audit_log(conf, tmp_path / "state", Metrics())
    with pytest.raises(ConfigError, match=r"telemetry\.otlp"):
        Shipping(conf.config, tmp_path / "state", log, Metrics())


async def test_records_go_to_the_collector_of_traces_with_its_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "tools")
    tasks = TaskSet(on_crash(get_logger("test")))
    async with Hook.listening() as collector:
        where = f"{{url: '{collector.url}/v1/traces', headers: {{X-Key: k}}}}"
        conf = loaded(tmp_path, config_text(tmp_path, "otlp") + f"telemetry: {{otlp: {where}}}\n")
        log = audit_log(conf, tmp_path / "state", Metrics())
        shipping = Shipping(conf.config, tmp_path / "state", log, Metrics())
        await log.open()
        shipping.start(tasks)
        await log.append(notice(1), durable=True)
        await until(lambda: b"gateway.started" in b"".join(collector.bodies))
        await tasks.aclose()
        await log.aclose()
        await shipping.aclose()
    assert set(collector.paths) == {"/v1/logs"}
    assert {headers["X-Key"] for headers in collector.headers} == {"k"}
    assert b'"stringValue":"tools"' in collector.bodies[0]


def test_records_leave_the_machine_over_https_alone(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    conf = loaded(tmp_path, config_text(tmp_path, "otlp") + "telemetry: {otlp: 'http://collector.example.com:4318'}\n")
    log = audit_log(conf, tmp_path / "state", Metrics())
    with pytest.raises(ConfigError, match="only over https"):
        Shipping(conf.config, tmp_path / "state", log, Metrics())
