"""The alert rules: read by Prometheus' own checker, held to the metrics there are, and fired one by one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
import yaml

from tests.environments import wanted
from tests.kit.promql import strangers

Json: TypeAlias = dict[str, Any]

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "charts" / "aiohttp-mcp-gateway" / "files" / "alerts.yaml"
RULES: Final[list[Json]] = [
    rule for group in yaml.safe_load(FILE.read_text("utf-8"))["groups"] for rule in group["rules"]
]
SEVERITIES: Final = ("critical", "warning", "info")


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Prometheus' checker."""
    command = wanted.promtool()
    if command is None:
        pytest.skip("promtool is not here: it comes from Debian's archive (make environments)")
    return subprocess.run([command, *arguments], capture_output=True, text=True, timeout=60, check=False)


def named(rule: Json) -> str:
    """Return the name of an alert."""
    return str(rule["alert"])


def anchors() -> set[str]:
    """Return what headings of the page on monitoring can be linked to."""
    page = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_prometheus_takes_the_rules() -> None:
    done = promtool("check", "rules", FILE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_a_rule_says_what_is_wrong_and_where_to_read_on(rule: Json) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"].keys() == {"severity"}
    assert rule["labels"]["severity"] in SEVERITIES
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert page == "docs/monitoring.md"
    assert anchor == named(rule).lower()
    assert anchor in anchors()
    assert rule["annotations"]["description"].endswith(".")


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_a_rule_speaks_of_metrics_labels_and_values_that_there_are(rule: Json) -> None:
    assert strangers(rule["expr"]) == []


def test_names_are_unique_and_of_one_family() -> None:
    names = [named(rule) for rule in RULES]
    assert len(set(names)) == len(names)
    assert all(name.startswith("McpGateway") for name in names)


def test_the_page_names_log_lines_and_keys_that_there_are() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
    source = "".join(path.read_text("utf-8") for path in (ROOT / "gateway").rglob("*.py"))
    words = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", page)) - set(re.findall(r"`(mcp_\w+)`", page))
    # A key of Prometheus' own config.
    words.remove("rule_files")
    assert words
    assert [word for word in sorted(words) if word not in source] == []


EXAMPLES: Final = sorted((ROOT / "docs" / "monitoring").iterdir())


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.name))
def test_every_example_is_yaml_and_named_on_the_page(file: Path) -> None:
    assert isinstance(yaml.safe_load(file.read_text("utf-8")), dict)
    assert f"monitoring/{file.name})" in (ROOT / "docs" / "monitoring.md").read_text("utf-8")


def test_prometheus_takes_its_example_with_our_rules() -> None:
    example = ROOT / "docs" / "monitoring" / "prometheus.yml"
    (rules,) = yaml.safe_load(example.read_text("utf-8"))["rule_files"]
    assert (example.parent / rules).resolve() == FILE
    done = promtool("check", "config", "--syntax-only", example)
    assert done.returncode == 0, done.stdout + done.stderr


