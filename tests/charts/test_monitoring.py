"""What the chart gives to Prometheus and Grafana: rules that the real checker reads, and texts that no template ate."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from tests.environments import wanted
from tests.kit.chart import CHART, HELMS, config_of, manifests, values_of

Json: TypeAlias = dict[str, Any]

PLAIN = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text("utf-8"))


def groups(more: Json | None = None) -> list[Json]:
    found: list[Json] = manifests("helm", values_of("everything"), more)["PrometheusRule/mcp"]["spec"]["groups"]
    return found


@pytest.mark.parametrize("version", HELMS)
def test_the_rules_are_those_of_the_file_with_their_placeholders(version: str) -> None:
    found = manifests(version, values_of("minimal"), {"metrics": {"rules": {"enabled": True}}})
    plain = found["PrometheusRule/gw-aiohttp-mcp-gateway"]["spec"]["groups"]

    assert plain == PLAIN["groups"]
    assert "{{ $labels." in json.dumps(plain)


def test_prometheus_reads_the_rules(tmp_path: Path) -> None:
    promtool = wanted.promtool()
    if promtool is None:
        pytest.skip("promtool is not to be had here")
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": groups()}))
    done = subprocess.run([promtool, "check", "rules", rules], capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    count = sum(len(group["rules"]) for group in PLAIN["groups"]) + 1
    assert f"{count} rules found" in done.stdout


def test_labels_are_added_to_alerts_and_rules_can_be_left_out() -> None:
    first = PLAIN["groups"][0]["rules"][0]["alert"]
    found = [rule for group in groups({"metrics": {"rules": {"disabled": [first]}}}) for rule in group["rules"]]
    ours = [rule for rule in found if rule["alert"] != "McpGatewayQuiet"]

    assert first not in [rule["alert"] for rule in found]
    assert len(ours) == sum(len(group["rules"]) for group in PLAIN["groups"]) - 1
    assert {rule["labels"]["team"] for rule in ours} == {"platform"}
    assert all(rule["labels"]["severity"] for rule in ours)


@pytest.mark.parametrize(("seconds", "waits"), [(240, "5m"), (600, "660s")])
def test_a_drain_that_is_meant_to_be_long_is_not_told_as_stuck(seconds: int, waits: str) -> None:
    more = {"drainSeconds": seconds, "terminationGracePeriodSeconds": None}
    (rule,) = [rule for group in groups(more) for rule in group["rules"] if rule["alert"] == "McpGatewayDrainStuck"]

    assert rule["for"] == waits


def test_alerts_lead_to_the_page_that_explains_them_where_its_address_is_known() -> None:
    rules = [rule for group in groups() for rule in group["rules"] if rule["alert"] != "McpGatewayQuiet"]
    page = "https://docs.example.com/mcp-gateway/monitoring.html"

    assert {rule["annotations"]["runbook_url"] for rule in rules} == {
        f"{page}#{rule['alert'].lower()}" for rule in rules
    }
    assert all(rule["annotations"]["summary"] for rule in rules)


def test_a_group_with_nothing_left_is_left_out() -> None:
    group = PLAIN["groups"][0]
    without = groups({"metrics": {"rules": {"disabled": [rule["alert"] for rule in group["rules"]]}}})

    assert group["name"] not in [each["name"] for each in without]


def test_the_dashboard_is_the_file() -> None:
    found = manifests("helm", values_of("everything"))["ConfigMap/mcp-dashboard"]

    assert json.loads(found["data"]["mcp.json"]) == json.loads((CHART / "files" / "grafana.json").read_text("utf-8"))
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"]["grafana_folder"] == "MCP"


def test_prometheus_scrapes_the_admin_listener_with_the_token_that_the_gateway_knows() -> None:
    found = manifests("helm", values_of("everything"))
    monitor = found["ServiceMonitor/mcp"]["spec"]
    (endpoint,) = monitor["endpoints"]
    service = found["Service/mcp-admin"]

    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert not monitor["selector"]["matchLabels"].items() <= found["Service/mcp"]["metadata"]["labels"].items()
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert endpoint["authorization"]["credentials"] == {"name": "gateway-metrics", "key": "token"}
    assert config_of(found)["admin"]["metrics_token"] == "${MCP_GATEWAY_METRICS_TOKEN}"
    assert found["ServiceMonitor/mcp"]["metadata"]["labels"]["release"] == "prometheus"


def test_the_panels_of_call_times_show_the_calls_that_have_a_trace() -> None:
    panels = json.loads((CHART / "files" / "grafana.json").read_text("utf-8"))["panels"]
    shown = {panel["title"]: [each.get("exemplar") for each in panel.get("targets", ())] for panel in panels}

    assert [title for title, flags in shown.items() if True in flags] == [
        "Tool calls as clients see them",
        "Own share of a call",
        "Servers, p95",
    ]
