"""What alerts are about is there, and where they go is safe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.config_files import CANARY, loaded, only, problems

BASE = "servers: {crm: {command: x}}\n"


def test_selectors_of_servers_and_safe_addresses_are_fine(tmp_path: Path) -> None:
    to = "['https://hooks.example/x', 'http://127.0.0.1:9/y', 'http://[::1]:9/z', 'http://localhost/']"
    assert loaded(tmp_path, f"{BASE}alerts: {{sensitive: [crm/*, 'prompt:crm/x'], to: {to}}}\n").notes == []


def test_a_selector_that_can_match_nothing_is_a_fault(tmp_path: Path) -> None:
    problem = only(problems(tmp_path, f"{BASE}alerts: {{sensitive: [cmr/x]}}\n"))
    assert problem.path == "alerts.sensitive[0]"


@pytest.mark.parametrize("url", [f"http://hooks.example/{CANARY}", f"ftp://{CANARY}", f"{CANARY}"])
def test_an_address_on_which_others_could_read_is_a_fault_that_does_not_show_it(tmp_path: Path, url: str) -> None:
    problem = only(problems(tmp_path, f"{BASE}alerts: {{to: ['{url}']}}\n"))
    assert problem.path == "alerts.to[0]"
    assert CANARY not in str(problem)


def test_a_window_of_nothing_is_a_fault(tmp_path: Path) -> None:
    assert only(problems(tmp_path, "alerts: {rate: {window: 0s}}\n")).path == "alerts.rate.window"
