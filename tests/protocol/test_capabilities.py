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
    modern, legacy = capabilities.offered(Era.MODERN), capabilities.offered(Era.LEGACY)
    assert modern == {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "completions": {},
    }
    assert legacy == modern | {"logging": {}}


def test_no_caller_can_change_what_the_next_one_is_offered() -> None:
    capabilities.offered(Era.MODERN).clear()
    assert "tools" in capabilities.offered(Era.MODERN)