PLACE: Final = 'job="gw",instance="gw-0"'
CALLS: Final = f'server="wiki",mcp_method_name="tools/call",error_type="",{PLACE}'
# Minutes of samples; every counter of a quiet gateway stands still or grows slowly.
HEALTHY: Final[Mapping[str, str]] = {
    f"up{{{PLACE}}}": "1x120",
    f'mcp_gateway_build_info{{version="1",{PLACE}}}': "1x120",
    f"process_start_time_seconds{{{PLACE}}}": "0x120",
    f"process_open_fds{{{PLACE}}}": "40x120",
    f"process_max_fds{{{PLACE}}}": "1000x120",
    f"mcp_gateway_draining{{{PLACE}}}": "0x120",
    f"mcp_gateway_certificate_expiry_timestamp_seconds{{{PLACE}}}": "9000000x120",
    f"mcp_gateway_config_reload_success{{{PLACE}}}": "1x120",
    f'mcp_gateway_config_info{{sha256="aa",{PLACE}}}': "1x120",
    f"mcp_gateway_audit_dropped_total{{{PLACE}}}": "0x120",
    f"mcp_gateway_audit_lag_records{{{PLACE}}}": "0x120",
    f"mcp_gateway_audit_last_checkpoint_timestamp_seconds{{{PLACE}}}": "0+60x120",
    f'mcp_gateway_audit_records_total{{event="call.end",{PLACE}}}': "0+10x120",
    f'mcp_gateway_audit_sink_lag_records{{sink="otlp",{PLACE}}}': "3x120",
    f'mcp_gateway_audit_sink_failures_total{{sink="otlp",{PLACE}}}': "1x120",
    f'mcp_gateway_downstream_up{{server="wiki",{PLACE}}}': "1x120",
    f'mcp_gateway_downstream_state{{server="wiki",state="up",{PLACE}}}': "1x120",
    f'mcp_gateway_downstream_state{{server="wiki",state="open",{PLACE}}}': "0x120",
    f'mcp_gateway_downstream_state{{server="wiki",state="quarantined",{PLACE}}}': "0x120",
    f'mcp_gateway_downstream_state{{server="wiki",state="waiting for consent",{PLACE}}}': "0x120",
    f'mcp_gateway_downstream_restarts_total{{server="wiki",reason="exit",{PLACE}}}': "1x120",
    f'mcp_gateway_quarantined_tools{{server="wiki",{PLACE}}}': "0x120",
    f'mcp_gateway_tool_calls_total{{server="wiki",tool="t",outcome="ok",{PLACE}}}': "0+60x120",
    f'mcp_gateway_tool_calls_total{{server="wiki",tool="t",outcome="timeout",{PLACE}}}': "0+1x120",
    f'mcp_gateway_client_calls_total{{client="bot",outcome="denied",{PLACE}}}': "0+12x120",
    f'mcp_gateway_ratelimit_refused_total{{client="bot",scope="rate",{PLACE}}}': "0+6x120",
    f'mcp_gateway_auth_failures_total{{kind="key",reason="unknown",{PLACE}}}': "0+6x120",
    f"mcp_gateway_approvals_pending{{{PLACE}}}": "0x120",
    f'mcp_client_operation_duration_seconds_bucket{{{CALLS},le="30"}}': "0+60x120",
    f'mcp_client_operation_duration_seconds_bucket{{{CALLS},le="60"}}': "0+60x120",
    f'mcp_client_operation_duration_seconds_bucket{{{CALLS},le="+Inf"}}': "0+60x120",
    f"mcp_client_operation_duration_seconds_count{{{CALLS}}}": "0+60x120",
    f'mcp_gateway_gateway_overhead_seconds_bucket{{era="modern",le="0.1",{PLACE}}}': "0+60x120",
    f'mcp_gateway_gateway_overhead_seconds_bucket{{era="modern",le="0.2",{PLACE}}}': "0+60x120",
    f'mcp_gateway_gateway_overhead_seconds_bucket{{era="modern",le="+Inf",{PLACE}}}': "0+60x120",
    f'mcp_gateway_gateway_overhead_seconds_count{{era="modern",{PLACE}}}': "0+60x120",
    f'mcp_gateway_event_loop_lag_seconds_bucket{{le="0.2",{PLACE}}}': "0+60x120",
    f'mcp_gateway_event_loop_lag_seconds_bucket{{le="0.5",{PLACE}}}': "0+60x120",
    f'mcp_gateway_event_loop_lag_seconds_bucket{{le="+Inf",{PLACE}}}': "0+60x120",
}


def slow(family: str, fast: str) -> dict[str, str]:
    """Return changes after which a tenth of what a histogram sees is over its lowest border."""
    return {name: "0+54x120" for name in HEALTHY if name.startswith(f"{family}_bucket") and f'le="{fast}"' in name}


