"""What pages are made of."""

from __future__ import annotations

import pytest

from gateway.admin.pages.markup import join, link
from gateway.admin.pages.parts import (
    MAX_PAGE,
    Field,
    act,
    anchor,
    badge,
    button,
    facts,
    field,
    notice,
    page_of,
    pager,
    search,
    size,
    table,
    when,
)
from tests.kit.pages import HOSTILE, SHOWN, check, visit


def test_everything_escapes_what_it_is_given() -> None:
    whole = join(
        badge(HOSTILE),
        table(HOSTILE, (HOSTILE,), [[HOSTILE, HOSTILE]]),
        facts({HOSTILE: HOSTILE}),
        notice(HOSTILE),
        anchor(link("/x", q=HOSTILE), HOSTILE),
        field(Field("f", HOSTILE, "<v>")),
        field(Field("g", "g", "<v>", tall=True)),
        field(Field("h", "h", "<v>", choices=("", "<v>"))),
    )
    check(whole)
    assert whole.text.count(SHOWN) == 11


def test_a_table_of_nothing_says_so() -> None:
    assert "nothing to show" in table("Rows", ("a",), []).text


def test_a_form_that_acts_has_the_mark_of_its_session_and_one_that_asks_has_not() -> None:
    acting = act(visit(), "/x", {"id": "1"}, button("Go", aria_label="Go there")).text
    assert 'method="post"' in acting
    assert 'name="csrf" value="mark"' in acting
    assert 'aria-label="Go there"' in acting
    asking = search("/x", [Field("q", "q")], "Ask").text
    assert 'method="get"' in asking
    assert "csrf" not in asking


@pytest.mark.parametrize(("given", "page"), [("", 0), ("2", 2), ("-1", 0), ("x", 0), ("9" * 9, 0), ("²", 0)])
def test_a_page_is_a_number(given: str, page: int) -> None:
    assert page_of(visit(page=given)) == page
    assert page_of(visit(page="999999")) == MAX_PAGE


def test_long_lists_have_pages_and_keep_what_was_asked() -> None:
    assert pager(visit(), 10, 10) is None
    first, middle = pager(visit("/a", q="x", done="y"), 25, 10), pager(visit("/a", page="1"), 25, 10)
    assert first is not None
    assert middle is not None
    assert "/ui/a?q=x&amp;page=1" in first.text
    assert "previous" not in first.text
    assert "11 to 20 of 25" in middle.text
    assert "previous" in middle.text


def test_times_and_sizes_are_for_people() -> None:
    assert "2026-08-23 10:00:00 UTC" in when("2026-08-23T10:00:00.123456Z").text
    assert "2026-08-23 10:00:00 UTC" in when("2026-08-23T10:00:00+00:00").text
    assert when("").text == "–"
    assert [size(count) for count in (12, 2048, 3 * 2**20, 5 * 2**30)] == ["12 B", "2 KiB", "3 MiB", "5 GiB"]
