"""The method table against the specification's pages of both eras."""

from __future__ import annotations

import pytest

from gateway.protocol import methods
from gateway.protocol.methods import METHODS, Role
from gateway.protocol.versions import Era

MODERN = {
    "server/discover",
    "subscriptions/listen",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "completion/complete",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
}
LEGACY = MODERN - {"server/discover", "subscriptions/listen", "tasks/update"} | {
    "tasks/result",
    "tasks/list",
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
}


@pytest.mark.parametrize(("era", "names"), [(Era.MODERN, MODERN), (Era.LEGACY, LEGACY)])
def test_each_era_has_exactly_its_methods(era: Era, names: set[str]) -> None:
    assert {name for name in METHODS if methods.lookup(name, era) is not None} == names


@pytest.mark.parametrize(
    "name",
    ["", "TOOLS/CALL", "tools/call ", "tools/call\n", "tools", "rpc.discover", "tasks/gets", "elicitation/create"],
)
def test_names_are_looked_up_exactly(name: str) -> None:
    assert methods.lookup(name, Era.MODERN) is None
    assert methods.lookup(name, Era.LEGACY) is None


def test_exactly_the_methods_that_name_one_thing_have_a_name_header() -> None:
    """2026-07-28 streamable-http §Standard Request Headers; Tasks extension §Routing Headers."""
    assert {row.name: row.target for row in METHODS.values() if row.target is not None} == {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
        "tasks/get": "taskId",
        "tasks/update": "taskId",
        "tasks/cancel": "taskId",
        "tasks/result": "taskId",
    }


def test_exactly_three_methods_may_be_answered_with_a_question() -> None:
    """2026-07-28 basic/patterns/mrtr §Supported Requests; those take the answers too."""
    asking = {row.name for row in METHODS.values() if row.may_ask}
    assert asking == {"tools/call", "prompts/get", "resources/read"}
    assert asking == {row.name for row in METHODS.values() if "requestState" in row.members}


def test_six_results_can_be_cached() -> None:
    """2026-07-28 server/utilities/caching §Cacheable Results."""
    assert {row.name for row in METHODS.values() if row.cacheable} == {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }


def test_rows_agree_with_their_own_names() -> None:
    for name, row in METHODS.items():
        assert row.name == name
        assert row.eras
        assert row.target is None or row.target in row.members
        assert "_meta" not in row.members
        assert (row.role is Role.LIST) == (name.endswith("/list") and name != "tasks/list")
        assert (row.role is Role.TASK) == name.startswith("tasks/")


@pytest.mark.parametrize("name", ["search/run", "com.example/x", "x", "skills/list", "ui/initialize", "a:b-c_d$"])
def test_a_method_outside_the_cores_names_can_be_an_extensions(name: str) -> None:
    row = methods.of_extension(name)
    assert row is not None
    assert (row.name, row.role, row.opaque, row.may_ask) == (name, Role.CALL, True, False)


@pytest.mark.parametrize(
    "name",
    [
        *("", "tools/x", "TOOLS/CALL", "tools", "tools.x", "tasks/get", "roots/list", "sampling/createMessage", "ping"),
        *("notifications/x", "rpc.discover", "a b", "a\n", "ä", "x" * 129, "initialize", "server/x"),
    ],
)
def test_what_is_or_could_be_the_cores_is_no_extensions(name: str) -> None:
    assert methods.of_extension(name) is None


@pytest.mark.parametrize(
    ("name", "core"),
    [
        ("notifications/progress", True),
        ("notifications/cancelled", True),
        ("notifications/tools/list_changed", True),
        ("notifications/tasks", True),
        ("notifications/search/found", False),
        ("search/found", False),
    ],
)
def test_notifications_of_the_core_are_told_from_those_of_extensions(name: str, core: bool) -> None:
    assert methods.is_core(name) is core
