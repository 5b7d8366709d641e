"""A server reduced to digests."""

from __future__ import annotations

import pytest

from gateway.model.catalog import Kind, Listing
from gateway.pinning.fingerprint import observe
from tests.kit.definitions import definition, listing, tool


def seen(*definitions: object, **facts: object) -> Listing:
    return listing("a", *definitions, **{"version": "2026-07-28", **facts})  # type: ignore[arg-type]  # reason: definitions.


def test_every_tool_prompt_and_template_has_a_digest_of_its_own() -> None:
    """S131: resources come and go, and are not pinned."""
    items = [
        tool("t"),
        definition(Kind.PROMPT, "t"),
        definition(Kind.TEMPLATE, "x://{id}"),
        definition(Kind.RESOURCE, "x://1"),
    ]
    print_ = observe(seen(*items), "c")
    assert set(print_.definitions) == {"tool:t", "prompt:t", "template:x://{id}"}
    assert len(set(print_.definitions.values())) == 3


def test_of_two_tools_with_one_name_the_first_counts() -> None:
    """G084."""
    first, second = tool("t", description="1"), tool("t", description="2")
    assert observe(seen(first, second), "c").definitions == {"tool:t": first.digest}


@pytest.mark.parametrize(
    "changed",
    [
        {"server_info": {"name": "A"}},
        {"capabilities": {"tools": {}}},
        {"instructions": "read this"},
        {"version": "2025-11-25"},
    ],
)
def test_each_of_the_servers_own_words_counts(changed: dict[str, object]) -> None:
    assert observe(seen(tool("t"), **changed), "c") != observe(seen(tool("t")), "c")


def test_order_of_keys_is_no_change() -> None:
    """S133."""
    assert observe(seen(server_info={"a": 1, "b": 2}), "c") == observe(seen(server_info={"b": 2, "a": 1}), "c")
