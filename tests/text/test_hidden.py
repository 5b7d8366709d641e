"""Characters that a person does not see are found, taken out or written out; what people do see stays (S143, S144)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text import hidden

POINTS = (
    *range(0x09),
    *range(0x0B, 0x20),
    *range(0x7F, 0xA0),
    *(0xAD, 0x034F, 0x061C, 0x115F, 0x1160, 0x180E, 0x3164, 0xFEFF, 0xFFA0, 0xFFF9, 0xFFFA, 0xFFFB),
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xE0000, 0xE0080),
    *range(0xE0100, 0xE01F0),
)
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
SEEN = (
    "plain text\n\twith lines",
    "naïve – “quoted” … 日本語 ไทย",
    FAMILY,
    ENGLAND,
    "\u2764\ufe0f\u200d\U0001f525",
    "\U0001f469\U0001f3fd\u200d\U0001f4bb",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u0915\u094d\u200d\u0937",
)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point:X}")
def test_every_hidden_character_is_found_taken_out_and_written_out(point: int) -> None:
    text = f"a{chr(point)}b"
    assert hidden.find(text) == (f"U+{point:04X}",)
    assert hidden.strip(text) == ("a" if point == 0x9B else "ab")
    assert hidden.escape(text) == f"a<U+{point:04X}>b"


@pytest.mark.parametrize("text", SEEN, ids=ascii)
def test_what_people_see_stays_as_it_is(text: str) -> None:
    assert hidden.find(text) == ()
    assert hidden.strip(text) is text or hidden.strip(text) == text
    assert hidden.escape(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "\U0001f3f4\U000e0061\U000e0062\U000e0063",
        ENGLAND[:-1],
        "a" + ENGLAND[1:],
        "\U0001f468\u200d",
        "\u200d\U0001f468",
        "\U0001f468\u200d\u200d\U0001f468",
        "a\u200cb",
        "\u0645\u200c",
    ],
    ids=ascii,
)
def test_the_parts_of_such_sequences_are_hidden_elsewhere(text: str) -> None:
    assert hidden.find(text)
    assert hidden.find(hidden.strip(text)) == ()


def test_line_ends_of_windows_become_plain_ones_only_where_something_is_taken_out() -> None:
    assert hidden.find("a\r\nb") == ()
    assert hidden.strip("a\r\nb\u200b") == "a\nb"
    assert hidden.find("a\rb") == ("U+000D",)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x9b2Jb", "ab"),
        ("a\x1b", "a"),
    ],
)
def test_nothing_is_left_of_a_terminals_sequences(text: str, after: str) -> None:
    assert hidden.strip(text) == after


@given(
    st.text(
        st.sampled_from(
            [*map(chr, POINTS[::9]), *FAMILY, *ENGLAND, "a", "[", "]", ";", "m", "\u0645", "\u200c", "\r", "\n"]
        )
    )
)
def test_taking_out_twice_is_the_same_as_once(text: str) -> None:
    once = hidden.strip(text)
    assert hidden.find(once) == ()
    assert hidden.strip(once) == once
