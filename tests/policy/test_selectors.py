"""Selectors are anchored on server and own name, and never take long (S65, S66, G071)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.policy.selectors import (
    MAX_SELECTOR,
    SelectorError,
    any_matches,
    compile_glob,
    compile_uri,
    parse_selector,
    parse_target,
)


def tool(server: str, name: str) -> Target:
    return Target(Kind.TOOL, server, name)


@pytest.mark.parametrize(
    ("selector", "matching", "other"),
    [
        ("wiki/search", [("wiki", "search")], [("wiki", "search2"), ("wiki", "Search"), ("Wiki", "search")]),
        ("wiki/*", [("wiki", "search"), ("wiki", "a/b"), ("wiki", "")], [("wiki2", "search"), ("awiki", "search")]),
        ("*/delete_*", [("a", "delete_x"), ("b", "delete_")], [("a", "undelete_x"), ("a", "delete")]),
        ("a/read*", [("a", "read"), ("a", "read_file")], [("a", "x__read"), ("aa", "read"), ("a__x", "read")]),
        ("crm/*", [("crm", "admin/delete")], [("crm/admin", "delete")]),
        ("crm/admin/*", [("crm", "admin/delete")], [("crm", "admin")]),
        ("support-*/x", [("support-", "x"), ("support-client", "x")], [("support", "x")]),
        ("support/x", [("support", "x")], [("support-client", "x")]),
        ("my files/re?d", [("my files", "re?d")], [("my files", "read")]),
        ("a/[ab]", [("a", "[ab]")], [("a", "a")]),
        ("a/x.y", [("a", "x.y")], [("a", "xzy")]),
    ],
)
def test_both_parts_are_anchored_globs(
    selector: str, matching: list[tuple[str, str]], other: list[tuple[str, str]]
) -> None:
    compiled = parse_selector(selector)
    assert [target for target in matching if not compiled.matches(tool(*target))] == []
    assert [target for target in other if compiled.matches(tool(*target))] == []


def test_nothing_but_the_name_itself_matches_a_name() -> None:
    """G072: trailing newlines, spaces, NUL and look-alikes are other names."""
    selector = parse_selector("fs/read")
    for name in ("read\n", " read", "read\x00", "re\u0430d", "ｒead", "read\u200b", "READ", "rea", "reade"):
        assert not selector.matches(tool("fs", name))


def test_a_prefix_says_what_kind_of_thing_is_meant() -> None:
    kinds = {
        "wiki/x": {Kind.TOOL},
        "prompt:wiki/x": {Kind.PROMPT},
        "resource:wiki/x": {Kind.RESOURCE, Kind.TEMPLATE},
        "any:wiki/x": set(Kind),
    }
    for text, expected in kinds.items():
        selector = parse_selector(text)
        assert {kind for kind in Kind if selector.matches(Target(kind, "wiki", "x"))} == expected


def test_a_star_stops_at_a_slash_in_uris_and_only_there() -> None:
    selector = parse_selector("any:files/file:///docs/*")
    assert selector.matches(Target(Kind.RESOURCE, "files", "file:///docs/a.md"))
    assert not selector.matches(Target(Kind.RESOURCE, "files", "file:///docs/private/a.md"))
    assert selector.matches(tool("files", "file:///docs/private/a.md"))
    both = parse_selector("resource:files/file:///docs/**")
    assert both.matches(Target(Kind.RESOURCE, "files", "file:///docs/private/a.md"))
    assert both.matches(Target(Kind.TEMPLATE, "files", "file:///docs/{path}"))
    assert not both.matches(Target(Kind.RESOURCE, "files", "file:///docs"))
    assert parse_selector("resource:files/**").matches(Target(Kind.RESOURCE, "files", "https://a/b/c"))


@pytest.mark.parametrize(
    ("pattern", "uri", "expected"),
    [
        ("*", "", True),
        ("*", "a/b", False),
        ("**", "a/b", True),
        ("***", "a/b", True),
        ("a*c", "abbc", True),
        ("a*c", "ab/c", False),
        ("a**c", "ab/c", True),
        ("a/**/c", "a/b/b/c", True),
        ("a/**/c", "a/c", False),
        ("*/*", "a/b", True),
        ("*/*", "a/b/c", False),
        ("**/c*", "a/b/cd", True),
        ("a\nb*", "a\nbc", True),
        ("exact", "exact", True),
        ("exact", "exact\n", False),
        ("end*", "end", True),
    ],
)
def test_uri_globs(pattern: str, uri: str, expected: bool) -> None:
    assert compile_uri(pattern)(uri) is expected


PIECES = st.lists(st.sampled_from(["*", "**", "a", "b", "/", "ab"]), max_size=8).map("".join)
NAMES = st.text("ab/", max_size=10)


@given(PIECES, NAMES)
def test_globs_agree_with_the_regex_they_stand_for(pattern: str, name: str) -> None:
    anything = re.sub(r"\*+", ".*", pattern)
    assert compile_glob(pattern)(name) == bool(re.fullmatch(anything, name))
    uri = re.sub(r"\*+", lambda run: ".*" if len(run[0]) > 1 else "[^/]*", pattern)
    assert compile_uri(pattern)(name) == bool(re.fullmatch(uri, name))


@pytest.mark.timeout(5)
def test_no_selector_makes_matching_slow() -> None:
    """M14: patterns that would keep a backtracking engine busy for years."""
    pattern = "*a" * 400
    name = "a" * 399 + "b" * 100_000
    assert not compile_glob(pattern)(name)
    assert not compile_uri(pattern)(name[:20_000])
    assert not compile_uri("**a" * 300)(name[:20_000])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs a server"),
        ("wiki", "needs a server"),
        ("wiki/", "needs a server"),
        ("/search", "needs a server"),
        ("prompt:wiki", "needs a server"),
        ("prompt:/x", "needs a server"),
        ("tool:wiki/x", "kinds are"),
        ("Prompt:wiki/x", "kinds are"),
        ("prompt:prompt:wiki/x", "kinds are"),
        ("a/" + "x" * MAX_SELECTOR, "longer than"),
    ],
)
def test_what_is_no_selector_is_told_why(text: str, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        parse_selector(text)


@given(st.text(max_size=60))
def test_any_text_is_a_selector_or_an_error(text: str) -> None:
    try:
        selector = parse_selector(text)
    except SelectorError:
        return
    assert selector.matches(tool("server", "name")) in (True, False)


def test_one_of_several_is_enough() -> None:
    selectors = [parse_selector("a/x"), parse_selector("b/*")]
    assert any_matches(selectors, tool("b", "y"))
    assert not any_matches(selectors, tool("a", "y"))
    assert not any_matches([], tool("a", "x"))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("wiki/search", Target(Kind.TOOL, "wiki", "search")),
        ("wiki/a/b", Target(Kind.TOOL, "wiki", "a/b")),
        ("prompt:wiki/greet", Target(Kind.PROMPT, "wiki", "greet")),
        ("resource:files/file:///srv/a", Target(Kind.RESOURCE, "files", "file:///srv/a")),
        ("template:files/file:///{p}", Target(Kind.TEMPLATE, "files", "file:///{p}")),
        ("tool:wiki/search", Target(Kind.TOOL, "wiki", "search")),
    ],
)
def test_what_is_called_is_written_like_a_selector_without_globs(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["wiki", "/search", "wiki/", "any:wiki/x", "prompts:wiki/x", ":wiki/x", ""])
def test_what_names_no_one_thing_is_an_error(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_target(text)
