"""Members of answers are read without trust."""

from __future__ import annotations

from gateway.admin.pages.facts import as_object, number, part, rows, string, strings
from gateway.protocol.rawjson import Object


def test_what_is_there_is_read_and_what_is_not_is_empty() -> None:
    holder: Object = {"s": "x", "n": 3, "b": True, "o": {"k": 1}, "l": [{"a": 1}, "t", None]}
    assert (string(holder, "s"), string(holder, "n"), string(holder, "none")) == ("x", "", "")
    assert (number(holder, "n"), number(holder, "s"), number(holder, "b")) == (3, 0, 0)
    assert (part(holder, "o"), part(holder, "l")) == ({"k": 1}, {})
    assert (rows(holder, "l"), rows(holder, "s")) == ([{"a": 1}], [])
    assert (strings(holder, "l"), strings(holder, "o")) == (["t"], [])
    assert as_object(None) == {}
