"""``tools --as``: what somebody sees and why the rest is hidden."""

from __future__ import annotations

import io
import json

import pytest

from gateway.cli import tools
from gateway.cli.main import main
from gateway.cli.output import Output
from gateway.protocol.rawjson import Object
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


def test_what_lists_cost_is_said_by_server_and_what_a_view_in_search_mode_lists() -> None:
    stream = io.StringIO()
    weights: Object = {"wiki": {"tools": 1, "approx_tokens": 20}, "crm": {"tools": 2, "approx_tokens": 7}}
    seen: Object = {"principal": "key:bot", "tools": [], "approx_tokens": 27, "servers": weights}
    tools.show({**seen, "view": "desk", "mode": "search"}, Output(stream, terminal=False))
    assert stream.getvalue() == (
        "key:bot sees 0 tools (about 27 tokens) through view desk\n"
        "the view lists three tools to search, describe and call them\n"
        "of wiki: 1 (about 20 tokens)\nof crm: 2 (about 7 tokens)\n"
    )
