"""The dashboard for Grafana: a file that can be imported, whose panels ask for what the gateway has."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
import yaml

from tests.environments import wanted
from tests.kit.promql import selectors, strangers

Json: TypeAlias = dict[str, Any]

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "charts" / "aiohttp-mcp-gateway" / "files" / "grafana.json"
BOARD: Final[Json] = json.loads(FILE.read_text("utf-8"))
PANELS: Final[list[Json]] = BOARD["panels"]
GRAPHS: Final = [panel for panel in PANELS if panel["type"] != "row"]
ROWS: Final = [
    "Overview",
    "Traffic",
    "Latency",
    "Refusals",
    "Servers",
    "Pins",
    "Audit, alerts and approvals",
    "Process",
]
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
WIDTH: Final = 24


def title(panel: Json) -> str:
    """Return the title of a panel."""
    return str(panel["title"])


def expressions() -> Iterator[tuple[str, str]]:
    """Yield every expression with where it stands."""
    for panel in GRAPHS:
        yield from ((title(panel), target["expr"]) for target in panel["targets"])
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            inside = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert inside is not None, variable
            yield variable["name"], f"sum by ({inside[2]}) ({inside[1]})"
    for note in BOARD["annotations"]["list"]:
        if "expr" in note:
            yield note["name"], note["expr"]


def filled(expression: str) -> str:
    """Put values in the place of Grafana's variables."""
    return expression.replace("$__rate_interval", "5m").replace("$__range", "1h")


def test_it_can_be_imported_anywhere() -> None:
    assert BOARD["id"] is None
    assert re.fullmatch(r"[a-z0-9-]{1,40}", BOARD["uid"])
    assert BOARD["schemaVersion"] >= 36
    assert [row["title"] for row in PANELS if row["type"] == "row"] == ROWS
    names = [variable["name"] for variable in BOARD["templating"]["list"]]
    assert names == ["datasource", "job", "instance", "server"]
    # No address, id or folder of the Grafana that it was made in.
    assert "__inputs" not in BOARD
    sources = {json.dumps(panel["datasource"]) for panel in GRAPHS}
    sources |= {json.dumps(target["datasource"]) for panel in GRAPHS for target in panel["targets"]}
    assert sources == {json.dumps(DATASOURCE)}


def test_ids_are_unique_and_titles_too() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    for row, panels in itertools.groupby(PANELS, key=lambda panel: _row_of(panel)):
        titles = [title(panel) for panel in panels]
        assert len(set(titles)) == len(titles), row


def _row_of(panel: Json) -> str:
    above = [row for row in PANELS if row["type"] == "row" and row["gridPos"]["y"] <= panel["gridPos"]["y"]]
    return title(max(above, key=lambda row: int(row["gridPos"]["y"])))


def test_panels_are_within_the_grid_and_none_covers_another() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in PANELS:
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= WIDTH, title(panel)
        assert place["h"] >= 1
        for cell in itertools.product(
            range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        ):
            assert cell not in taken, f"{title(panel)} covers {taken[cell]}"
            taken[cell] = title(panel)


@pytest.mark.parametrize("panel", GRAPHS, ids=title)
def test_a_panel_asks_for_something_says_its_unit_and_what_it_means(panel: Json) -> None:
    assert panel["type"] in ("stat", "timeseries", "table", "state-timeline")
    assert panel["targets"]
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["description"].endswith(".")


@pytest.mark.parametrize(("where", "expression"), [*expressions()])
def test_an_expression_speaks_of_metrics_labels_and_values_that_there_are(where: str, expression: str) -> None:
    assert strangers(filled(expression)) == [], where
    if where not in ("job", "instance", "server"):
        # Whoever watches two gateways wants to look at one.
        assert 'job=~"$job"' in expression


def test_prometheus_takes_every_expression(tmp_path: Path) -> None:
    command = wanted.promtool()
    if command is None:
        pytest.skip("promtool is not here: it comes from Debian's archive (make environments)")
    rules = [{"record": f"check:{number}", "expr": filled(text)} for number, (_, text) in enumerate(expressions())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run([command, "check", "rules", file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_of_the_gateway_is_somewhere_on_it() -> None:
    """But for the sums and counts of histograms whose buckets are there."""
    asked = {selector.metric for _, text in expressions() for selector in selectors(filled(text))}
    shown = {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked}
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    documented = set(re.findall(r"^\| `(mcp_\w+)` \|", page, re.MULTILINE))
    missing = {name for name in documented if name not in shown | asked}
    assert missing <= {
        "mcp_gateway_draining",
        "mcp_gateway_config_reloads_total",
        "mcp_gateway_jwks_fetches_total",
        "mcp_gateway_streams_closed_total",
    }
