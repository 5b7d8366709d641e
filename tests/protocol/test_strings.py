"""Texts inside JSON are changed in place: every other byte stays."""

from __future__ import annotations

import tracemalloc

import pytest

from gateway.protocol import rawjson, strings


def shout(text: str) -> str:
    return text.upper()


def test_texts_and_keys_are_changed_and_nothing_else() -> None:
    data = b'{ "a" : "b\\u0063" , "n":1.50e+02,"big":123456789012345678901234567890,"t":[true,null,"x\\"y"] }'
    assert strings.changed(data, shout) == (
        b'{ "A" : "BC" , "N":1.50e+02,"BIG":123456789012345678901234567890,"T":[true,null,"X\\"Y"] }'
    )


def test_a_change_that_changes_nothing_gives_the_same_bytes() -> None:
    data = '{"a": "\\u00e9 é"}'.encode()
    assert strings.changed(data, lambda text: text) is data


def test_base64_is_left_alone_in_data_and_blob_and_only_there() -> None:
    data = b'{"data":"aGk=","blob":"aGk=","text":"aGk=","nested":{"data":"no base64!"}}'
    assert strings.changed(data, shout) == (
        b'{"data":"aGk=","blob":"aGk=","TEXT":"AGK=","NESTED":{"DATA":"NO BASE64!"}}'.replace(b'"data"', b'"DATA"', 1)
        .replace(b'"blob"', b'"BLOB"')
    )  # fmt: skip


def test_plain_texts_are_not_looked_at_where_that_is_enough() -> None:
    seen: list[str] = []

    def note(text: str) -> str:
        seen.append(text)
        return text

    strings.changed('{"plain":"text","tab":"a\\tb","é":"\x7f"}'.encode(), note, plain_too=False)
    assert seen == ["a\tb", "é", "\x7f"]


@pytest.mark.parametrize(
    ("pointer", "after"),
    [
        ("/a", '{"b":[{"c":1,"d":2},{"c":3}],"e":{"~f/":1}}'),
        ("/b/0", '{"a":1.0,"b":[{"c":3}],"e":{"~f/":1}}'),
        ("/b/*/c", '{"a":1.0,"b":[{"d":2},{}],"e":{"~f/":1}}'),
        ("/e/~0f~1", '{"a":1.0,"b":[{"c":1,"d":2},{"c":3}],"e":{}}'),
        ("/*", "{}"),
    ],
)
def test_members_are_left_out_by_pointer(pointer: str, after: str) -> None:
    data = b'{"a":1.0,"b":[{"c":1,"d":2},{"c":3}],"e":{"~f/":1}}'
    assert strings.without(data, (strings.split_pointer(pointer),)) == after.encode()


@pytest.mark.parametrize("pointer", ["/x", "/b/9", "/a/x", "/b/0/c/d"])
def test_what_is_not_there_is_not_missed(pointer: str) -> None:
    data = b'{ "a":1.0, "b":[{"c":1}] }'
    assert strings.without(data, (strings.split_pointer(pointer),)) is data


def test_a_scalar_has_nothing_to_leave_out() -> None:
    assert strings.without(b'"text"', (("a",),)) == b'"text"'


def test_a_pointer_begins_with_a_slash() -> None:
    with pytest.raises(ValueError, match="begins with"):
        strings.split_pointer("a/b")


def test_what_was_changed_is_still_json() -> None:
    data = rawjson.encode({"k\u200b": ["v\u200b", {"x": "\u2028"}]})
    after = strings.changed(data, lambda text: text.replace("\u200b", '"\\'))
    assert rawjson.decode_value(after) == {'k"\\': ['v"\\', {"x": "\u2028"}]}


def test_a_long_text_of_escapes_costs_no_memory_to_find() -> None:
    """S148: a server may send megabytes of them, and everybody's gateway would have to make room."""
    data = b'["' + b"\\n" * 500_000 + b'"]'
    tracemalloc.start()
    try:
        assert strings.changed(data, lambda text: text) is data
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(data)
