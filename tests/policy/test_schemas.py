"""Arguments against schemas: right for every dialect in use, no fetching, bounded, and no value in a message."""

from __future__ import annotations

import socket
import time

import pytest

from gateway.model.catalog import Kind
from gateway.policy.schemas import MAX_FAULTS, MAX_VALUES, Schema, Unusable, compiled, judged
from gateway.protocol.rawjson import Object, Value
from tests.kit.definitions import definition, tool

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def usable(schema: Value) -> Schema:
    made = compiled(schema)
    assert isinstance(made, Schema), made
    return made


def unusable(schema: Value) -> Unusable:
    made = compiled(schema)
    assert isinstance(made, Unusable)
    return made


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1}, {"a": "1"}),
        ({"additionalProperties": False}, {}, {"a": 1}),
        ({"required": ["a"]}, {"a": None}, {}),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}),
        ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
        ({"properties": {"a": {"prefixItems": [{"type": "string"}]}}}, {"a": ["x", 1]}, {"a": [1]}),
        ({"$schema": DRAFT_7, "properties": {"a": {"items": [{"type": "string"}]}}}, {"a": ["x", 1]}, {"a": [1]}),
        ({"$schema": DRAFT_7, "definitions": {"s": {"maximum": 1}}, "properties": {"a": {"$ref": "#/definitions/s"}}},
         {"a": 1}, {"a": 2}),
        ({"properties": {"a": {"pattern": "^(?!x)[a-z]+$"}}}, {"a": "abc"}, {"a": "xbc"}),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 2**63 - 1}, {"a": 0.5}),
    ],
)  # fmt: skip
def test_what_fits_passes_and_what_does_not_is_told(schema: Object, good: Object, bad: Object) -> None:
    made = usable(schema)
    assert made.faults(good) == ()
    assert made.faults(bad)


def test_formats_are_annotations() -> None:
    assert usable({"properties": {"a": {"format": "date"}}}).faults({"a": "no date"}) == ()


def test_a_fault_names_the_place_and_the_rule_but_no_value() -> None:
    schema = usable({"properties": {"limit": {"type": "object", "properties": {"n": {"maximum": 5}}}}})
    (fault,) = schema.faults({"limit": {"n": 31337}})
    assert fault.startswith("limit/n: ")
    assert "31337" not in fault
    (fault,) = usable({"properties": {"pin": {"enum": ["a"]}}}).faults({"pin": "s3cret"})
    assert "s3cret" not in fault


def test_names_in_a_fault_are_shown_without_characters_that_people_do_not_see() -> None:
    (fault,) = usable({"additionalProperties": False}).faults({"a\x1b[2J\u202eb": 1})
    assert fault.isprintable()
    (fault,) = usable({"additionalProperties": False}).faults({"x" * 5_000: 1})
    assert len(fault) <= 200


def test_few_faults_are_told_however_many_there_are() -> None:
    schema = usable({"additionalProperties": {"type": "string"}})
    assert len(schema.faults({f"k{n}": n for n in range(100)})) == MAX_FAULTS


