"""A call: its arguments and its id."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest

from gateway.model import call as module
from gateway.model.call import Call, Caller, Target, new_call_id
from gateway.model.catalog import Kind
from gateway.model.principal import ANONYMOUS
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.versions import Era

ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


def call(params: Object) -> Call:
    target = Target(Kind.TOOL, "files", "read")
    return Call("id", 1, "tools/call", params, target, ANONYMOUS, Caller(Era.MODERN, "2026-07-28"))


@pytest.mark.parametrize(
    ("params", "arguments"),
    [
        ({}, {}),
        ({"arguments": {}}, {}),
        ({"arguments": {"a": [1]}}, {"a": [1]}),
        ({"arguments": None}, {}),
        ({"arguments": ["a"]}, {}),
        ({"arguments": "a"}, {}),
    ],
)
def test_arguments_are_an_object_for_everyone_who_reads_them(params: Object, arguments: Value) -> None:
    """G092: what is absent, null or nonsense cannot break a condition; the endpoint has refused the nonsense."""
    assert call(params).arguments == arguments


def test_what_a_client_did_not_say_is_empty() -> None:
    made = call({})
    assert (made.meta, made.trace, made.progress_token, made.log_level, made.exposed) == ({}, {}, None, None, "")
    assert (made.caller.session, made.caller.capabilities, made.caller.view) == ("", {}, None)
    assert made.target.annotations == {}


def test_call_ids_are_ulids_and_all_different() -> None:
    made = [new_call_id() for _ in range(1000)]
    assert all(ULID.fullmatch(one) for one in made)
    assert len(set(made)) == len(made)


def test_call_ids_sort_by_the_time_they_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_790_000_000_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: now)
    made = []
    for _ in range(50):
        made.append(new_call_id())
        now += 1_000_000
    assert made == sorted(made)


@pytest.mark.parametrize(
    ("milliseconds", "dice", "made"),
    [
        (0, 0, "00000000000000000000000000"),
        (0, 1, "00000000000000000000000001"),
        (1, 0, "00000000010000000000000000"),
        (1469918176385, 0, "01ARYZ6S410000000000000000"),
        (2**48 - 1, 2**80 - 1, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
    ],
)
def test_a_call_id_is_spelled_as_the_ulid_specification_says(
    monkeypatch: pytest.MonkeyPatch, milliseconds: int, dice: int, made: str
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: milliseconds * 1_000_000 + 999_999)
    monkeypatch.setattr(module._dice, "getrandbits", lambda bits: dice if bits == 80 else None)
    assert new_call_id() == made


def test_a_call_names_its_trace_for_the_log() -> None:
    made = call({})
    assert made.trace_id == ""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    assert replace(made, trace={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}).trace_id == trace
