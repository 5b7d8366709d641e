from __future__ import annotations

import pytest

from gateway.config.document import parse
from gateway.config.places import Mapping, Tree
from gateway.config.writing import CannotInsert, insert, render

NEW: Mapping = {"new": {"command": "x", "args": ["-y", "1e5"]}}
LINES = '  new:\n    command: x\n    args: [-y, "1e5"]\n'


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        "1e5",
        "0x1F",
        "007",
        "true",
        "no",
        "null",
        "~",
        "",
        "a: b",
        "#x",
        "${A}",
        "é\u202e",
        "two\nlines",
        "@x",
        "1.5",
        "-",
    ],
)
def test_what_is_written_is_read_as_the_same_text(value: str) -> None:
    servers: dict[str, Tree] = {"s": {"command": value, "args": [value]}}
    assert parse(render(servers).encode(), "x").root == {"servers": servers}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "servers:\n" + LINES),
        ("# only a comment\n", "# only a comment\n\nservers:\n" + LINES),
        ("listen: {port: 1}", "listen: {port: 1}\n\nservers:\n" + LINES),
        ("servers: {}  # none\n", "servers:   # none\n" + LINES),
        (
            "servers:\n  a:\n    command: b  # kept\n\n# about listen\nlisten: {}\n",
            "servers:\n  a:\n    command: b  # kept\n" + LINES + "\n# about listen\nlisten: {}\n",
        ),
        (
            "servers:\n    a:\n        command: b",
            'servers:\n    a:\n        command: b\n    new:\n        command: x\n        args: [-y, "1e5"]\n',
        ),
    ],
)
def test_servers_are_added_behind_the_others_and_nothing_else_changes(before: str, after: str) -> None:
    assert insert(before, NEW) == after


@pytest.mark.parametrize(
    "text",
    [
        "servers: {a: {command: b}}\n",
        '{"servers": {"a": {"command": "b"}}}',
        "servers: [\n",
        "servers:\n  new:\n    command: other\n",
        "servers: []\n",
        "mcpServers: {}\nservers: &a\n  x: {command: y}\n",
    ],
)
def test_a_layout_that_lines_cannot_be_added_to_is_refused(text: str) -> None:
    with pytest.raises(CannotInsert):
        insert(text, NEW)
