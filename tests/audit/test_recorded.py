"""A record read back: what it says of a call, and what it cannot be relied on for."""

from __future__ import annotations

import pytest

from gateway.audit import payload, record
from gateway.audit.keys import AuditKey
from gateway.audit.payload import Keeping
from gateway.audit.record import DecisionFacts
from gateway.audit.recorded import Arguments, NotRecorded, Recorded, Stand, read_call, sidecar_of
from gateway.audit.values import Path
from gateway.model.catalog import Kind
from gateway.model.principal import Principal
from gateway.protocol.rawjson import Object, Value
from tests.kit.audit import KEY, PRINCIPAL, STAMP, a_call

ALLOWED = DecisionFacts("allow", "p", "allow[0]", "allow_rule", claims_used={"dept": "crm", "none": None})


def written(
    arguments: Object | None = None, keeping: Keeping | None = None, principal: Principal = PRINCIPAL
) -> Object:
    block = payload.arguments_block(keeping or Keeping("shape"), arguments or {}, KEY)
    described = record.describe(a_call(arguments, principal=principal), ALLOWED, block, KEY)
    return {**STAMP, "seq": 7, **record.call_start(described)}


def read(entry: Object) -> Recorded:
    found = read_call(entry)
    assert found is not None
    return found


def part(entry: Object, member: str, /, **changes: Value) -> Object:
    block = entry[member]
    assert isinstance(block, dict)
    return entry | {member: block | changes}


def test_a_record_says_who_asked_for_what_and_what_was_decided() -> None:
    call = read(written({"a": 1}))
    assert (call.seq, call.call_id, call.at.isoformat()) == (7, a_call().id, "2026-08-23T10:00:00.123456+00:00")
    assert (call.target.kind, call.target.server, call.target.name) == (Kind.TOOL, "warehouse", "query")
    assert call.target.annotations == {"readOnlyHint": True, "title": "Query"}
    assert call.annotations_known
    assert call.principal.groups == PRINCIPAL.groups
    assert call.principal.scopes == PRINCIPAL.scopes
    assert call.stand == Stand("allow", "p", "allow[0]", "allow_rule")
    assert "alice" not in call.who


def test_a_subject_is_known_by_its_keyed_hash_alone() -> None:
    call = read(written())
    assert call.is_hashed_with(KEY)
    assert not call.is_hashed_with(AuditKey.of(b"x" * 32))
    assert call.is_subject(PRINCIPAL.id, KEY)
    assert not call.is_subject("sub:https://as.example/bob", KEY)
    assert not call.is_subject("sub:https://other.example/alice@example.org", KEY)


def test_claims_are_known_where_they_were_looked_at_and_null_is_one_that_was_absent() -> None:
    call = read(written())
    assert call.principal.claims == {"dept": "crm"}
    assert call.knows_claim(("dept",))
    assert call.knows_claim(("none",))
    assert not call.knows_claim(("team",))
    assert not call.knows_claim(())
    bot = read(written(principal=Principal("key:bot", "key", "bot")))
    assert (bot.principal.id, bot.subject) == ("key:bot", "")
    assert bot.knows_claim(("team",))


@pytest.mark.parametrize("value", ["1.5", "x" * 127 + "…", "a\\nb", ["x"] * 64, {"k": "list:3"}])
def test_a_claim_that_may_have_been_another_is_not_known(value: Value) -> None:
    assert not read(part(written(), "principal", claims_used={"dept": value})).knows_claim(("dept",))


@pytest.mark.parametrize(
    ("path", "known"),
    [
        (("a",), True),
        (("b", "c"), True),
        (("b", "x"), True),
        (("none",), True),
        (("none", "below"), True),
        (("a", "below"), True),
        (("b",), False),
        (("e",), False),
        (("l",), True),
        ((), False),
        (("b", "d"), False),
        (("e", "below"), False),
    ],
)
def test_what_conditions_read_is_known_and_what_was_not_there_too(path: Path, known: bool) -> None:
    arguments: Object = {"a": 1.5, "b": {"c": "x", "d": 2}, "e": {"f": 1}, "l": [{"x": 1}, "y"]}
    reads = (("a",), ("b", "c"), ("l",))
    assert read(written(arguments, Keeping("conditions", reads))).arguments.knows(path) is known


def test_arguments_that_were_left_out_are_not_known() -> None:
    reads = (("a",), ("b",))
    call = read(written({"a": "x" * 5000, "b": 1}, Keeping("conditions", reads)))
    assert not call.arguments.knows(("a",))
    assert call.arguments.knows(("b",))
    hidden = read(written({"a": 1, "b": 1}, Keeping("conditions", reads, ("/a",))))
    assert not hidden.arguments.knows(("a",))
    assert hidden.arguments.knows(("b",))


def test_without_a_whole_shape_only_empty_arguments_are_known() -> None:
    many: Object = {f"k{number}": 1 for number in range(100)}
    assert not read(written(many, Keeping("conditions", (("k1",),)))).arguments.knows(("k1",))
    assert not read(written({"a": 1}, Keeping("none"))).arguments.knows(("b",))
    assert read(written({}, Keeping("none"))).arguments.knows(())
    assert not Arguments(shape={}).knows(("a", "b", "c", "d", "e"))
    assert not Arguments(shape={}).knows(("a\u200b",))


@pytest.mark.parametrize(
    ("entry", "missing"),
    [
        (part(written(), "tool", name="a" * 100 + "…"), "cut or escaped"),
        (part(written(), "tool", name="a\\nb"), "cut or escaped"),
        (part(written(), "tool", kind=None), "what was asked for"),
        (part(written(), "principal", groups=["g"] * 64), "were cut"),
        (part(written(), "principal", groups=["g" * 127 + "…"]), "were cut"),
        (part(written(), "principal", groups=None), "not in it"),
        (written() | {"ts": "yesterday"}, "time"),
    ],
)
def test_what_is_not_in_a_record_as_it_was_is_said_to_be_missing(entry: Object, missing: str) -> None:
    with pytest.raises(NotRecorded, match=missing):
        read_call(entry)


def test_names_that_nobody_offers_are_no_calls_and_sidecars_are_named() -> None:
    assert read_call(part(written(), "decision", reason="unknown_name")) is None
    assert sidecar_of(part(written(), "payload", args_sidecar="abc")) == "abc"
    assert sidecar_of(written()) == ""
    beside = read_call(written({"a": 1}, Keeping("full")), b'{"args":{"a":1}}')
    assert beside is not None
    assert beside.arguments.kept == {"a": 1}
    assert beside.arguments.knows(())
