"""What is kept of payloads: never a value (S168)."""

from __future__ import annotations

import json

import pytest

from gateway.audit import payload
from gateway.audit.keys import AuditKey
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object
from tests.kit.audit import KEY

ARGUMENTS: Object = {"title": "canary-one", "labels": ["canary-two", "b"], "deep": {"a/b": {"n": 12345678}}, "on": True}


def test_a_shape_holds_types_and_lengths_by_path() -> None:
    assert payload.shape({**ARGUMENTS, "x": None, "f": 1.5, "rows": [{"id": "abc"}, 7]}) == {
        "title": "str:10",
        "labels": "list:2",
        "deep": "object:1",
        "deep/a~1b": "object:1",
        "deep/a~1b/n": "int",
        "on": "bool",
        "x": "null",
        "f": "float",
        "rows": "list:2",
        "rows/0": "object:1",
        "rows/0/id": "str:3",
    }


@pytest.mark.parametrize("mode", payload.MODES)
def test_no_mode_keeps_a_value(mode: payload.Mode) -> None:
    blocks = payload.arguments_block(mode, ARGUMENTS, KEY) | payload.result_block(
        mode, {"content": rawjson.raw([{"type": "text", "text": "canary-three"}])}, KEY
    )

    assert "canary" not in json.dumps(blocks)
    assert "12345678" not in json.dumps(blocks)


def test_each_mode_keeps_what_it_says() -> None:
    kept = {mode: sorted(payload.arguments_block(mode, ARGUMENTS, KEY)) for mode in payload.MODES}

    assert kept == {
        "none": ["args_bytes", "mode"],
        "shape": ["args_bytes", "args_shape", "mode"],
        "shape+hmac": ["args_bytes", "args_hmac", "args_shape", "mode"],
    }
    results = {mode: sorted(payload.result_block(mode, {}, KEY)) for mode in payload.MODES}
    assert results["none"] == results["shape"] == ["mode", "result_bytes"]
    assert results["shape+hmac"] == ["mode", "result_bytes", "result_hmac"]


def test_equal_arguments_have_equal_digests_whatever_their_order() -> None:
    def digest(arguments: Object, key: AuditKey = KEY) -> object:
        return payload.arguments_block("shape+hmac", arguments, key)["args_hmac"]

    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    assert digest({"a": 1}) != digest({"a": 1}, AuditKey.of(b"other" * 8))


def test_sizes_are_those_of_the_bytes() -> None:
    result = {"content": rawjson.Raw(b"[ 1 ]")}

    assert payload.arguments_block("none", {"é": 1}, KEY)["args_bytes"] == len('{"é":1}'.encode())
    assert payload.result_block("none", result, KEY)["result_bytes"] == len(b'{"content":[ 1 ]}')


def test_a_huge_or_deep_argument_has_a_small_shape() -> None:
    deep: Object = {"end": 1}
    for _ in range(60):
        deep = {"down": deep}
    wide: Object = {f"key-{number}": number for number in range(10_000)}

    assert len(payload.shape(deep)) == payload.MAX_DEPTH
    assert len(payload.shape(wide)) == payload.MAX_PATHS + 1
    assert payload.shape(wide)[payload.CUT] == f"cut:{10_000 - payload.MAX_PATHS}"
    assert payload.shape({"list": [{"x": 1}] * 1000}).keys() == {
        "list",
        *(f"list/{n}" for n in range(8)),
        *(f"list/{n}/x" for n in range(8)),
    }


def test_what_is_left_out_of_a_shape_is_counted_at_every_level() -> None:
    wide: Object = {f"k{n}": {"a": [{"b": 1}] * 20, "c": n} for n in range(100)}
    found = payload.shape(wide)
    # Each of the 100: itself, a, the first 8 items of a with their b, c.
    assert len(found) == payload.MAX_PATHS + 1
    assert found[payload.CUT] == f"cut:{100 * (3 + 8 + 8) - payload.MAX_PATHS}"


def test_a_hostile_argument_name_is_escaped_and_cut() -> None:
    shape = payload.shape({"a\n\x1b" + "x" * 1000: 1})

    assert all(path.isprintable() and len(path) <= 128 for path in shape)
