from __future__ import annotations

import pytest

from gateway.config import document
from gateway.config.document import MAX_DEPTH, MAX_NODES, parse, resolve
from gateway.config.places import Tree
from gateway.errors import ConfigError, Problem


def refused(text: str | bytes) -> Problem:
    with pytest.raises(ConfigError) as caught:
        parse(text.encode() if isinstance(text, str) else text, "f.yaml")
    (problem,) = caught.value.problems
    assert problem.file == "f.yaml"
    return problem


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("yes", "yes"),
        ("off", "off"),
        ("", None),
        ("~", None),
        ("null", None),
        ("0", 0),
        ("-12", -12),
        ("0123", "0123"),
        ("0x10", "0x10"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("9" * 30, "9" * 30),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("1e999", "1e999"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        (".5", 0.5),
        ("2027-01-01", "2027-01-01"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_plain_scalars_are_read_as_yaml_1_2_reads_them(text: str, value: Tree) -> None:
    found = resolve(text)
    assert (found, type(found)) == (value, type(value))


def test_quoted_scalars_are_text() -> None:
    assert parse(b"a: \"1\"\nb: 'true'\nc: |\n  x\nd: !!str 5\n", "f").root == {
        "a": "1",
        "b": "true",
        "c": "x\n",
        "d": "5",
    }


def test_every_key_and_item_knows_its_line() -> None:
    found = parse(b"a:\n  b:\n    - x\n    - y: 1\n\nc: 2\n", "f")
    assert found.lines == {
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "b", 0): 3,
        ("a", "b", 1): 4,
        ("a", "b", 1, "y"): 4,
        ("c",): 6,
    }


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "is empty"),
        ("# nothing\n", 1, "is empty"),
        ("- a\n", 1, "must be a mapping"),
        ("just words\n", 1, "must be a mapping"),
        ("null\n", 1, "must be a mapping"),
        ("a: 1\n---\nb: 2\n", 2, "more than one document"),
        ("a:\n  b: 1\n  b: 2\n", 3, "there twice"),
        ("a: {b: 1, b: 2}\n", 1, "there twice"),
        ("a:\n\t- x\n", 2, "a tab in the indentation"),
        ("a:\n  b: 1\n c: 2\n", 3, "indentation"),
        ("a: b: c\n", 1, "unexpected colon"),
        ("a: @x\n", 1, "cannot begin with this character"),
        ("deny: [*/delete_*]\n", 1, "begin with * or &"),
        ("a: *nothing\n", 1, "an alias of nothing"),
        ("a: 'x\n\n\n", 4, "closing quote"),
        ("a: [1, 2\nb: 3\n", 2, "comma or a closing bracket"),
        ('a: "\\q"\n', 1, "unknown escape"),
        ("a: !!python/object/apply:os.system [x]\n", 1, "tags are not supported"),
        ("a: !secret x\n", 1, "tags are not supported"),
        ("? [a]\n: b\n", 1, "must be a plain word"),
        ("a: 1\nb: \x07\n", 2, "control character"),
        ("<<: {a: 1}\n", 1, "merge keys"),
    ],
)
def test_what_is_no_single_mapping_is_refused_with_its_line(text: str, line: int, said: str) -> None:
    problem = refused(text)
    assert said in str(problem)
    assert problem.line == line


def test_text_that_is_not_utf8_is_refused_with_its_line() -> None:
    problem = refused(b"a: 1\nb: \xff\n")
    assert (problem.message, problem.line) == ("is not UTF-8", 2)


def test_utf16_is_refused() -> None:
    assert refused("a: 1".encode("utf-16")).message == "is not UTF-8"


def test_a_byte_order_mark_is_ignored() -> None:
    assert parse(b"\xef\xbb\xbfa: 1\n", "f").root == {"a": 1}


def test_the_parser_never_quotes_the_text() -> None:
    secret = "canary7f3e9b"
    for text in (
        f"key: '{secret}\n",
        f"key: *{secret}\n",
        f"key: {secret}: x\n",
        f"key: !{secret} x\n",
        f'k: "\\{secret}"\n',
    ):
        assert secret not in str(refused(text))


def test_anchors_stand_for_what_they_name() -> None:
    assert parse(b"a: &x [1, 2]\nb: *x\n", "f").root == {"a": [1, 2], "b": [1, 2]}


def test_an_alias_inside_its_own_anchor_is_refused() -> None:
    assert "an alias of nothing" in refused("a: &x [*x]\n").message


def test_aliases_count_as_often_as_they_are_used() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert f"more than {MAX_NODES} values" in refused("\n".join(lines)).message


def test_many_values_are_refused_and_nearly_as_many_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_NODES", 200)
    assert parse(b"a: [" + b"x," * 198 + b"]", "f").root
    assert "more than 200 values" in refused("a: [" + "x," * 199 + "]").message


def test_nesting_has_a_bound() -> None:
    assert parse(("a: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)).encode(), "f").root
    for depth in (MAX_DEPTH + 1, 5_000):
        assert "nested deeper" in refused("a: " + "[" * depth).message


def test_json_may_have_tabs_comments_and_trailing_commas() -> None:
    text = """{
\t// a comment with "quotes"
\t"a": "http://x/y", /* and
\tanother */ "b": ["// no comment", 'x'],
\t"c": {"d": 1,},
}
"""
    found = parse(text.encode(), "mcp.json")
    assert found.root == {"a": "http://x/y", "b": ["// no comment", "x"], "c": {"d": 1}}
    assert found.lines[("c",)] == 5


def test_json_escapes_beyond_the_first_plane_are_one_character() -> None:
    assert parse(rb'{"a": "\ud83d\ude00", "\ud83d\ude00": 1}', "f").root == {"a": "😀", "😀": 1}


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    value = parse(rb'{"a": "\ud83d"}', "f").root["a"]
    assert isinstance(value, str)
    value.encode("utf-8")
