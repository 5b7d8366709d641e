"""A long text is looked at in pieces, none of which cuts what is looked for."""

from __future__ import annotations

from gateway.text.pieces import LENGTH, pieces


def test_a_text_of_one_piece_is_not_split() -> None:
    text = "x" * LENGTH
    assert pieces(text) == [text]


def test_pieces_are_bounded_and_make_up_the_text() -> None:
    text = ("word " * LENGTH) + "x" * (3 * LENGTH)
    parts = pieces(text)
    assert "".join(parts) == text
    assert max(map(len, parts)) <= LENGTH
    assert all(part.endswith(" ") for part in parts[:4])


def test_a_key_over_several_lines_stays_in_one_piece() -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + "line of the key\n" * 100 + "-----END PRIVATE KEY-----\n"
    text = "x " * ((LENGTH - 200) // 2) + key + "y " * LENGTH
    assert any(key in part for part in pieces(text))


def test_a_key_without_an_end_does_not_stop_it() -> None:
    text = "-----BEGIN PRIVATE KEY-----\n" * LENGTH
    parts = pieces(text)
    assert "".join(parts) == text
    assert all(0 < len(part) <= LENGTH for part in parts)
