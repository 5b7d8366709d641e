"""What was observed of a server, put together as it comes in."""

from __future__ import annotations

from gateway.model.catalog import Kind
from gateway.pinning.facts import STARTED, TOLD
from gateway.pinning.fingerprint import Fingerprint, Wrong, definitions_of, key_of, text_of, told
from tests.kit.definitions import definition, listing, tool


def test_tools_prompts_and_templates_are_pinned_and_resources_are_not() -> None:
    """S131: resources come and go."""
    items = [
        tool("t"),
        definition(Kind.PROMPT, "t"),
        definition(Kind.TEMPLATE, "x://{id}"),
        definition(Kind.RESOURCE, "x://1"),
    ]
    assert list(definitions_of(listing("a", *items))) == ["tool:t", "prompt:t", "template:x://{id}"]
    assert key_of(Kind.TOOL, "t") == "tool:t"


def test_of_two_tools_with_one_name_the_first_counts() -> None:
    """G084."""
    first, second = tool("t", description="1"), tool("t", description="2")
    assert definitions_of(listing("a", first, second)) == {"tool:t": first}


def test_the_whole_definition_is_kept_in_canonical_form() -> None:
    """S133: exact integers, sorted keys, nothing left out."""
    text = text_of(tool("t", b=2**70, a={"z": 1.0, "_meta": None}))
    assert text == '{"a":{"_meta":null,"z":1.0},"b":1180591620717411303424,"inputSchema":{"type":"object"},"name":"t"}'


def test_facts_of_a_group_are_replaced_together() -> None:
    seen = Fingerprint({"cwd": "/", "file:a": "1", "executable": "x"}).with_facts({"executable": "y"}, STARTED)
    assert seen.facts == {"cwd": "/", "executable": "y"}


def test_what_is_wrong_is_remembered_by_whose_connection_it_was() -> None:
    wrong = Wrong("probe:/x", "1", "2")
    seen = Fingerprint().with_wrong("", wrong, "probe").with_wrong("principal:b", wrong, "probe")
    assert list(seen.wrong.values()) == [wrong, wrong]
    assert list(seen.with_wrong("", None, "probe").wrong) == ["probe principal:b"]
    assert seen.without_wrong().wrong == {}


def test_a_listing_brings_definitions_and_instructions() -> None:
    seen = Fingerprint().listing(listing("a", tool("t"), instructions="read"))
    assert list(seen.definitions or ()) == ["tool:t"]
    assert seen.instructions == "read"


def test_a_servers_own_words_are_digests_but_for_the_version() -> None:
    facts = told({"name": "x"}, "2026-07-28", {})
    assert set(facts) == TOLD - {"tls_key"}
    assert facts["version"] == "2026-07-28"
    assert told({"a": 1, "b": 2}, "", {}) == told({"b": 2, "a": 1}, "", {})
