"""Which server a URI leads to."""

from __future__ import annotations

import pytest

from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.pipeline.resources import matches_template, resolve, shown
from tests.kit.definitions import catalog_of, definition, tool

R, T = Kind.RESOURCE, Kind.TEMPLATE
CATALOG = catalog_of(
    {
        "a": [definition(R, "file:///README.md"), definition(T, "data://{id}{?format}"), definition(R, "a:one")],
        "b": [definition(R, "file:///README.md"), definition(T, "doc://{+path}")],
        "c": [definition(R, "note://1")],
    }
)
SERVERS = ["a", "b", "c"]


def find(uri: str, hidden: str = "") -> tuple[str | None, tuple[str, ...]]:
    found = resolve(CATALOG, SERVERS, uri, lambda target: target.server != hidden)
    return (found.target.server if found.target else None), found.ambiguous


def test_a_listed_uri_leads_to_the_server_that_lists_it() -> None:
    assert find("note://1") == ("c", ())


def test_a_uri_of_two_servers_is_ambiguous_and_never_the_first_wins() -> None:
    """G085."""
    assert find("file:///README.md") == (None, ("a", "b"))


def test_only_visible_servers_count_and_are_named() -> None:
    assert find("file:///README.md", hidden="a") == ("b", ())


def test_a_prefixed_uri_is_always_accepted_and_loses_only_its_prefix() -> None:
    found = resolve(CATALOG, SERVERS, "b+file:///README.md", lambda _: True)
    assert found.target == Target(R, "b", "file:///README.md")


def test_a_prefix_does_not_reach_a_hidden_server() -> None:
    """S72."""
    assert find("b+file:///etc/passwd", hidden="b") == (None, ())


def test_a_template_match_comes_before_the_scheme() -> None:
    assert find("data://7?format=x") == ("a", ())
    assert find("doc://a/b/c") == ("b", ())


def test_an_unlisted_uri_goes_to_the_only_visible_server_with_its_scheme() -> None:
    assert find("note://99") == ("c", ())
    assert find("note://99", hidden="c") == (None, ())


def test_an_unknown_scheme_and_an_overlong_uri_lead_nowhere() -> None:
    assert find("gopher://x") == (None, ())
    assert find("note://" + "9" * 9000) == (None, ())


@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("data://{id}", "data://1", True),
        ("data://{id}", "data://", False),
        ("data://{id}", "data://1/2", False),
        ("data://{id}/x", "data://1/x", True),
        ("data://{id}{?a,b}", "data://1", True),
        ("data://{id}{?a,b}", "data://1?a=1&b=/2", True),
        ("f://{+path}", "f://a/b", True),
        ("f://{name*}", "f://a/b", True),
        ("f://a{/rest}", "f://a", True),
        ("f://a{/rest}", "f://a/b", True),
        ("f://{a}{b}", "f://xy", True),
        ("f://{a}{b}", "f://x", False),
        ("plain://x", "plain://x", True),
        ("plain://x", "plain://xy", False),
    ],
)
def test_templates_match_what_they_can_expand_to(template: str, uri: str, expected: bool) -> None:
    assert matches_template(template, uri) is expected


def test_a_hostile_template_costs_no_more_than_its_length_times_the_uri() -> None:
    """S77's kind: no backtracking, whatever a server lists."""
    assert not matches_template("x://" + "{+a}y" * 100, "x://" + "y" * 4000 + "z!")


VIEWS = catalog_of(
    {
        "a": [tool("show", _meta={"ui": {"resourceUri": "ui://v"}})],
        "b": [definition(R, "ui://v"), definition(R, "ui://a+x"), tool("show", _meta={"ui/resourceUri": "ui://own"})],
    }
)


def view(uri: str, hidden: str = "") -> tuple[Target | None, tuple[str, ...]]:
    found = resolve(VIEWS, ["a", "b"], uri, lambda target: target.server != hidden)
    return found.target, found.ambiguous


def test_a_view_that_no_list_has_leads_to_the_server_whose_tool_names_it() -> None:
    """MCP Apps §Resource Discovery: servers may leave views out of their lists."""
    assert view("ui://own") == (Target(R, "b", "ui://own"), ())
    assert view("ui://v", hidden="b") == (Target(R, "a", "ui://v"), ())
    assert view("ui://other", hidden="b") == (Target(R, "a", "ui://other"), ())


def test_a_view_that_one_server_lists_and_anothers_tool_names_is_ambiguous() -> None:
    assert view("ui://v") == (None, ("a", "b"))
    assert view("ui://a+v") == (Target(R, "a", "ui://v"), ())
    assert view("ui://b+v") == (Target(R, "b", "ui://v"), ())


def test_no_server_takes_anothers_views_by_listing_their_qualified_names() -> None:
    """S72."""
    assert view("ui://a+x") == (Target(R, "a", "ui://x"), ())
    assert view("ui://a+x", hidden="a") == (None, ())


def test_a_uri_is_shown_with_its_server_where_bare_it_would_lead_elsewhere() -> None:
    assert shown(VIEWS, "a", "ui://v", lambda _: True) == "ui://a+v"
    assert shown(VIEWS, "a", "ui://v", lambda target: target.server == "b") == "ui://a+v"
    assert shown(VIEWS, "a", "ui://v", lambda target: target.server == "a") == "ui://v"
    assert shown(VIEWS, "b", "ui://own", lambda _: True) == "ui://own"
    assert shown(CATALOG, "b", "file:///README.md", lambda _: True) == "b+file:///README.md"
