"""Metrics hear of what they measure."""

from __future__ import annotations

from gateway.telemetry.metrics import Metrics
from gateway.wiring import AuditMeters, ServerMeters


def test_the_audit_logs_life_is_counted() -> None:
    metrics = Metrics()
    meters = AuditMeters(metrics)
    meters.recorded("call.start")
    meters.failed("no_space")
    meters.synced(0.002)
    meters.lag(3)
    meters.dropped(2)
    text = metrics.render("")[0].decode()
    assert 'mcp_gateway_audit_records_total{event="call.start"} 1.0' in text
    assert 'mcp_gateway_audit_write_errors_total{reason="no_space"} 1.0' in text
    assert "mcp_gateway_audit_fsync_seconds_count 1.0" in text
    assert "mcp_gateway_audit_lag_records 3.0" in text
    assert "mcp_gateway_audit_dropped_total 2.0" in text


def test_a_servers_life_is_counted() -> None:
    metrics = Metrics()
    metrics.known_servers(["a"])
    meters = ServerMeters(metrics)
    meters.state("a", "up")
    meters.restarted("a", "exit")
    meters.protocol_error("a", "unknown_id")
    meters.stderr("a", 12)
    meters.in_flight("a", 4)
    meters.blocked("a")
    text = metrics.render("")[0].decode()
    assert 'mcp_gateway_downstream_up{server="a"} 1.0' in text
    assert 'mcp_gateway_downstream_restarts_total{reason="exit",server="a"} 1.0' in text
    assert 'mcp_gateway_downstream_protocol_errors_total{kind="unknown_id",server="a"} 1.0' in text
    assert 'mcp_gateway_downstream_stderr_bytes_total{server="a"} 12.0' in text
    assert 'mcp_gateway_inflight_calls{server="a"} 4.0' in text
    assert 'mcp_gateway_ssrf_blocked_total{purpose="server"} 1.0' in text
