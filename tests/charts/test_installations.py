"""The alert rules with several installations and replicas: told apart, and what replicas share told once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
import yaml

from tests.charts.test_alerts import FILE, RULES, named, promtool

Json: TypeAlias = dict[str, Any]

# Two installations of one name in Kubernetes, each with a config of its own and two replicas that share approvals.
NEIGHBOURS: Final = [
    f'job="gw-admin",namespace="{namespace}",pod="gw-{number}",instance="10.0.{second}.{number}:9090"'
    for second, namespace in enumerate(("staging", "production"))
    for number in range(2)
]
TWO_INSTALLATIONS: Final[Json] = {
    "interval": "1m",
    "input_series": [
        {"series": f"{metric}{{{more}{place}}}", "values": values}
        for place in NEIGHBOURS
        for metric, more, values in (
            ("mcp_gateway_build_info", "", "1x120"),
            ("mcp_gateway_config_info", f'sha256="{place.split(chr(34))[3]}",', "1x120"),
            ("mcp_gateway_approvals_pending", "", "2x120" if "production" in place else "0x120"),
            ("mcp_gateway_quarantined_tools", 'server="wiki",', "3x120" if "production" in place else "0x120"),
            ("mcp_gateway_tool_calls_total", 'server="wiki",tool="t",outcome="ok",', "0+60x120"),
            (
                "mcp_gateway_tool_calls_total",
                'server="wiki",tool="t",outcome="timeout",',
                "0+10x120" if "production" in place else "0x120",
            ),
        )
    ],
    "promql_expr_test": [
        {
            "expr": 'count by (alertname, namespace) (ALERTS{alertstate="firing"})',
            "eval_time": "100m",
            "exp_samples": [
                {"labels": f'{{alertname="{alert}", namespace="production"}}', "value": 1}
                for alert in ("McpGatewayApprovalsWaiting", "McpGatewayServerErrors", "McpGatewayToolsHeldBack")
            ],
        }
    ],
}


def test_installations_of_one_name_are_told_apart_and_what_replicas_share_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(FILE)], "evaluation_interval": "5m", "tests": [TWO_INSTALLATIONS]})
    )

    done = promtool("test", "rules", file)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_alerts_keep_the_label_by_which_they_are_routed(rule: Json) -> None:
    """In Kubernetes an AlertmanagerConfig takes the alerts of its own namespace only."""
    for labels in re.findall(r"\bby \(([^)]*)\)", rule["expr"]):
        assert "namespace" in labels.split(", ")