STOPS: Final = "1x60 _x60"
Case: TypeAlias = tuple[str, Mapping[str, str], frozenset[str]]
CASES: Final[list[Case]] = [
    ("a healthy gateway", {}, frozenset()),
    (
        "it cannot be scraped",
        {f"up{{{PLACE}}}": "1x60 0x60", f'mcp_gateway_build_info{{version="1",{PLACE}}}': STOPS},
        frozenset({"McpGatewayDown"}),
    ),
    (
        "another target is down",
        {'up{job="other",instance="x"}': "0x120"},
        frozenset(),
    ),
    (
        "it restarts",
        {f"process_start_time_seconds{{{PLACE}}}": "0x75 100x4 200x4 300x40"},
        frozenset({"McpGatewayRestarting"}),
    ),
    ("a drain that hangs", {f"mcp_gateway_draining{{{PLACE}}}": "0x60 1x60"}, frozenset({"McpGatewayDrainStuck"})),
    (
        "a bad reload",
        {f"mcp_gateway_config_reload_success{{{PLACE}}}": "1x60 0x60"},
        frozenset({"McpGatewayConfigReloadFailed"}),
    ),
    (
        "a certificate that nobody renews",
        {f"mcp_gateway_certificate_expiry_timestamp_seconds{{{PLACE}}}": "864000x120"},
        frozenset({"McpGatewayCertificateExpires"}),
    ),
    (
        "no certificate",
        {f"mcp_gateway_certificate_expiry_timestamp_seconds{{{PLACE}}}": "0x120"},
        frozenset(),
    ),
    (
        "the shared store is away",
        {f"mcp_gateway_ratelimit_degraded{{{PLACE}}}": "1x120"},
        frozenset({"McpGatewayStoreDegraded"}),
    ),
    (
        "the shared database is away",
        {f"mcp_gateway_database_up{{{PLACE}}}": "0x120"},
        frozenset({"McpGatewayDatabaseUnreachable"}),
    ),
    (
        "two configs",
        {'mcp_gateway_config_info{sha256="bb",job="gw",instance="gw-1"}': "1x120"},
        frozenset({"McpGatewayConfigDiffers"}),
    ),
    (
        "the first failed write",
        {f'mcp_gateway_audit_write_errors_total{{reason="enospc",{PLACE}}}': "_x98 1x22"},
        frozenset({"McpGatewayAuditFailing"}),
    ),
    (
        "writes that fail on",
        {f'mcp_gateway_audit_write_errors_total{{reason="enospc",{PLACE}}}': "1+1x120"},
        frozenset({"McpGatewayAuditFailing"}),
    ),
    (
        "writes that failed long ago",
        {f'mcp_gateway_audit_write_errors_total{{reason="enospc",{PLACE}}}': "1x120"},
        frozenset(),
    ),
    (
        "records without a disk",
        {f"mcp_gateway_audit_dropped_total{{{PLACE}}}": "0x95 0+5x25"},
        frozenset({"McpGatewayAuditRecordsLost"}),
    ),
    (
        "a gap",
        {f'mcp_gateway_audit_records_total{{event="audit.gap",{PLACE}}}': "_x90 1x30"},
        frozenset({"McpGatewayAuditDamaged"}),
    ),
    (
        "no checkpoints",
        {f"mcp_gateway_audit_last_checkpoint_timestamp_seconds{{{PLACE}}}": "60x120"},
        frozenset({"McpGatewayAuditNotSigned"}),
    ),
    (
        "no checkpoints, and nothing to sign",
        {
            f"mcp_gateway_audit_last_checkpoint_timestamp_seconds{{{PLACE}}}": "60x120",
            f'mcp_gateway_audit_records_total{{event="call.end",{PLACE}}}': "10x120",
        },
        frozenset(),
    ),
    ("a slow disk", {f"mcp_gateway_audit_lag_records{{{PLACE}}}": "5000x120"}, frozenset({"McpGatewayAuditLag"})),
    (
        "a sink that fails",
        {f'mcp_gateway_audit_sink_failures_total{{sink="otlp",{PLACE}}}': "1+1x120"},
        frozenset({"McpGatewayAuditSinkBehind"}),
    ),
    (
        "records that a sink refused",
        {f'mcp_gateway_audit_sink_records_total{{sink="otlp",result="dead",{PLACE}}}': "_x90 1x30"},
        frozenset({"McpGatewayAuditSinkLost"}),
    ),
    (
        "a server that is gone",
        {f'mcp_gateway_downstream_up{{server="wiki",{PLACE}}}': "1x60 0x60"},
        frozenset({"McpGatewayServerDown"}),
    ),
    (
        "a server that waits for somebody's consent",
        {
            f'mcp_gateway_downstream_up{{server="wiki",{PLACE}}}': "0x120",
            f'mcp_gateway_downstream_state{{server="wiki",state="waiting for consent",{PLACE}}}': "1x120",
        },
        frozenset(),
    ),
    (
        "a server that fails again and again",
        {f'mcp_gateway_downstream_state{{server="wiki",state="open",{PLACE}}}': "1 0 0 1 0 0 1 0 0 1 0 0 " * 10},
        frozenset({"McpGatewayServerEjected"}),
    ),
    (
        "a server that keeps ending",
        {f'mcp_gateway_downstream_restarts_total{{server="wiki",reason="exit",{PLACE}}}': "0+1x120"},
        frozenset({"McpGatewayServerFlapping"}),
    ),
    (
        "a server that is somebody else",
        {
            f'mcp_gateway_downstream_up{{server="wiki",{PLACE}}}': "0x120",
            f'mcp_gateway_downstream_state{{server="wiki",state="quarantined",{PLACE}}}': "1x120",
        },
        frozenset({"McpGatewayServerQuarantined"}),
    ),
    (
        "a tool that changed",
        {f'mcp_gateway_quarantined_tools{{server="wiki",{PLACE}}}': "1x120"},
        frozenset({"McpGatewayToolsHeldBack"}),
    ),
    (
        "calls that fail",
        {f'mcp_gateway_tool_calls_total{{server="wiki",tool="t",outcome="timeout",{PLACE}}}': "0+10x120"},
        frozenset({"McpGatewayServerErrors"}),
    ),
    ("a slow server", slow("mcp_client_operation_duration_seconds", "30"), frozenset({"McpGatewayServerSlow"})),
    (
        "a client that is refused all at once",
        {f'mcp_gateway_client_calls_total{{client="bot",outcome="denied",{PLACE}}}': "0+1x78 80+30x41"},
        frozenset({"McpGatewayRefusals"}),
    ),
    (
        "a client nobody knew that is refused",
        {f'mcp_gateway_client_calls_total{{client="new",outcome="denied",{PLACE}}}': "_x80 0+30x40"},
        frozenset({"McpGatewayRefusals"}),
    ),
    (
        "a client over its limit",
        {f'mcp_gateway_ratelimit_refused_total{{client="bot",scope="rate",{PLACE}}}': "0+120x120"},
        frozenset({"McpGatewayLimited"}),
    ),
    (
        "somebody guesses",
        {f'mcp_gateway_auth_failures_total{{kind="key",reason="unknown",{PLACE}}}': "0+120x120"},
        frozenset({"McpGatewayAuthFailures"}),
    ),
    (
        "an authorization server that is gone",
        {f'mcp_gateway_auth_failures_total{{kind="jwt",reason="keys_unavailable",{PLACE}}}': "0+3x120"},
        frozenset({"McpGatewayKeysUnavailable"}),
    ),
    (
        "a webhook that is gone",
        {f'mcp_gateway_alert_deliveries_total{{result="dropped",{PLACE}}}': "_x90 1x30"},
        frozenset({"McpGatewayAlertsNotDelivered"}),
    ),
    (
        "a call that waits for somebody",
        {f"mcp_gateway_approvals_pending{{{PLACE}}}": "1x120"},
        frozenset({"McpGatewayApprovalsWaiting"}),
    ),
    ("a slow gateway", slow("mcp_gateway_gateway_overhead_seconds", "0.1"), frozenset({"McpGatewayOverhead"})),
    ("too little CPU", slow("mcp_gateway_event_loop_lag_seconds", "0.2"), frozenset({"McpGatewayEventLoopLag"})),
    (
        "many open files",
        {f"process_open_fds{{{PLACE}}}": "900x120"},
        frozenset({"McpGatewayFileDescriptors"}),
    ),
    (
        "many open files of another program",
        {'process_open_fds{job="o",instance="x"}': "9x120", 'process_max_fds{job="o",instance="x"}': "10x120"},
        frozenset(),
    ),
    (
        "a metric that is full",
        {f'mcp_gateway_metrics_series_dropped_total{{metric="tool_calls_total",{PLACE}}}': "0+1x120"},
        frozenset({"McpGatewaySeriesDropped"}),
    ),
    (
        "a collector that is gone",
        {f'mcp_gateway_spans_total{{result="lost",{PLACE}}}': "0+100x120"},
        frozenset({"McpGatewaySpansLost"}),
    ),
]


