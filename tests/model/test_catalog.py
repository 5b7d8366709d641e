"""Definitions and their digests (S133, G087, G088), routes and how they are found."""

from __future__ import annotations

import hashlib
import json
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.model.catalog import (
    KIND_OF_METHOD,
    LIST_KEY,
    LIST_METHOD,
    NAME_KEY,
    Catalog,
    Definition,
    HeldBack,
    Kind,
    Listing,
    Route,
)
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value

TOOL: Object = {
    "name": "query",
    "title": "Query",
    "description": "Runs a query.",
    "icons": [{"src": "https://example.com/i.png", "sizes": ["48x48"]}],
    "annotations": {"readOnlyHint": True, "destructiveHint": False},
    "inputSchema": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "definitions": {"n": {"oneOf": [{"type": "integer", "maximum": 18446744073709551615}, {"$ref": "#"}]}},
        "properties": {
            "sql": {"type": "string", "default": "a\u2028b", "minLength": 0},
            "n": {"$ref": "#/definitions/n"},
        },
        "additionalProperties": False,
        "if": {"required": ["n"]},
        "then": {"minProperties": 1.5},
    },
    "outputSchema": {"type": "object", "required": []},
    "execution": {"taskSupport": "optional"},
    "_meta": {"com.example/k": None},
    "x-future": {"z": 1, "a": [1e-7, -0.0]},
}


def parse(value: Value, kind: Kind = Kind.TOOL) -> Definition:
    return Definition.parse(kind, rawjson.encode(value))


@pytest.mark.parametrize(
    ("kind", "key", "method"),
    [
        (Kind.TOOL, "name", "tools/list"),
        (Kind.PROMPT, "name", "prompts/list"),
        (Kind.RESOURCE, "uri", "resources/list"),
        (Kind.TEMPLATE, "uriTemplate", "resources/templates/list"),
    ],
)
def test_each_kind_has_its_name_its_list_and_its_method(kind: Kind, key: str, method: str) -> None:
    found = parse({key: "own name", "name" if key != "name" else "title": "shown"}, kind)
    assert (found.kind, found.name) == (kind, "own name")
    assert NAME_KEY[kind] == key
    assert KIND_OF_METHOD[LIST_METHOD[kind]] is kind
    assert LIST_METHOD[kind] == method
    assert set(LIST_KEY) == set(Kind)


def test_a_definition_keeps_every_field_under_another_name() -> None:
    """G087 and G088: bytes, order and unknown members survive; only the name is written anew, in its place."""
    text = b'{"x-future" : {"b":1.50,"a":[ ]}, "name":"a.b","inputSchema":{"$defs":{"q":{}},"type" : "object"},"z":1E2}'
    found = Definition.parse(Kind.TOOL, text)
    assert found.encoded("s__a_b") == (
        b'{"x-future":{"b":1.50,"a":[ ]},"name":"s__a_b","inputSchema":{"$defs":{"q":{}},"type" : "object"},"z":1E2}'
    )
    assert found.name == "a.b"


def test_a_definition_can_be_read_from_a_page() -> None:
    [item] = rawjson.decode_items(b'[{"uri":"file:///a"}]')
    assert Definition.parse(Kind.RESOURCE, item).name == "file:///a"


