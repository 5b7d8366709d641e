"""What was written by ourselves is of the form that was written, or it is damage."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.protocol.rawjson import Value
from gateway.protocol.shapes import a_list, a_number, a_text, an_object, texts, texts_by_name


def test_what_has_the_form_comes_back() -> None:
    assert an_object({"a": 1}) == {"a": 1}
    assert a_list([1, "a"]) == [1, "a"]
    assert a_text("") == ""
    assert (a_number(1), a_number(1.5)) == (1.0, 1.5)
    assert (texts([]), texts(["a", "b"], 2)) == ([], ["a", "b"])
    assert texts_by_name({"a": "b"}) == {"a": "b"}


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (an_object, []),
        (a_list, {}),
        (a_text, None),
        (a_number, True),
        (a_number, "1"),
        (texts, ["a", 1]),
        (texts, None),
        (texts_by_name, {"a": None}),
        (texts_by_name, ["a"]),
    ],
)
def test_whatever_else_is_damage(read: Callable[[Value], object], value: Value) -> None:
    with pytest.raises(ValueError, match=r"no |number"):
        read(value)


def test_another_number_of_texts_is_damage() -> None:
    with pytest.raises(ValueError, match="another number"):
        texts(["a"], 2)
