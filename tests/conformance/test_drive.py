"""The driver itself: what it finds for a scenario, and how it answers."""

from __future__ import annotations

from tests.conformance import consenting
from tests.conformance.drive import CONFIGS, Task, longest, plain, protected
from tests.conformance.front import answer

TASK = Task("auth/scope-step-up", "2026-07-28", "http://localhost:1234/mcp", {})


def test_the_longest_prefix_of_a_scenarios_name_decides() -> None:
    assert longest(CONFIGS, TASK) is protected
    assert longest(CONFIGS, Task("tools_call", "2026-07-28", TASK.url, {})) is plain
    assert TASK.scenario.startswith(consenting.PREFIX)


def test_a_server_is_named_after_scenario_and_port() -> None:
    assert TASK.server == "auth-scope-step-up-http-localhost-1234-mcp"


def test_a_form_is_answered_with_its_defaults() -> None:
    fields = {"name": {"type": "string", "default": "x"}, "sure": {"type": "boolean"}, "age": {"type": "integer"}}

    said = answer("elicitation/create", {"requestedSchema": {"properties": fields}})

    assert said == {"action": "accept", "content": {"name": "x", "sure": True}}
