"""Which extensions a client is offered, and where a method of one leads."""

from __future__ import annotations

import pytest

from gateway.model.call import Beyond, Target
from gateway.model.catalog import Catalog, Kind
from gateway.pipeline import extensions
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era
from tests.kit.definitions import build_catalog, listing, tool

SEARCH = "com.example/search"
DECLARED: Object = {"extensions": {SEARCH: {}}}


def catalog(**offers: Object) -> Catalog:
    """Return a catalog of servers with a tool each and these extensions."""
    return build_catalog(
        {
            name: listing(name, tool("t"), era="modern", capabilities={"extensions": offer})
            for name, offer in offers.items()
        }
    )


def everything(target: Target) -> bool:
    return True


def test_a_client_is_offered_what_visible_servers_offer_together() -> None:
    found = catalog(a={SEARCH: {"deep": True, "fast": True}}, b={SEARCH: {"deep": True}}, c={"com.example/c": {}})
    assert extensions.offered(found, Era.MODERN, everything) == {SEARCH: {"deep": True}, "com.example/c": {}}
    assert extensions.offered(found, Era.MODERN, lambda target: target.server == "a") == {
        SEARCH: {"deep": True, "fast": True}
    }
    assert extensions.offered(found, Era.MODERN, lambda target: False) == {}


def test_a_server_is_visible_by_its_tools_or_by_its_methods_alone() -> None:
    found = catalog(a={SEARCH: {}})
    assert extensions.offered(found, Era.LEGACY, lambda target: target.kind is Kind.TOOL) == {SEARCH: {}}
    assert extensions.offered(found, Era.LEGACY, lambda target: target.kind is Beyond.METHOD) == {SEARCH: {}}
    assert extensions.offered(found, Era.LEGACY, lambda target: target.kind is Kind.PROMPT) == {}


def test_a_method_leads_to_the_only_server_of_an_extension_that_the_client_declared() -> None:
    found = catalog(a={SEARCH: {}}, b={"com.example/b": {}}, c={})
    target = extensions.owner(found, "search/run", DECLARED, Era.MODERN, everything)
    assert target == Target(Beyond.METHOD, "a", "search/run")


@pytest.mark.parametrize(
    ("offers", "declared"),
    [
        ({"a": {SEARCH: {}}}, {}),
        ({"a": {SEARCH: {}}}, {"extensions": {"com.example/other": {}}}),
        ({"a": {SEARCH: {}}, "b": {SEARCH: {}}}, DECLARED),
        ({"a": {SEARCH: {}}, "b": {"com.example/b": {}}}, {"extensions": {SEARCH: {}, "com.example/b": {}}}),
        ({"a": {}}, DECLARED),
        ({"a": {"io.modelcontextprotocol/ui": {}}}, {"extensions": {"io.modelcontextprotocol/ui": {}}}),
    ],
)
def test_a_method_that_no_server_or_more_than_one_can_own_leads_nowhere(
    offers: dict[str, Object], declared: Object
) -> None:
    assert extensions.owner(catalog(**offers), "search/run", declared, Era.MODERN, everything) is None


def test_servers_that_a_client_may_not_use_do_not_count() -> None:
    found = catalog(a={SEARCH: {}}, b={SEARCH: {}})
    target = extensions.owner(found, "x", DECLARED, Era.MODERN, lambda target: target.server == "b")
    assert target is not None
    assert target.server == "b"
    assert extensions.owner(found, "x", DECLARED, Era.MODERN, lambda target: target.kind is Kind.TOOL) is None


def test_what_no_list_has_can_be_named_by_a_policy() -> None:
    found = build_catalog(
        {
            "a": listing("a", tool("t", _meta={"ui": {"resourceUri": "ui://v"}}), era="modern"),
            "b": listing("b", era="modern", capabilities=DECLARED),
        }
    )
    assert extensions.unlisted(found) == [Target(Kind.RESOURCE, "a", "ui://v"), Target(Beyond.METHOD, "b", "")]
