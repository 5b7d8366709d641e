"""Every metric of the gateway, in a registry of its own; the only home of prometheus-client.

An attribute is named like its metric without ``mcp_gateway_``. Labels are given by name and go through a guard:
names of servers, tools and clients count only while config or catalog knows them. ``docs/metrics.md`` lists them all.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from typing import Final, Generic, Protocol, TypeVar

import prometheus_client as prometheus
from prometheus_client.openmetrics import exposition as openmetrics

from gateway import __version__
from gateway.errors import Reason
from gateway.protocol import codes, methods
from gateway.protocol.versions import Era
from gateway.telemetry.labels import OTHER, Closed, Constants, Domain, Known, SeriesGuard

MAX_SERIES: Final = 2_000
"""Combinations of label values that one metric may have before new ones are put together as ``_other``."""

DURATIONS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Bucket borders of the operation histograms in seconds, as OpenTelemetry recommends for MCP."""
_SHORT: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)

OUTCOMES: Final = (
    "ok",
    "tool_error",
    "denied",
    "limited",
    "timeout",
    "unavailable",
    "protocol_error",
    "cancelled",
    "too_large",
)
STATES: Final = ("starting", "up", "degraded", "open", "quarantined", "failed", "waiting for consent")
"""States of a server, of which exactly one has the value 1."""
PIN_KINDS: Final = ("config", "executable", "file", "tls_key", "probe", "server_info", "definition")
"""What of a server can differ from its pin."""

_METHODS = Closed(*methods.METHODS)
_ERAS = Closed(*Era)
_ERRORS = Closed(
    "", "tool_error", "server_error", *Reason, *(str(code) for code in vars(codes).values() if isinstance(code, int))
)
_STREAMS = Closed("call", "get", "listen", "downstream")


class _Forgetful(Protocol):
    def forget(self, stale: Callable[[Mapping[str, str]], bool]) -> None: ...


_M = TypeVar("_M", prometheus.Counter, prometheus.Gauge, prometheus.Histogram)