def test_annotations_are_read_if_they_are_an_object() -> None:
    assert parse(TOOL).annotations == {"readOnlyHint": True, "destructiveHint": False}
    assert parse({"name": "a"}).annotations == {}
    assert parse({"name": "a", "annotations": None}).annotations == {}
    assert parse({"name": "a", "annotations": ["readOnlyHint"]}).annotations == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[]", "not_an_object"),
        (b"null", "not_an_object"),
        (b'"name"', "not_an_object"),
        (b"{", "syntax"),
        (b"{}", "no_name"),
        (b'{"Name":"a"}', "no_name"),
        (b'{"name":null}', "no_name"),
        (b'{"name":1}', "no_name"),
        (b'{"name":["a"]}', "no_name"),
        (b'{"name":"a\xff"}', "not_utf8"),
        (b'{"name":"a","x":"\xc3("}', "not_utf8"),
        (b'{"name":"a","x":"\\ud800"}', "lone_surrogate"),
        (b'{"name":"a","x":NaN}', "not_a_number"),
        (b'{"name":"a","x":1e999}', "number_out_of_range"),
        (b'{"name":"a","x":%s}' % (b"9" * 5000), "number_too_long"),
        (b'{"name":"a","x":%s}' % (b"[" * 900 + b"]" * 900), "too_deep"),
        (b'{"name":"a","x":%s}' % (b"[" * 90_000), "too_deep"),
        (b'{"name":"a","name":"b"}', "duplicate_key"),
        (b'{"name":"a","inputSchema":{"description":"evil","description":"good"}}', "duplicate_key"),
    ],
)
def test_an_item_with_more_or_less_than_one_reading_is_no_definition(text: bytes, reason: str) -> None:
    """A definition travels as bytes but is pinned as a value: two readings would let the pinned one hide another."""
    with pytest.raises(JsonError) as caught:
        Definition.parse(Kind.TOOL, text)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("kind", "text", "canonical", "digest"),
    [
        (
            Kind.TOOL,
            b'{"name":"a"}',
            '{"name":"a"}',
            "48d3bb20f2e154ec7da38ea75e28f18f6bafc17a314aec1651b9c383bec2f8f1",
        ),
        (
            Kind.TEMPLATE,
            b'{"x": [1,1.0,1e22,18446744073709551616,"\\u00e9\\n\\u0001"], "uriTemplate":"file:///{path}"}',
            '{"uriTemplate":"file:///{path}","x":[1,1.0,1e+22,18446744073709551616,"\u00e9\\n\\u0001"]}',
            "2746f5eb0b4456d874008d942d9ea7b3da603257cc5964e4b9b642c1ad7afe77",
        ),
    ],
)
def test_golden_digests_stay_over_releases(kind: Kind, text: bytes, canonical: str, digest: str) -> None:
    """S133: a pin file of an earlier release must still match."""
    assert Definition.parse(kind, text).digest == digest
    assert hashlib.sha256(b"mcp-gateway-definition-v1\n" + canonical.encode()).hexdigest() == digest


def test_order_of_keys_and_white_space_do_not_count() -> None:
    def turned(value: Value) -> Value:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(list(value))}
        return [turned(item) for item in value] if isinstance(value, list) else value

    same = json.dumps(turned(TOOL), indent=3, ensure_ascii=False).encode()
    assert Definition.parse(Kind.TOOL, same).digest == parse(TOOL).digest


def test_order_in_arrays_and_types_of_numbers_count() -> None:
    forms: list[Value] = [[1, 2], [2, 1], [1.0, 2], ["1", 2], [True, 2], [1, 2, None], [[1, 2]], {"0": 1, "1": 2}]
    assert len({parse({"name": "a", "x": form}).digest for form in forms}) == len(forms)


KEY = "<the key itself>"


def places(value: Value) -> list[tuple[str | int, ...]]:
    """Return the path of every scalar and every key in a tree."""
    if isinstance(value, dict):
        return [path for key, item in value.items() for path in ((key, KEY), *((key, *rest) for rest in places(item)))]
    if isinstance(value, list):
        return [(at, *rest) for at, item in enumerate(value) for rest in places(item)]
    return [()]


def changed(value: Value, at: int, char: str) -> Value:
    """Change one character of a text, or what comes nearest to it in another scalar."""
    match value:
        case str():
            at %= len(value) or 1
            return value[:at] + (char if value[at : at + 1] != char else char + char) + value[at + 1 :]
        case bool():
            return not value
        case int() | float():
            return value + 1
        case _:
            return 0


