from __future__ import annotations

import argparse
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli.output import Output, add_common, config_path, escaped, wants_json

ROWS = [("wiki", "3 tools"), ("a-longer-name", "")]


def printed(*, terminal: bool) -> str:
    stream = io.StringIO()
    Output(stream, terminal).table(("server", "state"), ROWS)
    return stream.getvalue()


def test_a_terminal_gets_aligned_columns_under_headings() -> None:
    assert printed(terminal=True) == "SERVER         STATE\nwiki           3 tools\na-longer-name\n"


def test_a_pipe_gets_plain_lines_without_tabs() -> None:
    assert printed(terminal=False) == "wiki  3 tools\na-longer-name  -\n"


def test_control_characters_never_reach_a_terminal() -> None:
    stream = io.StringIO()
    output = Output(stream, True)
    output.line("a\x1b]0;title\x07b\nc\u202ed\x00")
    output.table(("x",), [("\x1b[31mred\r\n",)])
    text = stream.getvalue()
    assert "a\\x1b]0;title\\x07b\\nc\\u202ed\\x00\n" in text
    assert not set(text) & set("\x1b\x07\r\x00\u202e\t")
    assert text.count("\n") == 3


def test_printable_text_stays_as_it_is() -> None:
    assert escaped("naïve – 日本語 \\n") == "naïve – 日本語 \\n"


def test_a_value_is_one_line_of_json() -> None:
    stream = io.StringIO()
    Output(stream, True).value({"a": ["\x1b", "é"]})
    assert json.loads(stream.getvalue()) == {"a": ["\x1b", "é"]}
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize(
    ("words", "path", "as_json"),
    [
        (["run"], "gateway.yaml", False),
        (["-c", "a", "run"], "a", False),
        (["run", "-c", "b"], "b", False),
        (["-c", "a", "run", "-c", "b", "--json"], "b", True),
        (["--json", "--config", "a", "run"], "a", True),
    ],
)
def test_common_options_work_before_and_behind_the_command(words: list[str], path: str, as_json: bool) -> None:
    parser = argparse.ArgumentParser()
    add_common(parser)
    add_common(parser.add_subparsers().add_parser("run"))
    args = parser.parse_args(words)
    assert (config_path(args), wants_json(args)) == (Path(path), as_json)


def test_headings_and_states_are_coloured_where_that_is_wanted() -> None:
    stream = io.StringIO()
    Output(stream, True, True).table(("server", "state"), [("up-to-date", "up"), ("wiki", "failed"), ("x", "upper")])
    assert stream.getvalue() == (
        "\x1b[1mSERVER\x1b[0m      \x1b[1mSTATE\x1b[0m\n"
        "up-to-date  \x1b[32mup\x1b[0m\nwiki        \x1b[31mfailed\x1b[0m\nx           upper\n"
    )


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({}, False)],
)
def test_colours_are_for_terminals_that_have_them_and_people_who_want_them(
    variables: dict[str, str], coloured: bool
) -> None:
    ours, theirs = pty.openpty()
    program = "from gateway.cli.output import Output; Output.standard().table(('a',), [('up',)])"
    try:
        subprocess.run([sys.executable, "-c", program], env=variables, stdout=theirs, timeout=20, check=True)
        shown = os.read(ours, 1000)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (b"\x1b[" in shown) is coloured
    assert b"A" in shown
