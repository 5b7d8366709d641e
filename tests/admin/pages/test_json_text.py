"""JSON is laid out and never changed."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admin.pages.json_text import MAX_SHOWN, laid_out
from gateway.protocol import rawjson
from tests.kit.pages import check


def shown(source: str) -> str:
    found = laid_out(source)
    check(found)
    return html.unescape(re.sub(r"<[^>]*>", "", found.text))


def test_members_stand_on_lines_of_their_own() -> None:
    assert shown('{"a":1,"b":[true,{}],"c":[]}') == ('{\n  "a": 1,\n  "b": [\n    true,\n    {}\n  ],\n  "c": []\n}')


@pytest.mark.parametrize("number", ["12345678901234567890", "1.10", "1e400", "-0"])
def test_numbers_keep_their_digits(number: str) -> None:
    assert shown(f'{{"n":{number}}}') == f'{{\n  "n": {number}\n}}'


def test_what_looks_like_structure_inside_a_text_is_none() -> None:
    assert shown('{"a":"{\\"x\\": [1,2]}"}') == '{\n  "a": "{\\"x\\": [1,2]}"\n}'


def test_what_hides_is_seen() -> None:
    assert "U+202E" in laid_out('"a\u202eb"').text


@pytest.mark.parametrize("broken", ["", '"', "{{{", "]]]", '{"a', "}{", ":", "\\", "{" * 500])
def test_what_is_no_json_is_shown_all_the_same(broken: str) -> None:
    assert re.sub(r"\s", "", shown(broken)) == broken


def test_a_long_text_is_cut_and_says_so() -> None:
    assert "Cut after" in laid_out('"' + "x" * MAX_SHOWN + '"').text


def test_a_text_that_does_not_end_is_shown_in_one_go() -> None:
    broken = '"' + '\\"' * 100_000
    assert shown(broken) == broken


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text('ab{}[],:"\\ <>&', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab"\\,', max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_the_text_without_our_white_space_is_the_text(value: object) -> None:
    source = rawjson.encode(value).decode()
    laid = shown(source)
    assert rawjson.decode_value(laid.encode()) == rawjson.decode_value(source.encode())
