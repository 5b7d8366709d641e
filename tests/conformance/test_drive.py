"""The driver itself: what it finds for a scenario, and the user it has at hand."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from tests.conformance import drive
from tests.conformance.drive import Task, consenting, longest
from tests.conformance.front import answer
from tests.kit.gateway import Gateway

TASK = Task("auth/scope-step-up", "2026-07-28", "http://localhost:1234/mcp", {})


def test_the_longest_prefix_of_a_scenarios_name_decides() -> None:
    assert longest({"": 1, "auth/": 2, "auth/scope-": 3, "auth/scope-retry": 4}, TASK) == 3
    assert longest({"sse": 1}, TASK) is None


def test_a_server_is_named_after_scenario_and_port() -> None:
    assert TASK.server == "auth-scope-step-up-http-localhost-1234-mcp"


def test_a_user_is_at_hand_until_the_end_and_what_goes_wrong_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [Event(), Event()]

    def consent(gateway: Gateway, task: Task) -> None:
        assert task is TASK
        if asked[0].is_set():
            asked[1].set()
            raise AssertionError("the page could not be fetched")
        asked[0].set()

    monkeypatch.setattr(drive, "CONSENTS", {"auth/": consent})
    gateway = Gateway(tmp_path, {})

    with pytest.raises(AssertionError, match="the page could not be fetched"), consenting(gateway, TASK):
        assert asked[1].wait(5)


def test_a_form_is_answered_with_its_defaults() -> None:
    fields = {"name": {"type": "string", "default": "x"}, "sure": {"type": "boolean"}, "age": {"type": "integer"}}

    said = answer("elicitation/create", {"requestedSchema": {"properties": fields}})

    assert said == {"action": "accept", "content": {"name": "x", "sure": True}}
