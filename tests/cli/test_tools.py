"""``tools --as``: what somebody sees and why the rest is hidden."""

from __future__ import annotations

import json

import pytest

from gateway.cli.main import main
from tests.kit.gateway import Gateway


def test_a_client_sees_its_tools_and_hears_why_others_are_hidden(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tools", "--as", "bot", "-c", str(gateway.file)]) == 0
    text = capsys.readouterr().out
    assert "notes__whoami  notes/whoami" in text
    [why] = [line for line in text.splitlines() if line.startswith("notes/delete_note")]
    assert "deny[0]" in why


def test_a_principal_that_sees_nothing_is_a_finding(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    """G075."""
    assert main(["tools", "--as", "anonymous", "--json", "-c", str(gateway.file)]) == 1
    assert json.loads(capsys.readouterr().out)["tools"] == []


def test_an_unknown_principal_lists_the_known_ones(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", "--as", "bott", "-c", str(gateway.file)]) == 2
    assert 'no client "bott" is configured (configured: bot' in capsys.readouterr().err