def mutated(value: Value, path: tuple[str | int, ...], at: int, char: str) -> Value:
    """Return a copy with one character changed in the scalar or the key at ``path``."""
    if not path:
        return changed(value, at, char)
    step, *rest = path
    if isinstance(value, dict) and rest == [KEY]:
        return {str(changed(key, at, char)) if key == step else key: item for key, item in value.items()}
    if isinstance(value, dict):
        return {key: mutated(item, tuple(rest), at, char) if key == step else item for key, item in value.items()}
    assert isinstance(value, list)
    return [mutated(item, tuple(rest), at, char) if n == step else item for n, item in enumerate(value)]


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from(places(TOOL)), st.integers(0, 200), st.characters(codec="utf-8"))
def test_any_change_of_one_character_anywhere_changes_the_digest(
    path: tuple[str | int, ...], at: int, char: str
) -> None:
    """S133, by a thousand mutations of keys and values at every depth."""
    other = mutated(TOOL, path, at, char)
    assert other != TOOL
    if path == ("name", KEY):
        with pytest.raises(JsonError):
            parse(other)
    else:
        assert parse(other).digest != parse(TOOL).digest


def route(server: str, kind: Kind, name: str, exposed: str = "") -> Route:
    found = parse({NAME_KEY[kind]: name}, kind)
    return Route(server, exposed or f"{server}__{name}", found, found.encoded(exposed))


def test_a_route_knows_where_it_leads() -> None:
    found = route("files", Kind.TOOL, "read", "files__read")
    assert (found.kind, found.name, found.server, found.exposed) == (Kind.TOOL, "read", "files", "files__read")
    assert found.wire == b'{"name":"files__read"}'


def test_a_listing_keeps_the_order_of_its_server() -> None:
    items = tuple(
        parse({"name": name}, kind) for name, kind in [("b", Kind.TOOL), ("p", Kind.PROMPT), ("a", Kind.TOOL)]
    )
    listing = Listing("files", items)
    assert [item.name for item in listing.of(Kind.TOOL)] == ["b", "a"]
    assert [item.name for item in listing.of(Kind.PROMPT)] == ["p"]
    assert listing.of(Kind.RESOURCE) == ()


def test_a_catalog_finds_tools_and_prompts_by_name_and_resources_by_uri() -> None:
    tool, prompt = route("a", Kind.TOOL, "x"), route("a", Kind.PROMPT, "x")
    one, two = route("a", Kind.RESOURCE, "file:///r"), route("b", Kind.RESOURCE, "file:///r")
    template = route("b", Kind.TEMPLATE, "file:///r")
    held = HeldBack("c", Kind.TOOL, "y", "c__y", "same name")
    catalog = Catalog.of(iter([tool, one, prompt, two, template]), iter([held]), {"a": Listing("a")})
    assert catalog.routes == (tool, one, prompt, two, template)
    assert catalog.by_name == {(Kind.TOOL, "a__x"): tool, (Kind.PROMPT, "a__x"): prompt}
    assert catalog.by_kind[Kind.RESOURCE] == (one, two)
    assert catalog.by_uri == {
        (Kind.RESOURCE, "file:///r"): (one, two),
        (Kind.TEMPLATE, "file:///r"): (template,),
    }
    assert (catalog.held_back, catalog.listings) == ((held,), {"a": Listing("a")})


@pytest.mark.parametrize(
    "near",
    [
        "A__x",
        "a__X",
        "a__x ",
        " a__x",
        "a__x\x00",
        "a__\u0445",
        "a__x\u200b",
        "\uff41__x",
        "a%5F_x",
        "a_x",
        "x",
        "a__x\n",
        "",
    ],
)
def test_a_name_is_found_exactly_or_not_at_all(near: str) -> None:
    """G072: no case, blanks, look-alikes or encodings."""
    catalog = Catalog.of([route("a", Kind.TOOL, "x")], [], {})
    assert (Kind.TOOL, "a__x") in catalog.by_name
    assert (Kind.TOOL, near) not in catalog.by_name
    assert (Kind.PROMPT, "a__x") not in catalog.by_name


def test_a_catalog_cannot_be_changed_by_who_reads_it() -> None:
    listings = {"a": Listing("a")}
    catalog = Catalog.of([route("a", Kind.TOOL, "x")], [], listings)
    listings.clear()
    assert list(catalog.listings) == ["a"]
    for mapping in (catalog.by_name, catalog.by_kind, catalog.by_uri, catalog.listings):
        assert isinstance(mapping, MappingProxyType)
