"""What is expected of the official suite: whole, with reasons, and told apart from what is found."""

from __future__ import annotations

from typing import Final, Literal

import pytest
import yaml

from tests.conformance.expected import (
    CLIENT_RUNS,
    EXPECTATIONS,
    RUNS,
    Leg,
    checks,
    client_checks,
    client_differences,
    differences,
    named,
)
from tests.conformance.suite import Tally
from tests.conformance.table import BEGIN, END, written
from tests.kit.gateway import ROOT
from tests.kit.peers import environment

PAGE: Final = ROOT / "docs" / "protocol.md"


def test_every_leg_that_is_run_has_numbers_and_no_other() -> None:
    assert {named(leg) for leg in RUNS} == EXPECTATIONS["checks"].keys()
    assert {named(leg) for leg in CLIENT_RUNS} == EXPECTATIONS["client"]["checks"].keys()


@pytest.mark.parametrize("key", ["unmet", "fewer"])
def test_what_is_not_met_is_part_of_a_suite_less_than_whole_and_has_a_reason(key: str) -> None:
    servers_of = {named(leg): servers for leg, servers in RUNS.items()}
    for entry in EXPECTATIONS[key]:
        assert set(entry) == {"suite", "servers", "scenario", "good", "reason"}
        assert 0 <= entry["good"] < EXPECTATIONS["checks"][entry["suite"]][entry["scenario"]]
        assert set(entry["servers"]) <= set(servers_of[entry["suite"]])
        assert len(entry["reason"]) > 20


def test_what_a_client_leaves_out_is_part_of_its_suite_and_has_a_reason() -> None:
    for entry in EXPECTATIONS["client"]["apart"]:
        assert set(entry) == {"suites", "scenario", "others", "reason"}
        assert all(entry["scenario"] in EXPECTATIONS["client"]["checks"][suite] for suite in entry["suites"])
        assert len(entry["reason"]) > 20


def test_a_scenario_that_became_better_is_told_as_well_as_one_that_became_worse_or_warns() -> None:
    leg: Leg = ("0.1", "2025-11-25")
    found = {scenario: Tally(count) for scenario, count in checks(leg).items()}
    found["server-sse-polling"] = Tally(1)
    found["ping"] = Tally(0)
    found["tools-list"].others.append("WARNING x: y")
    found["of-tomorrow"] = Tally(1)

    told = differences(leg, "direct", found)

    assert [line.partition(":")[0] for line in told] == ["ping", "tools-list", "server-sse-polling", "of-tomorrow"]


def test_of_a_client_every_check_that_is_not_good_is_told_unless_it_is_expected_to_be_left_out() -> None:
    leg: Leg = ("0.2", "2026-07-28")
    found = {scenario: Tally(count) for scenario, count in client_checks(leg).items()}
    left_out = [
        "SKIPPED a: did not send a initialize request",
        "SKIPPED b: did not send a notifications/initialized request",
    ]
    found["http-standard-headers"].others.extend(left_out)
    assert client_differences(leg, found) == []

    found["http-standard-headers"].others.pop()
    found["request-metadata"].others.append("WARNING x: y")
    del found["tools_call"]

    assert [line.partition(":")[0] for line in client_differences(leg, found)] == [
        "tools_call",
        "request-metadata",
        "http-standard-headers",
    ]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_scenario_that_a_revision_requires_of_a_server_is_run(
    revision: Literal["2025-11-25", "2026-07-28"],
) -> None:
    """The suite's own lists of what conformance with a revision means, frozen when the revision came out."""
    folder = environment("conformance") / "node_modules" / "conformance-0.2" / "requirements"
    required = yaml.safe_load((folder / f"{revision}.yaml").read_text())

    assert len(required["server"]) >= 30
    assert set(required["server"]) <= checks(("0.2", revision)).keys()
    plain = {scenario for scenario in required["client"] if not scenario.startswith("auth/")}
    assert plain
    assert plain <= client_checks(("0.2", revision)).keys()


def test_the_page_says_what_the_tests_expect() -> None:
    page = PAGE.read_text("utf-8")

    assert written(page) == page, "run `python docs/generate_protocol.py`"


def test_a_page_that_is_old_is_written_anew_and_nothing_else_of_it() -> None:
    page = written(f"before {BEGIN} old {END} after")

    assert page.startswith(f"before {BEGIN}\n")
    assert page.endswith(f"{END} after")
    assert " old " not in page
