"""What becomes of foreign text in a page."""

from __future__ import annotations

import pytest

from gateway.admin.pages.markup import document, el, external, join, link, name, painted, text, typed
from tests.kit.pages import HOSTILE, SHOWN, check


def test_text_is_escaped_and_what_is_not_seen_is_written_out() -> None:
    shown = text(HOSTILE).text
    assert shown.startswith(SHOWN)
    assert "U+202E" in shown
    assert "U+200B" in shown
    check(el("p", {"title": HOSTILE.replace("\u202e\u200b", "")}, HOSTILE, name(HOSTILE)))


@pytest.mark.parametrize("char", ["\u202e", "\u200b", "\x00", "\x1b", "\ud800", "\u2028", "\U000e0041", "\n", "\ufe0f"])
def test_no_character_hides(char: str) -> None:
    shown = text(f"a{char}b").text
    assert char not in shown
    assert f"U+{ord(char):04X}" in shown
    document(el("p", None, f"a{char}b"))


def test_ordinary_text_of_any_script_stays_as_it_is() -> None:
    assert text("naïve – 東京 שלום").text == "naïve – 東京 שלום"


def test_long_text_is_cut() -> None:
    assert text("x" * 5000, 10).text == "xxxxxxxxx…"
    assert len(name("y" * 500).text) < 250


def test_an_address_is_no_text_and_text_is_no_address() -> None:
    with pytest.raises(AssertionError):
        el("a", {"href": "javascript:alert(1)"})
    with pytest.raises(AssertionError):
        el("p", {"title": link("/x")})


def test_links_are_ours_and_quote_what_they_carry() -> None:
    assert link("/pins", server="a&b", page=0, nothing="", none=None).text == "/ui/pins?server=a%26b&page=0"
    assert el("a", {"href": link("/a", q='"x')}, "y").text == '<a href="/ui/a?q=%22x">y</a>'
    assert link("/a", path="p").text == "/ui/a?path=p"


@pytest.mark.parametrize(
    ("address", "fits"),
    [
        ("https://idp.example.com/consent?x=1", True),
        ("http://127.0.0.1:8080/x", True),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("//evil.example.com", False),
        ("https://a\u202eb", False),
        ("https://[", False),
        ("https:", False),
    ],
)
def test_a_browser_is_led_to_web_addresses_alone(address: str, fits: bool) -> None:
    assert (external(address) is not None) == fits


def test_attributes_can_be_left_out_or_have_no_value() -> None:
    assert el("input", {"a": None, "b": False, "c": True, "d": 0}).text == '<input c d="0">'


def test_pieces_and_white_space() -> None:
    assert join("<", 1, None, [el("b", None, "x"), ["y"]]).text == "&lt;1<b>x</b>y"
    assert painted([("", "<{\n  "), ("member", "a\u202e")]).text.startswith('&lt;{\n  <span class="member">a<span')
    assert typed("\n<x").text == "\n\n&lt;x"
