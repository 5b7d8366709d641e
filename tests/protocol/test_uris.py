"""Which resources enclose which."""

from __future__ import annotations

import pytest

from gateway.protocol.uris import MAX_LEVELS, enclosing


@pytest.mark.parametrize(
    ("uri", "within"),
    [
        ("file:///a/b", ["file:///a/b", "file:///a/", "file:///a", "file:///"]),
        ("file:///a/", ["file:///a/", "file:///a", "file:///"]),
        (
            "db://h/t?q=1#f",
            ["db://h/t?q=1#f", "db://h/t?q=1#", "db://h/t?q=1", "db://h/t?", "db://h/t", "db://h/", "db://h"],
        ),
        ("db://h", ["db://h"]),
        ("note:a/b", ["note:a/b", "note:a/", "note:a"]),
        ("plain", ["plain"]),
        ("", [""]),
    ],
)
def test_a_resource_lies_within_itself_and_what_its_path_names(uri: str, within: list[str]) -> None:
    assert list(enclosing(uri)) == within


def test_only_so_many_levels_are_looked_at() -> None:
    assert len(list(enclosing("x://h" + "/a" * 10_000))) == 1 + 2 * MAX_LEVELS