@pytest.mark.parametrize("reference", ["http://127.0.0.1:{port}/x", "file:///etc/hostname", "other.json"])
def test_nothing_is_fetched_for_a_reference(reference: str) -> None:
    """S76."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        found = unusable({"properties": {"a": {"$ref": reference.format(port=port)}}})
        assert found.reason == "unresolvable_ref"
        found = unusable({"$schema": f"http://127.0.0.1:{port}/schema", "type": "object"})
        assert found.reason == "unsupported_dialect"
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_dialect_that_is_not_known_is_named() -> None:
    """S78."""
    found = unusable({"$schema": "http://json-schema.org/draft-03/schema#", "type": "object"})
    assert found == Unusable(
        "unsupported_dialect",
        "its inputSchema is written in a dialect that is not known: http://json-schema.org/draft-03/schema#",
    )


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "any"}, " at type"),
        ({"properties": {"a": {"required": True}}}, " at properties/a/required"),
        ({"properties": {"a": {"pattern": "("}}}, " at properties/a/pattern"),
        ([], "not an object"),
        ("x", "not an object"),
    ],
)
def test_a_schema_that_is_none_is_told_with_its_place(schema: Value, place: str) -> None:
    found = unusable(schema)
    assert found.reason == "invalid_schema"
    assert found.text.endswith(place)


def test_hostile_schemas_and_values_take_little_time() -> None:
    """S77: each of these keeps other validators busy for seconds; all of them together pass in far less than one."""
    steps: Object = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(22)}
    doubling: Object = {"$defs": steps | {"d22": {"type": "string"}}, "$ref": "#/$defs/d0"}
    started = time.process_time()
    assert unusable(doubling).reason == "too_expensive"
    assert unusable({"$ref": "#"}).reason == "too_expensive"
    assert usable({"properties": {"a": {"pattern": "^(a+)+$"}}}).faults({"a": "a" * 100_000 + "b"})
    assert usable({"properties": {"a": {"pattern": "^(?=x?)(a|a)*b$"}}}).faults({"a": "a" * 100_000 + "c"})
    rows: list[Value] = [{"n": n} for n in range(20_000)]
    assert usable({"properties": {"a": {"uniqueItems": True}}}).faults({"a": rows}) == ()
    assert time.process_time() - started < 5


HOSTILE: dict[str, tuple[Object, Object]] = {
    "patterns that all members are held against": (
        {"patternProperties": {f"{n}x": True for n in range(4_500)}},
        {f"k{n}": 1 for n in range(20_000)},
    ),
    "a pattern that tries everything": (
        {"properties": {"a": {"items": {"pattern": "^(?!(?:(?=a)a+)+$).*"}}}},
        {"a": ["a" * 12 + "b"] * 20_000},
    ),
    "a long list of choices": (
        {"properties": {"a": {"items": {"enum": [f"{'x' * 50}{n}" for n in range(20_000)]}}}},
        {"a": ["x"] * 9_000},
    ),
    "names": ({"propertyNames": {"pattern": "^(a|aa)+$"}}, {f"{'a' * 40}{n}": 1 for n in range(9_000)}),
    "many required": ({"required": [f"k{n}" for n in range(19_000)]}, {"a": [1] * 400}),
    "tiny fractions": ({"properties": {"a": {"items": {"multipleOf": 1e-300}}}}, {"a": [1e308] * 90_000}),
    "all of nothing": ({"properties": {"a": {"items": {"allOf": [True] * 4_900}}}}, {"a": [1] * 90_000}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_takes_long_by_itself_counts_for_more(name: str) -> None:
    """S77: each of these took from half a second to minutes, and the loop of every other call with it."""
    schema, arguments = HOSTILE[name]
    started = time.process_time()
    made = usable(schema)
    made.faults(arguments)
    assert time.process_time() - started < 1


def test_where_a_reference_leads_at_the_time_counts() -> None:
    """S77: a dynamic reference leads to the outermost of its name, and a name may be written in several ways."""
    inner: Value = {"$id": "in", "$dynamicAnchor": "n", "properties": {"b": {"$dynamicRef": "#n"}}}
    outer: Object = {"$id": "https://s.example/out", "$dynamicAnchor": "n", "$defs": {"i": inner}}
    assert unusable(outer | {"allOf": [{"$ref": "in"}, {"$ref": "in"}]}).reason == "too_expensive"
    twice: Value = [{"$ref": "https://s.example/b"}, {"$ref": "https://s.example/b"}]
    shouted: Value = {"$id": "https://S.example/b", "properties": {"b": {"allOf": twice}}}
    assert unusable({"$defs": {"q": shouted}, "$ref": "https://s.example/b"}).reason == "too_expensive"


def test_values_over_the_budget_are_refused_instead_of_checked() -> None:
    schema = usable({"properties": {"a": {"items": {"anyOf": [{"const": n} for n in range(900)]}}}})
    assert schema.faults({"a": [1, 2, 3]}) == ()
    assert schema.faults({"a": [-1] * 50}) == ("they do not fit the schema",)
    assert schema.faults({"a": [1] * 5_000}) == ("they are too large to be checked against the schema",)
    assert schema.faults({"a": ["x" * 2_000_000]}) == ("they are too large to be checked against the schema",)


def test_values_deeper_than_the_validator_goes_do_not_pass() -> None:
    schema = usable({"properties": {"a": {"$ref": "#"}}, "additionalProperties": False})
    deep: Object = {}
    for _ in range(60):
        deep = {"a": deep}
    assert schema.faults(deep) == ()
    assert schema.faults({"a": {"a": {"b": deep}}})


def test_a_definition_is_judged_once_and_one_without_a_schema_takes_anything() -> None:
    plain = tool("t", inputSchema={"required": ["a"]})
    first = judged(plain)
    assert judged(plain) is first
    assert isinstance(first, Schema)
    assert first.faults({})
    nothing = judged(definition(Kind.PROMPT, "p"))
    assert isinstance(nothing, Schema)
    assert nothing.faults({"anything": 1}) == ()
    null = judged(tool("n", inputSchema=None))
    assert isinstance(null, Unusable)


def test_content_fits_or_not_and_never_where_there_is_too_much_of_it() -> None:
    schema = compiled({"type": "object", "properties": {"a": {"type": "integer"}}})
    assert isinstance(schema, Schema)
    assert schema.fits({"a": 1}, 2)
    assert not schema.fits({"a": "x"}, 2)
    assert not schema.fits({"a": 1}, MAX_VALUES)
