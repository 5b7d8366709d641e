"""What is kept of payloads: never a value (S168)."""

from __future__ import annotations

import json

import pytest

from gateway.audit import payload, values
from gateway.audit.keys import AuditKey
from gateway.audit.payload import Keeping
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


@pytest.mark.parametrize("mode", ["none", "shape", "shape+hmac", "conditions", "full"])
def test_no_other_mode_keeps_a_value(mode: payload.Mode) -> None:
    """S168: ``conditions`` keeps what conditions read and here they read nothing; ``full`` keeps it elsewhere."""
    blocks = payload.arguments_block(Keeping(mode), ARGUMENTS, KEY) | payload.result_block(
        Keeping(mode), {"content": rawjson.raw([{"type": "text", "text": "canary-three"}])}, KEY
    )

    assert "canary" not in json.dumps(blocks)
    assert "12345678" not in json.dumps(blocks)


def test_each_mode_keeps_what_it_says() -> None:
    kept = {mode: sorted(payload.arguments_block(Keeping(mode), ARGUMENTS, KEY)) for mode in payload.MODES}

    assert kept == {
        "none": ["args_bytes", "mode"],
        "shape": ["args_bytes", "args_shape", "mode"],
        "shape+hmac": ["args_bytes", "args_hmac", "args_shape", "mode"],
        "conditions": ["args", "args_bytes", "args_hmac", "args_shape", "mode"],
        "redacted": ["args", "args_bytes", "args_hmac", "args_shape", "mode"],
        "full": ["args_bytes", "args_hmac", "args_shape", "mode"],
    }
    results = {mode: sorted(payload.result_block(Keeping(mode), {}, KEY)) for mode in payload.MODES}
    assert results["none"] == results["shape"] == ["mode", "result_bytes"]
    assert results["shape+hmac"] == results["conditions"] == results["full"] == ["mode", "result_bytes", "result_hmac"]
    assert results["redacted"] == ["mode", "result", "result_bytes", "result_hmac"]


def test_equal_arguments_have_equal_digests_whatever_their_order() -> None:
    def digest(arguments: Object, key: AuditKey = KEY) -> object:
        return payload.arguments_block(Keeping("shape+hmac"), arguments, key)["args_hmac"]

    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    assert digest({"a": 1}) != digest({"a": 1}, AuditKey.of(b"other" * 8))


def test_sizes_are_those_of_the_bytes() -> None:
    result = {"content": rawjson.Raw(b"[ 1 ]")}

    assert payload.arguments_block(Keeping("none"), {"é": 1}, KEY)["args_bytes"] == len('{"é":1}'.encode())
    assert payload.result_block(Keeping("none"), result, KEY)["result_bytes"] == len(b'{"content":[ 1 ]}')


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


def test_conditions_keeps_what_conditions_read_and_names_what_it_could_not_keep() -> None:
    keeping = Keeping("conditions", (("sql",), ("page", "limit"), ("blob",)), ("/page",))
    block = payload.arguments_block(keeping, {"sql": "select 1", "page": {"limit": 5}, "blob": "x" * 5000, "c": 1}, KEY)

    assert block["args"] == '{"sql":"select 1"}'
    assert block["args_missing"] == [["page", "limit"], ["blob"]]


def test_redacted_masks_arguments_and_results() -> None:
    """S148, S168: secrets by name, by pointer and by form; a pointer counts for what the server echoes too."""
    keeping = Keeping("redacted", redact=("/card/number",))
    arguments: Object = {"user": "alice", "password": "hunter2", "card": {"number": "4111", "name": "A"}}
    result = {
        "content": rawjson.raw([{"type": "text", "text": "token ghp_" + "a" * 36 + " " + "x" * 400}]),
        "structuredContent": rawjson.raw({"card": {"number": "4111"}, "apiKey": "k1", "rows": [1.5]}),
    }
    kept = payload.arguments_block(keeping, arguments, KEY)["args"]
    shown = json.loads(str(payload.result_block(keeping, result, KEY)["result"]))

    assert json.loads(str(kept)) == {
        "user": "alice",
        "password": "[R:7]",
        "card": {"number": "[R:4]", "name": "A"},
    }
    assert shown["structuredContent"] == {"card": {"number": "[R:4]"}, "apiKey": "[R:2]", "rows": [1.5]}
    text = shown["content"][0]["text"]
    assert text.startswith("token [redacted: github_token] xxx")
    assert len(text) == 257


def test_what_stays_too_long_is_left_out_and_said() -> None:
    many: Object = {f"k{number}": "word" for number in range(2000)}
    huge = {"content": rawjson.raw(["x" * (payload.MAX_RESULT + 1)])}

    assert payload.arguments_block(Keeping("redacted"), many, KEY)["args_cut"] is True
    assert payload.result_block(Keeping("redacted"), huge, KEY)["result_cut"] is True
    cut = payload.arguments_block(Keeping("redacted"), {f"k{number}": "word" * 60 for number in range(40)}, KEY)
    assert len(str(cut["args"])) <= 4096


def test_full_texts_leave_out_what_pointers_name() -> None:
    keeping = Keeping("full", redact=("/rows/*/pin",))
    arguments: Object = {"rows": [{"pin": "1234", "a": 1}, {"pin": "9", "a": 2}]}
    result = {"structuredContent": rawjson.raw(arguments), "content": rawjson.Raw(b"[ ]")}

    assert (
        payload.full_arguments(keeping, arguments) == b'{"args":{"rows":[{"a":1,"pin":"[R:4]"},{"a":2,"pin":"[R:1]"}]}}'
    )
    assert b"1234" not in payload.full_result(keeping, result)
    assert (
        payload.full_result(Keeping("full"), {"content": rawjson.Raw(b"[ 1.50 ]")})
        == b'{"result":{"content":[ 1.50 ]}}'
    )


def test_paths_beyond_the_bound_are_named_as_missing() -> None:
    paths = tuple((f"p{number}",) for number in range(values.MAX_PATHS + 3))
    block = payload.arguments_block(Keeping("conditions", paths), {"p0": 1, "p65": 2}, KEY)
    assert block["args"] == '{"p0":1}'
    assert block["args_missing"] == [["p64"], ["p65"], ["p66"]]