class _Metric(Generic[_M]):
    """One metric of the library behind a guard. Its children are kept, as finding them is most of the cost."""

    def __init__(self, raw: _M, guard: SeriesGuard) -> None:
        self._raw: _M = raw
        self._guard = guard
        self._children: dict[tuple[str, ...], _M] = {}

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, in order."""
        return self._guard.names

    def _child(self, labels: Mapping[str, str]) -> _M:
        key = self._guard.key(labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._raw.labels(*key) if key else self._raw
        return child

    def forget(self, stale: Callable[[Mapping[str, str]], bool]) -> None:
        """Drop the series that ``stale`` names by their labels."""
        for key in self._guard.forget(stale):
            if self._children.pop(key, None) is not None and key:
                self._raw.remove(*key)


class Counter(_Metric[prometheus.Counter]):
    """What only grows."""

    def inc(self, by: float = 1, /, **labels: str) -> None:
        self._child(labels).inc(by)


class Gauge(_Metric[prometheus.Gauge]):
    """What goes up and down."""

    def set(self, value: float, /, **labels: str) -> None:
        self._child(labels).set(value)

    @contextmanager
    def hold(self, **labels: str) -> Iterator[None]:
        """Count one up while the block runs; the same series goes down again, even if it was dropped meanwhile."""
        child = self._child(labels)
        child.inc()
        try:
            yield
        finally:
            child.dec()


class Histogram(_Metric[prometheus.Histogram]):
    """How often which value was seen."""

    def observe(self, value: float, example: dict[str, str] | None = None, /, **labels: str) -> None:
        """Count a value; ``example`` names one, at most, for each bucket: only OpenMetrics has a place for it."""
        self._child(labels).observe(value, example)


class Metrics:
    """All metrics of one gateway."""

    def __init__(self) -> None:
        # Half of all lines would be creation times, which no dashboard of ours reads.
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call] # the library does not annotate it
        self._registry = prometheus.CollectorRegistry()
        self._servers = Known()
        self._tools = Known()
        self._clients = Known("anonymous")
        self._digests = Known()
        self._all: list[_Forgetful] = []
        self.metrics_series_dropped_total = self._counter(
            "metrics_series_dropped_total", "Values recorded as _other because a metric was full.", metric=Constants(64)
        )
        self._define_endpoint()
        self._define_calls()
        self._define_downstream()
        self._define_audit()
        self._define_lifecycle()
        prometheus.ProcessCollector(registry=self._registry)
        prometheus.GCCollector(registry=self._registry)

    def _define_endpoint(self) -> None:
        self.http_requests_total = self._counter(
            "http_requests_total",
            "HTTP requests answered.",
            listener=Closed("mcp", "admin"),
            method=Closed("GET", "POST", "DELETE", "OPTIONS", "HEAD"),
            status=Constants(40),
        )
        self.http_rejected_total = self._counter(
            "http_rejected_total", "HTTP requests refused before they were MCP.", reason=Constants(25)
        )
        self.auth_failures_total = self._counter(
            "auth_failures_total",
            "Failed authentications.",
            kind=Closed("none", "key", "jwt", "cert"),
            reason=Constants(12),
        )
        self.jwks_fetches_total = self._counter(
            "jwks_fetches_total",
            "Fetches of an authorization server's keys.",
            issuer=Constants(10),
            result=Closed("changed", "same", "failed"),
        )
        self.sessions = self._gauge("sessions", "Legacy sessions.", era=_ERAS)
        self.streams = self._gauge("streams", "Open streams.", kind=_STREAMS)
        self.streams_closed_total = self._counter(
            "streams_closed_total", "Streams closed.", kind=_STREAMS, reason=Constants(8)
        )

    def _define_calls(self) -> None:
        outcomes = Closed(*OUTCOMES)
        self.mcp_server_operation_duration_seconds = self._histogram(
            "mcp_server_operation_duration_seconds",
            "MCP requests of clients, from the first byte to the last.",
            DURATIONS,
            mcp_method_name=_METHODS,
            era=_ERAS,
            error_type=_ERRORS,
        )
        self.gateway_overhead_seconds = self._histogram(
            "gateway_overhead_seconds", "Time of a call that no server spent.", _SHORT, era=_ERAS
        )
        self.tool_calls_total = self._counter(
            "tool_calls_total", "Tool calls.", server=self._servers, tool=self._tools, outcome=outcomes
        )
        self.client_calls_total = self._counter(
            "client_calls_total", "Calls by client.", client=self._clients, outcome=outcomes
        )
        self.policy_decisions_total = self._counter(
            "policy_decisions_total", "Decisions on calls.", decision=Closed("allow", "deny"), reason=Constants(12)
        )
        self.ratelimit_refused_total = self._counter(
            "ratelimit_refused_total",
            "Requests and calls refused by a limit.",
            scope=Closed("rate", "concurrency", "requests", "in_flight"),
            client=self._clients,
        )
        self.duplicates_total = self._counter(
            "duplicates_total",
            "Calls that came again, by what was done about it.",
            action=Closed("flag", "approve", "refuse"),
            client=self._clients,
        )
        self.inflight_calls = self._gauge("inflight_calls", "Calls a server works on.", server=self._servers)

    def _define_downstream(self) -> None:
        server = self._servers
        self.mcp_client_operation_duration_seconds = self._histogram(
            "mcp_client_operation_duration_seconds",
            "MCP requests to servers.",
            DURATIONS,
            server=server,
            mcp_method_name=_METHODS,
            error_type=_ERRORS,
        )
        self.downstream_up = self._gauge("downstream_up", "Whether a server answers (1) or not (0).", server=server)
        self.downstream_state = self._gauge(
            "downstream_state", "State of a server: 1 for the one it is in.", server=server, state=Closed(*STATES)
        )
        self.downstream_restarts_total = self._counter(
            "downstream_restarts_total", "Connections opened again.", server=server, reason=Constants(8)
        )
        self.downstream_protocol_errors_total = self._counter(
            "downstream_protocol_errors_total", "Messages no server may send.", server=server, kind=Constants(10)
        )
        self.downstream_stderr_bytes_total = self._counter(
            "downstream_stderr_bytes_total", "Bytes a server wrote to stderr.", server=server
        )
        self.pin_mismatches_total = self._counter(
            "pin_mismatches_total",
            "Differences from what a server was when it was approved.",
            server=server,
            kind=Closed(*PIN_KINDS),
        )
        self.quarantined_tools = self._gauge(
            "quarantined_tools", "Tools that are hidden because of the pins.", server=server
        )
        self.definitions_suspicious_total = self._counter(
            "definitions_suspicious_total",
            "Definitions with something in them that people do not see or that poses as instructions.",
            server=self._servers,
            rule=Constants(20),
        )
        self.output_filtered_total = self._counter(
            "output_filtered_total",
            "Answers of servers in which something was found that the config looks for.",
            server=self._servers,
            action=Closed("flag", "strip", "redact", "block"),
        )
        self.ssrf_blocked_total = self._counter(
            "ssrf_blocked_total", "Connections refused because of where a name resolved.", purpose=Constants(4)
        )

    def _define_audit(self) -> None:
        self.audit_records_total = self._counter("audit_records_total", "Audit records written.", event=Constants(40))
        self.audit_write_errors_total = self._counter(
            "audit_write_errors_total", "Audit writes that failed.", reason=Constants(6)
        )
        self.audit_fsync_seconds = self._histogram(
            "audit_fsync_seconds", "Time one group of audit records took to be durable.", _SHORT
        )
        self.audit_lag_records = self._gauge("audit_lag_records", "Audit records not yet durable.")
        self.audit_dropped_total = self._counter("audit_dropped_total", "Audit records lost with on_failure: open.")
        self.audit_last_checkpoint_timestamp_seconds = self._gauge(
            "audit_last_checkpoint_timestamp_seconds", "When the audit log was signed last, in Unix time."
        )
        self.audit_sink_records_total = self._counter(
            "audit_sink_records_total",
            "Audit records by how they fared with a sink.",
            sink=Constants(20),
            result=Closed("sent", "dead", "lost"),
        )
        self.audit_sink_failures_total = self._counter(
            "audit_sink_failures_total", "Deliveries that failed and are made again.", sink=Constants(20)
        )
        self.audit_sink_lag_records = self._gauge(
            "audit_sink_lag_records", "Durable audit records that wait for a sink.", sink=Constants(20)
        )
        self.alerts_total = self._counter("alerts_total", "Alerts raised, each with a record.", kind=Constants(10))
        self.alert_deliveries_total = self._counter(
            "alert_deliveries_total",
            "Messages to the addresses of alerts.",
            result=Closed("delivered", "failed", "dropped"),
        )
        self.approvals_pending = self._gauge("approvals_pending", "Calls that wait for a person's approval.")
        self.approvals_total = self._counter(
            "approvals_total",
            "What became of approvals.",
            outcome=Closed("requested", "approved", "denied", "used", "expired", "voided"),
        )

    def _define_lifecycle(self) -> None:
        self.config_reloads_total = self._counter(
            "config_reloads_total", "Reloads of the config.", result=Closed("ok", "failed")
        )
        self.config_reload_success = self._gauge("config_reload_success", "Whether the last load was good (1) or not.")
        self.config_info = self._gauge("config_info", "The config in force.", sha256=self._digests)
        self.certificate_expiry_timestamp_seconds = self._gauge(
            "certificate_expiry_timestamp_seconds", "When the endpoint's certificate ends, in Unix time; 0 for none."
        )
        self.database_up = self._gauge("database_up", "Whether what replicas share for good can be used (1) or not.")
        self.ratelimit_degraded = self._gauge("ratelimit_degraded", "Whether limits are this replica's own (1) or not.")
        self.draining = self._gauge("draining", "Whether the gateway drains (1) or not.")
        self.event_loop_lag_seconds = self._histogram(
            "event_loop_lag_seconds", "How late the event loop ran what was due.", _SHORT
        )
        self.spans_total = self._counter(
            "spans_total",
            "Finished spans by what became of them.",
            result=Closed("sent", "refused", "lost", "dropped"),
        )
        self.span_export_failures_total = self._counter(
            "span_export_failures_total", "Requests to the collector that failed."
        )
        self.build_info = self._gauge(
            "build_info", "What runs.", version=Constants(1), python=Constants(1), aiohttp=Constants(1)
        )
        self.build_info.set(1, version=__version__, python=platform.python_version(), aiohttp=version("aiohttp"))

    def known_servers(self, names: Iterable[str]) -> None:
        """Take the configured names of the servers that may be label values; series of the others are dropped."""
        gone = self._servers.replace(names)
        if gone:
            self._forget("server", gone)

    def known_tools(self, names: Iterable[str]) -> None:
        """Take the exposed names of the catalog's tools; series of the others are dropped."""
        gone = self._tools.replace(names)
        if gone:
            self._forget("tool", gone)

    def known_clients(self, names: Iterable[str]) -> None:
        """Take the labels of the configured clients; series of the others are dropped. ``anonymous`` always counts."""
        gone = self._clients.replace(names)
        if gone:
            self._forget("client", gone)

    def _forget(self, label: str, values: frozenset[str]) -> None:
        for metric in self._all:
            metric.forget(lambda labels: labels.get(label) in values)

    def set_state(self, server: str, state: str) -> None:
        """Record the state a server is in; ``downstream_up`` follows from it."""
        for each in STATES:
            self.downstream_state.set(each == state, server=server, state=each)
        self.downstream_up.set(state in ("up", "degraded"), server=server)

    def set_config(self, digest: str) -> None:
        """Record the digest (hex) of the config in force; the one before disappears."""
        self._forget("sha256", self._digests.replace({digest}))
        self.config_info.set(1, sha256=digest)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics and their content type: OpenMetrics if the ``Accept`` header names it, else text."""
        wanted = [part.split(";")[0].strip().lower() for part in accept.split(",")]
        body: bytes
        if "application/openmetrics-text" in wanted:
            body = openmetrics.generate_latest(  # type: ignore[no-untyped-call] # not annotated
                self._registry, escaping=openmetrics.UNDERSCORES, version="1.0.0"
            )
            return body, "application/openmetrics-text; version=1.0.0; charset=utf-8"
        body = prometheus.generate_latest(self._registry)
        return body, "text/plain; version=0.0.4; charset=utf-8"

    def _guard(self, name: str, domains: Mapping[str, Domain]) -> SeriesGuard:
        return SeriesGuard(domains, MAX_SERIES, partial(self._dropped, name))

    def _dropped(self, name: str) -> None:
        self.metrics_series_dropped_total.inc(metric=name)

    def _counter(self, name: str, text: str, **domains: Domain) -> Counter:
        raw = prometheus.Counter(_full(name), text, tuple(domains), registry=self._registry)
        metric = Counter(raw, self._guard(name, domains))
        self._all.append(metric)
        return metric

    def _gauge(self, name: str, text: str, **domains: Domain) -> Gauge:
        raw = prometheus.Gauge(_full(name), text, tuple(domains), registry=self._registry)
        metric = Gauge(raw, self._guard(name, domains))
        self._all.append(metric)
        return metric

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], **domains: Domain) -> Histogram:
        raw = prometheus.Histogram(_full(name), text, tuple(domains), registry=self._registry, buckets=buckets)
        metric = Histogram(raw, self._guard(name, domains))
        self._all.append(metric)
        return metric


def _full(name: str) -> str:
    """Put our prefix in front; the two histograms of the OpenTelemetry convention keep their own name."""
    return name if name.startswith("mcp_") else f"mcp_gateway_{name}"


__all__ = ["MAX_SERIES", "OTHER", "OUTCOMES", "STATES", "Counter", "Gauge", "Histogram", "Metrics"]
