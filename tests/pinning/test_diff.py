"""Differences as people read them."""

from __future__ import annotations

from gateway.pinning import diff
from gateway.pinning.diff import MAX_LINES, MAX_TEXT, Line
from gateway.pinning.fingerprint import text_of
from gateway.protocol import rawjson
from tests.kit.definitions import tool


def canonical(value: object) -> str:
    return rawjson.canonical(value).decode()


def test_members_are_named_by_pointer() -> None:
    before = {"description": "a", "inputSchema": {"properties": {"a/b": {"type": "string"}, "~": 1}}, "old": None}
    after = {"description": "b", "inputSchema": {"properties": {"a/b": {"type": "number"}, "~": 1}}, "new": [1]}
    assert diff.lines(canonical(before), canonical(after)) == (
        Line("/description", "a", "b"),
        Line("/inputSchema/properties/a~1b/type", "string", "number"),
        Line("/old", "null", None),
        Line("/new", None, "[1]"),
    )


def test_items_of_lists_are_compared_in_their_places() -> None:
    assert diff.lines('{"a":[1,2,3]}', '{"a":[1,4]}') == (Line("/a/1", "2", "4"), Line("/a/2", "3", None))


def test_what_hides_is_made_visible() -> None:
    """S138: a diff shows what a terminal would not."""
    [line] = diff.lines(text_of(tool("t", description="ab")), text_of(tool("t", description="a\u200b\u202e\x1b[2Kb")))
    assert line == Line("/description", "ab", "a\\u200b\\u202e\\x1b[2Kb")


def test_a_long_text_is_shown_around_what_differs() -> None:
    [line] = diff.texts("x" * 5000 + "old", "x" * 5000 + "new" + "y" * 5000)
    assert line.before == "…" + "x" * 40 + "old"
    assert line.after is not None
    assert line.after.startswith("…" + "x" * 40 + "newyyy")
    assert len(line.after) <= MAX_TEXT + 1


def test_a_server_that_changes_everything_gets_a_bounded_diff() -> None:
    found = diff.lines(canonical({str(n): 1 for n in range(500)}), canonical({str(n): 2 for n in range(500)}))
    assert len(found) == MAX_LINES
    assert found[-1].after == "more members differ"


def test_something_new_is_shown_whole_and_equal_texts_not_at_all() -> None:
    assert diff.lines("", canonical({"name": "t"})) == (Line("", None, '{"name":"t"}'),)
    assert diff.lines('{"a":1}', '{"a":1}') == ()
    assert diff.texts("a", "a") == ()
    assert diff.lines("{", '{"a":1}')[0].before == "{"


def test_true_and_one_are_not_the_same() -> None:
    assert diff.lines('{"a":1}', '{"a":true}') == (Line("/a", "1", "true"),)


def test_a_line_is_written_for_json() -> None:
    assert Line("/a", None, "b").value() == {"pointer": "/a", "before": None, "after": "b"}
