"""Where what must never expire may be kept, and what is said of any other text."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from gateway.config.databases import is_database, parse_database, shared_directory


@pytest.mark.parametrize(
    ("text", "database", "directory"),
    [
        ("", False, ""),
        ("postgres://user:hush@db.example/gateway?sslmode=verify-full", True, ""),
        ("postgresql:///gateway?host=/run/postgresql", True, ""),
        ("file:///shared/documents", False, "/shared/documents"),
        ("file:///shared/a%20b/", False, "/shared/a b"),
    ],
)
def test_these_are_taken(text: str, database: bool, directory: str) -> None:
    value = SecretStr(text)
    assert parse_database(value) is value
    assert (is_database(value), shared_directory(value)) == (database, directory)


@pytest.mark.parametrize(
    "text",
    [
        "mysql://hush@db/x",
        "file://relative/path",
        "file:shared",
        "file:///",
        "file:///a?b=c",
        "file:///a%00b",
        "/shared",
        "postgres:///x",
        "postgres://[hush",
    ],
)
def test_others_are_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be postgres|needs a host") as caught:
        parse_database(SecretStr(text))
    assert "hush" not in str(caught.value)
