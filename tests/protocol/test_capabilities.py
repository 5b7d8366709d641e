"""Capabilities in both directions."""

from __future__ import annotations

import pytest

from gateway.protocol import capabilities
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.versions import Era


def test_a_server_learns_what_the_client_declared_and_the_operator_permits() -> None:
    declared: Object = {"elicitation": {"form": {}}, "roots": {"listChanged": True}, "experimental": {}}
    assert capabilities.intersect(declared, ["elicitation", "sampling"]) == {"elicitation": {"form": {}}}
    assert capabilities.intersect(declared, []) == {}
    assert capabilities.intersect({}, ["elicitation", "sampling", "roots"]) == {}


def test_what_some_client_may_have_is_a_capability_with_all_its_parts() -> None:
    assert capabilities.whole(["elicitation", "roots"]) == {"elicitation": {"form": {}, "url": {}}, "roots": {}}
    assert capabilities.whole([]) == {}


@pytest.mark.parametrize("value", [True, None, "yes", 1, []])
def test_a_capability_that_is_no_object_counts_as_undeclared(value: Value) -> None:
    """A server whose own parser is strict would refuse every call of such a client."""
    assert capabilities.intersect({"sampling": value}, ["sampling"]) == {}


@pytest.mark.parametrize(
    ("method", "capability"),
    [
        ("elicitation/create", "elicitation"),
        ("sampling/createMessage", "sampling"),
        ("roots/list", "roots"),
        ("ping", None),
        ("tools/call", None),
        ("", None),
    ],
)
def test_each_ask_of_a_server_needs_one_capability(method: str, capability: str | None) -> None:
    assert capabilities.capability_of(method) == capability


def test_the_endpoint_offers_the_same_to_everybody() -> None:
    assert capabilities.offered({}) == {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "completions": {},
        "logging": {},
    }


def test_no_caller_can_change_what_the_next_one_is_offered() -> None:
    capabilities.offered({}).clear()
    assert "tools" in capabilities.offered({})


UI: Object = {"mimeTypes": ["text/html;profile=mcp-app"]}


def of(extensions: Value) -> Object:
    return {"extensions": extensions}


@pytest.mark.parametrize(
    "name",
    ["", "plain", "/name", "prefix/", "1a/x", "a-/x", "a..b/x", "a/x/y", "a/-x", "a/x.", "a b/x", "a/" + "x" * 5000],
)
def test_an_extension_without_a_proper_identifier_is_none(name: str) -> None:
    """The rules of _meta keys, with a prefix that must be there (2026-07-28 basic/index §_meta)."""
    assert capabilities.extensions_of(of({name: {}})) == {}


@pytest.mark.parametrize("name", ["com.example/search", "io.modelcontextprotocol/ui", "a-1.b/x_y.z-2", "local/x"])
def test_an_identifier_is_a_prefix_and_a_name(name: str) -> None:
    assert capabilities.extensions_of(of({name: {"a": 1}})) == {name: {"a": 1}}


@pytest.mark.parametrize("settings", [True, None, [], "yes", {"x": "y" * 4096}])
def test_settings_are_an_object_of_bounded_size(settings: Value) -> None:
    assert capabilities.extensions_of(of({"com.example/a": settings, "com.example/b": {}})) == {"com.example/b": {}}


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_extensions_that_are_no_object_are_none(value: Value) -> None:
    assert capabilities.extensions_of(of(value)) == {}
    assert capabilities.extensions_of({}) == {}


def test_one_side_has_no_more_than_so_many_extensions() -> None:
    many: Object = {f"com.example/e{number}": {} for number in range(capabilities.MAX_EXTENSIONS + 5)}
    assert len(capabilities.extensions_of(of(many))) == capabilities.MAX_EXTENSIONS


@pytest.mark.parametrize("client", Era)
@pytest.mark.parametrize("server", Era)
def test_extensions_pass_between_all_eras_but_not_those_about_the_clients_own_token(client: Era, server: Era) -> None:
    declared: Object = {
        capabilities.UI: UI,
        "com.example/search": {},
        "io.modelcontextprotocol/oauth-client-credentials": {},
        "io.modelcontextprotocol/enterprise-managed-authorization": {},
    }
    assert capabilities.carried(of(declared), client, server) == {capabilities.UI: UI, "com.example/search": {}}


def test_a_server_is_told_asks_within_what_is_permitted_and_extensions() -> None:
    declared: Object = {"elicitation": {}, "sampling": {}, "extensions": {capabilities.UI: UI}, "x": {}}
    told = capabilities.to_server(declared, ["elicitation"], Era.MODERN, Era.MODERN)
    assert told == {"elicitation": {}, "extensions": {capabilities.UI: UI}}
    assert capabilities.to_server({"roots": {}}, ["roots"], Era.MODERN, Era.MODERN) == {"roots": {}}


def test_settings_of_several_servers_are_those_that_all_of_them_keep() -> None:
    one: Object = {"com.example/a": {"x": 1, "deep": {"p": True, "q": [1, 2]}, "only": True}}
    two: Object = {"com.example/a": {"x": 1, "deep": {"p": 1, "q": [1, 2]}, "other": True}, "com.example/b": {"z": 0}}
    assert capabilities.merged([one, two]) == {
        "com.example/a": {"x": 1, "deep": {"q": [1, 2]}},
        "com.example/b": {"z": 0},
    }
    assert capabilities.merged([one, one]) == one
    assert capabilities.merged([]) == {}


def test_only_extensions_that_are_not_understood_may_have_unknown_methods() -> None:
    names = ["com.example/a", capabilities.UI, capabilities.TASKS]
    assert capabilities.opaque(names) == {"com.example/a"}