def together(cases: Sequence[Case]) -> Json:
    """Write cases as Prometheus' checker reads them, each a job of its own: one database for all of them is quicker."""
    series, samples = [], []
    for number, (_, changes, fires) in enumerate(cases):
        job = f'job="{number}"'
        for key, values in {**HEALTHY, **changes}.items():
            series.append({"series": key.replace('job="gw"', job), "values": values})
        samples += [{"labels": f'{{alertname="{alert}", {job}}}', "value": 1} for alert in sorted(fires)]
    asked = 'group by (alertname, job) (ALERTS{alertstate="firing",job!~"other|"})'
    return {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [{"expr": asked, "eval_time": "100m", "exp_samples": samples}],
    }


NOBODY: Final[Json] = {
    "interval": "1m",
    "input_series": [{"series": 'up{job="other",instance="x"}', "values": "1x120"}],
    "promql_expr_test": [
        {
            "expr": 'group by (alertname) (ALERTS{alertstate="firing"})',
            "eval_time": "100m",
            "exp_samples": [{"labels": '{alertname="McpGatewayAbsent"}', "value": 1}],
        }
    ],
}


def test_every_alert_fires_when_it_should_and_no_other_does(tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(FILE)], "evaluation_interval": "5m", "tests": [together(CASES), NOBODY]})
    )

    done = promtool("test", "rules", file)

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case() -> None:
    fired = {alert for _, _, fires in CASES for alert in fires}
    assert fired | {"McpGatewayAbsent"} == {named(rule) for rule in RULES}


@pytest.mark.parametrize("series", HEALTHY)
def test_the_cases_speak_of_metrics_that_there_are(series: str) -> None:
    assert strangers(re.sub(r',?le="[^"]*"|version="1",|sha256="aa",', "", series)) == []
