"""The frame around pages."""

from __future__ import annotations

from gateway.admin.pages.layout import PLACES, bare, frame
from gateway.admin.pages.markup import el
from gateway.admin.pages.visit import Page
from tests.kit.pages import HOSTILE, SHOWN, check, visit


def test_the_frame_leads_everywhere_and_says_where_one_is() -> None:
    shown = frame(Page(HOSTILE, el("p", None, "x")), visit("/pins/server"), 3)
    check(shown)
    assert shown.text.count(SHOWN) == 2
    assert all(f'href="/ui{path}"' in shown.text for path, _ in PLACES)
    assert shown.text.count("aria-current") == 1
    assert '<a href="/ui/pins" aria-current="page">' in shown.text
    assert '<span class="count">3</span>' in shown.text
    assert 'lang="en"' in shown.text


def test_a_page_that_changes_can_be_had_again_and_again() -> None:
    page = Page("t", el("p"), live=True)
    assert "/ui/calls?page=1&amp;live=1" in frame(page, visit("/calls", page="1"), 0).text
    assert "Stop" in frame(page, visit("/calls", live="1"), 0).text
    assert "Refresh" not in frame(Page("t", el("p")), visit("/x"), 0).text


def test_a_bare_page_names_no_user_and_no_other_page() -> None:
    shown = bare("Sign in", el("p", None, "x"))
    check(shown)
    assert "<nav" not in shown.text
    assert "<form" not in shown.text
