"""Every metric is described, and no name from outside makes a series (S178, part E)."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gateway.telemetry.metrics import MAX_SERIES, STATES, Metrics

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(?P<name>[a-z_]+)` \| (?P<kind>\w+) \| (?P<labels>[^|]*) \|", re.MULTILINE)


def samples(metrics: Metrics) -> dict[str, float]:
    """Return every sample of ours by name and labels."""
    text = metrics.render("")[0].decode()
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in parse_text(text)
        for sample in family.samples
        if not family.name.startswith(("process_", "python_"))
    }


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return samples(metrics).get(f"{name}{sorted(labels.items())}")


def test_the_page_lists_every_metric_with_its_type_and_labels() -> None:
    metrics = Metrics()
    described = {
        f"{family.name}_total" if family.type == "counter" else family.name: family.type
        for family in parse_text(metrics.render("")[0].decode())
        if not family.name.startswith(("process_", "python_"))
    }
    rows = {row["name"]: row["kind"] for row in ROW.finditer(DOCS.read_text())}
    assert rows == described
    labels = {row["name"]: set(re.findall(r"`(\w+)`", row["labels"])) for row in ROW.finditer(DOCS.read_text())}
    for name, wanted in labels.items():
        attribute = getattr(metrics, name.removeprefix("mcp_gateway_"))
        assert set(attribute.labels) == wanted, name


def test_random_names_from_outside_change_no_series() -> None:
    metrics = Metrics()
    metrics.known_servers({"wiki"})
    metrics.known_tools({"wiki__search"})
    metrics.known_clients({"ci-bot"})

    def record(name: str) -> None:
        metrics.http_requests_total.inc(listener="mcp", method=name, status="200")
        metrics.mcp_server_operation_duration_seconds.observe(0.1, mcp_method_name=name, era=name, error_type=name)
        metrics.tool_calls_total.inc(server=name, tool=name, outcome=name)
        metrics.client_calls_total.inc(client=name, outcome="ok")
        metrics.policy_decisions_total.inc(decision=name, reason="denied")
        metrics.ratelimit_refused_total.inc(scope=name, client=name)
        metrics.streams_closed_total.inc(kind=name, reason="done")
        metrics.downstream_state.set(1, server=name, state=name)

    record("first")
    before = samples(metrics)
    for _ in range(10_000):
        record(secrets.token_hex(8))
    after = samples(metrics)
    assert after.keys() == before.keys()
    assert value(metrics, "mcp_gateway_tool_calls_total", server="_other", tool="_other", outcome="_other") == 10_001


def test_a_full_metric_counts_what_it_put_together() -> None:
    metrics = Metrics()
    names = {f"tool{number}" for number in range(MAX_SERIES + 50)}
    metrics.known_servers({"wiki"})
    metrics.known_tools(names)
    for name in names:
        metrics.tool_calls_total.inc(server="wiki", tool=name, outcome="ok")
    calls = [key for key in samples(metrics) if key.startswith("mcp_gateway_tool_calls_total")]
    assert len(calls) == MAX_SERIES + 1
    assert value(metrics, "mcp_gateway_metrics_series_dropped_total", metric="tool_calls_total") == 50
    metrics.known_tools({"tool1"})
    calls = [key for key in samples(metrics) if key.startswith("mcp_gateway_tool_calls_total")]
    assert len(calls) <= 2


def test_series_go_when_their_server_tool_or_client_goes() -> None:
    metrics = Metrics()
    metrics.known_servers({"wiki", "crm"})
    metrics.known_tools({"wiki__search", "crm__get"})
    metrics.known_clients({"ci-bot", "old-bot"})
    for server, tool in (("wiki", "wiki__search"), ("crm", "crm__get")):
        metrics.tool_calls_total.inc(server=server, tool=tool, outcome="ok")
        metrics.set_state(server, "up")
    metrics.client_calls_total.inc(client="old-bot", outcome="ok")
    metrics.client_calls_total.inc(client="anonymous", outcome="ok")
    metrics.known_servers({"wiki"})
    metrics.known_clients({"ci-bot"})
    text = metrics.render("")[0].decode()
    assert "crm" not in text
    assert "old-bot" not in text
    assert value(metrics, "mcp_gateway_client_calls_total", client="anonymous", outcome="ok") == 1
    metrics.known_servers(())
    assert "wiki" not in metrics.render("")[0].decode()
    metrics.known_servers({"wiki"})
    metrics.tool_calls_total.inc(server="wiki", tool="wiki__search", outcome="ok")
    assert value(metrics, "mcp_gateway_tool_calls_total", server="wiki", tool="wiki__search", outcome="ok") == 1


def test_a_server_is_in_exactly_one_state() -> None:
    metrics = Metrics()
    metrics.known_servers({"wiki"})
    for state in STATES:
        metrics.set_state("wiki", state)
        found = [
            each for each in STATES if value(metrics, "mcp_gateway_downstream_state", server="wiki", state=each) == 1
        ]
        assert found == [state]
        assert value(metrics, "mcp_gateway_downstream_up", server="wiki") == (state in ("up", "degraded"))


def test_only_the_config_in_force_is_told() -> None:
    metrics = Metrics()
    metrics.set_config("ab" * 32)
    metrics.set_config("cd" * 32)
    metrics.set_config("cd" * 32)
    assert value(metrics, "mcp_gateway_config_info", sha256="cd" * 32) == 1
    assert value(metrics, "mcp_gateway_config_info", sha256="ab" * 32) is None


def test_a_held_gauge_goes_down_again_whatever_happens() -> None:
    metrics = Metrics()
    metrics.known_servers({"wiki"})

    def fail_while_held() -> None:
        with metrics.inflight_calls.hold(server="wiki"):
            assert value(metrics, "mcp_gateway_inflight_calls", server="wiki") == 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_while_held()
    assert value(metrics, "mcp_gateway_inflight_calls", server="wiki") == 0
    with metrics.inflight_calls.hold(server="wiki"):
        metrics.known_servers(())
    assert value(metrics, "mcp_gateway_inflight_calls", server="wiki") is None


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain;version=\r\nX: y", "text/plain; version=0.0.4; charset=utf-8"),
        (
            "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.3",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
        ("application/openmetrics-text;version=nonsense", "application/openmetrics-text; version=1.0.0; charset=utf-8"),
    ],
)
def test_the_accept_header_chooses_the_format_and_nothing_else(accept: str, kind: str) -> None:
    metrics = Metrics()
    metrics.sessions.set(3, era="legacy")
    body, content_type = metrics.render(accept)
    assert content_type == kind
    parse = parse_openmetrics if "openmetrics" in kind else parse_text
    families = {family.name: family for family in parse(body.decode())}
    assert families["mcp_gateway_sessions"].samples[0].value == 3


def test_creation_times_are_left_out_and_the_process_is_described() -> None:
    text = Metrics().render("")[0].decode()
    assert "_created" not in text
    assert "python_gc_objects_collected_total" in text
    assert 'mcp_gateway_build_info{aiohttp="' in text


def test_two_gateways_in_one_process_count_apart() -> None:
    first, second = Metrics(), Metrics()
    first.audit_lag_records.set(5)
    assert value(first, "mcp_gateway_audit_lag_records") == 5
    assert value(second, "mcp_gateway_audit_lag_records") == 0
