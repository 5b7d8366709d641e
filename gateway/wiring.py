"""Connects parts that do not know each other: metrics to what they measure."""

from __future__ import annotations

from gateway.telemetry.metrics import Metrics


class AuditMeters:
    """Counts what happens to the audit log. Called from its thread too."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def recorded(self, event: str) -> None:
        """Count a written record."""
        self._metrics.audit_records_total.inc(event=event)

    def failed(self, reason: str) -> None:
        """Count a failed write."""
        self._metrics.audit_write_errors_total.inc(reason=reason)

    def synced(self, seconds: float) -> None:
        """Time a group."""
        self._metrics.audit_fsync_seconds.observe(seconds)

    def lag(self, records: int) -> None:
        """Show what is not yet durable."""
        self._metrics.audit_lag_records.set(records)

    def dropped(self, records: int) -> None:
        """Count lost records."""
        self._metrics.audit_dropped_total.inc(records)


class ServerMeters:
    """Counts what happens to servers. Times of calls are taken by the chain, which knows their outcome."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def state(self, server: str, state: str) -> None:
        """Show the state."""
        self._metrics.set_state(server, state)

    def restarted(self, server: str, reason: str) -> None:
        """Count a restart."""
        self._metrics.downstream_restarts_total.inc(server=server, reason=reason)

    def protocol_error(self, server: str, kind: str) -> None:
        """Count a message no server may send."""
        self._metrics.downstream_protocol_errors_total.inc(server=server, kind=kind)

    def stderr(self, server: str, size: int) -> None:
        """Count what a process wrote to its standard error."""
        self._metrics.downstream_stderr_bytes_total.inc(size, server=server)

    def in_flight(self, server: str, calls: int) -> None:
        """Show the calls in flight."""
        self._metrics.inflight_calls.set(calls, server=server)

    def blocked(self, server: str) -> None:
        """Count a dial that the rules forbid."""
        self._metrics.ssrf_blocked_total.inc(purpose="server")
