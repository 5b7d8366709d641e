"""Names as clients see them (contract §2 and §5 Names; G072, G082, G083, S62)."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.model.naming import SERVER_NAME, exposed_name, slug

EXPOSED = re.compile(r"[A-Za-z0-9_-]{1,48}")


def exposed(server: str, name: str, *, namespace: str | None = None, max_length: int = 48) -> str:
    return exposed_name(slug(server) if namespace is None else namespace, server, name, "__", max_length)


@pytest.mark.parametrize(
    ("server", "namespace"),
    [
        ("files", "files"),
        ("Files", "files"),
        ("My Files", "my-files"),
        ("my.files", "my-files"),
        ("my_files", "my-files"),
        ("a__b", "a-b"),
        ("a - b", "a-b"),
        ("a--b", "a-b"),
        ("a.", "a"),
        ("a. _-", "a"),
        ("1mcp", "1mcp"),
        ("A" * 64, "a" * 64),
    ],
)
def test_a_namespace_is_the_slug_of_a_server(server: str, namespace: str) -> None:
    assert SERVER_NAME.fullmatch(server)
    assert slug(server) == namespace


@settings(max_examples=200, deadline=None)
@given(st.from_regex(SERVER_NAME, fullmatch=True))
def test_every_server_name_has_a_clean_slug(server: str) -> None:
    namespace = slug(server)
    assert re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", namespace)
    assert slug(namespace) == namespace


@pytest.mark.parametrize("server", ["", "-a", ".a", " a", "_a", "a\n", "a/b", "a+b", "é", "a" * 65, "ａ"])
def test_other_server_names_are_none(server: str) -> None:
    assert SERVER_NAME.fullmatch(server) is None


@pytest.mark.parametrize("name", ["read", "_x", "123_y", "-", "Read", "a-b", "x" * 41])
def test_a_legal_name_is_only_prefixed(name: str) -> None:
    """G083: a leading underscore or digit is legal."""
    assert exposed("files", name) == f"files__{name}"


def suffix(server: str, name: str) -> str:
    return "_" + hashlib.sha256(f"{server}/{name}".encode()).hexdigest()[:8]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.b", "files__a_b"),
        ("a/b", "files__a_b"),
        ("naïve", "files__na_ve"),
        ("x y", "files__x_y"),
        ("read\n", "files__read_"),
        ("read\x00", "files__read_"),
        ("rеad", "files__r_ad"),
        ("ｇet", "files___et"),
        ("get\u200b", "files__get_"),
        ("\U000e0041", "files___"),
        ("..", "files____"),
        ("x" * 42, "files__" + "x" * 32),
        ("é" * 200, "files__" + "_" * 32),
    ],
)
def test_any_other_name_is_replaced_and_hashed(name: str, start: str) -> None:
    """G082 and S62: one bad name must not break a client's whole list."""
    result = exposed("files", name)
    assert result == start + suffix("files", name)
    assert EXPOSED.fullmatch(result)


def test_golden_names_stay_over_restarts_and_releases() -> None:
    """Clients store these names in their own rules."""
    assert exposed("files", "a.b") == "files__a_b_52cba90c"
    assert exposed("Enterprise Billing.Production", "y" * 60) == "enterprise-billing-production__yyyyyyyy_9849d98a"


def test_an_empty_namespace_exposes_names_bare() -> None:
    assert exposed("files", "read", namespace="") == "read"
    assert exposed("files", "", namespace="") == suffix("files", "")


def test_an_empty_name_is_kept_behind_its_namespace() -> None:
    assert exposed("files", "") == "files__"


@pytest.mark.parametrize("max_length", [16, 48, 128])
def test_the_length_is_kept_exactly(max_length: int) -> None:
    fits = "x" * (max_length - len("files__"))
    assert exposed("files", fits, max_length=max_length) == f"files__{fits}"
    over = exposed("files", fits + "x", max_length=max_length)
    assert len(over) == max_length
    assert over.endswith(suffix("files", fits + "x"))


def test_a_name_with_a_lone_surrogate_has_a_name_too() -> None:
    assert EXPOSED.fullmatch(exposed("files", "\ud800"))


def test_names_that_differ_only_in_what_is_replaced_stay_apart() -> None:
    names = ["x y", "x.y", "x/y", "x_y", "x\u00a0y", "x\ny", "X y", "x" * 60 + "a", "x" * 60 + "b"]
    assert len({exposed("files", name) for name in names}) == len(names)
    assert exposed("Files", "a.b") != exposed("files", "a.b")


NAMES = st.text(max_size=60) | st.text("ab_-", max_size=50)


@settings(max_examples=300, deadline=None)
@given(st.from_regex(SERVER_NAME, fullmatch=True), NAMES)
def test_every_name_is_exposed_as_clients_can_bear_it(server: str, name: str) -> None:
    assert EXPOSED.fullmatch(exposed(server, name))


@settings(max_examples=300, deadline=None)
@given(
    st.text("ab_-. ", min_size=1, max_size=8), st.text("ab_-", max_size=8), st.text("ab_-. ", min_size=1, max_size=8)
)
def test_no_tool_can_take_the_name_of_another_server_s(server: str, name: str, other: str) -> None:
    """Whatever a server calls its tools, its exposed names begin with its own namespace and no other one."""
    one, two = slug("s" + server), slug("s" + other)
    if one != two:
        assert not exposed("s" + server, name).startswith(f"{two}__")
