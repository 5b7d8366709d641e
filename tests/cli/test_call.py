"""``call``: one call through every check."""

from __future__ import annotations

import json

import pytest

from gateway.cli.call import show
from gateway.cli.main import main
from gateway.cli.output import Output
from gateway.protocol.rawjson import Value
from tests.kit.gateway import Gateway


def test_a_call_prints_its_result_once(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    """The notes server says everything twice: as text and structured."""
    assert main(["call", "notes/add_note", '{"title":"a","text":"b"}', "--as", "bot", "-c", str(gateway.file)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["title"] == "a"


def test_texts_and_structured_content_that_differ_are_both_printed(capsys: pytest.CaptureFixture[str]) -> None:
    content: list[Value] = [{"type": "text", "text": "two\n\tlines"}, {"type": "image", "data": "AA=="}]
    show({"result": {"content": content, "structuredContent": {"n": 2}}}, Output.standard())
    assert capsys.readouterr().out.splitlines() == [
        "two",
        "        lines",
        '{"type":"image","data":"AA=="}',
        '{"n":2}',
    ]


def test_what_policy_hides_is_unknown_to_the_call_as_well(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "notes/delete_note", '{"id":"n1"}', "--as", "bot", "-c", str(gateway.file)]) == 1
    told = capsys.readouterr()
    assert "error -32602: Unknown tool: notes__delete_note" in told.out
    assert "tools --as bot" in told.err


def test_json_prints_the_whole_answer(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "notes/whoami", "--as", "bot", "--json", "-c", str(gateway.file)]) == 0
    assert json.loads(capsys.readouterr().out)["result"]["structuredContent"]["dataset"] == "d"


@pytest.mark.parametrize("arguments", ["{", "[]", '{"a":1,"a":2}', "nonsense"])
def test_arguments_that_are_no_object_are_refused_here(
    gateway: Gateway, arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["call", "notes/whoami", arguments, "-c", str(gateway.file)]) == 2
    assert "call: the arguments" in capsys.readouterr().err


def test_an_act_needs_the_token(
    gateway: Gateway, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S174: and a client's key is none."""
    monkeypatch.setenv("MCP_GATEWAY_ADMIN_TOKEN", "k" * 40)
    assert main(["call", "notes/whoami", "--as", "bot", "-c", str(gateway.file)]) == 2
    assert "Unknown token" in capsys.readouterr().err
