"""Foreign text must be readable and harmless wherever it is shown (S152, G108)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.telemetry.text import cut_bytes, printable


@pytest.mark.parametrize("text", ["", "plain", "wiki__search", "Grüße aus 東京", "back\\slash", 'quo"te', "🙂"])
def test_text_that_can_be_seen_is_left_alone(text: str) -> None:
    assert printable(text, 100) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("nul\x00del\x7f", "nul\\x00del\\x7f"),
        ("c1\x9b", "c1\\x9b"),
        ("line\u2028para\u2029", "line\\u2028para\\u2029"),
        ("rtl\u202egpj", "rtl\\u202egpj"),
        ("iso\u2066late\u2069", "iso\\u2066late\\u2069"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("vs\ufe0f\U000e0100", "vs\\ufe0f\\U000e0100"),
        ("filler\u3164\u034f", "filler\\u3164\\u034f"),
        ("lone\ud800", "lone\\ud800"),
        ("no\u00a0break", "no\\xa0break"),
    ],
)
def test_what_cannot_be_seen_is_escaped(text: str, shown: str) -> None:
    assert printable(text, 100) == shown


def test_a_long_text_is_cut_at_the_limit_and_says_so() -> None:
    assert printable("a" * 128, 128) == "a" * 128
    assert printable("a" * 129, 128) == "a" * 127 + "…"
    assert printable("\n" * 1_000_000, 8) == "\\n\\n\\n\\"[:7] + "…"
    assert printable("abc", 1) == "…"
    assert printable("abc", 0) == ""


def test_bytes_are_cut_between_characters() -> None:
    assert cut_bytes("äöü", 6) == "äöü"
    assert cut_bytes("äöüß", 7) == "äö…"
    assert cut_bytes("äöüß", 6) == "ä…"


@given(st.text(st.characters(exclude_categories=())), st.integers(1, 40))
def test_any_text_becomes_one_visible_line_within_the_limit(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert len(shown) <= limit
    assert shown.isprintable()
    assert len(cut_bytes(shown, limit + 3).encode()) <= limit + 3
