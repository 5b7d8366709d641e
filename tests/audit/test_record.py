"""The records of calls: who, what, where, decided how, ended how, and never too large (S157, G105, G109)."""

from __future__ import annotations

import json

import pytest

from gateway.audit import payload, record
from gateway.audit.chain import MAX_RECORD, Head, seal
from gateway.audit.payload import Keeping
from gateway.audit.record import DecisionFacts, Ending
from gateway.errors import Reason
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange, InstanceFacts
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.model.principal import Principal
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era
from tests.kit.audit import KEY, STAMP, a_call

ALLOWED = DecisionFacts("allow", "analysts-read", "allow[0]", limits={"bucket": "ci-bot", "left": 19})
OK = Complete({"content": rawjson.raw([])})


def described(call: Call | None = None, decision: DecisionFacts = ALLOWED) -> Object:
    call = call or a_call({"limit": 5})
    return record.describe(call, decision, payload.arguments_block(Keeping("shape+hmac"), call.arguments, KEY), KEY)


def exchange() -> Exchange:
    facts = InstanceFacts("warehouse", "stdio", "pid:4711#3", "exe:sha256:77ab", "warehouse-mcp/1.2.0", "ok")
    return Exchange(started=10.0, dispatched=True, dispatched_at=10.00012, answered_at=10.01713, instance=facts)


def outcome_of(outcome: Outcome, call: Call | None = None) -> Object:
    block = record.call_end(described(call), Ending(exchange(), outcome, 10.018342))["outcome"]
    assert isinstance(block, dict)
    return block


def test_a_start_says_who_asked_for_what_and_why_it_may() -> None:
    start = record.call_start(described(a_call({"limit": 5})))

    assert start["event"] == "call.start"
    assert start["call_id"] == "01J5ZKAAAAAAAAAAAAAAAAAAAA"
    assert start["server"] == "warehouse"
    assert start["src"] == {"ip": "203.0.113.0/24"}
    assert start["view"] is None
    assert start["trace"] == {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "span_id": "00f067aa0ba902b7"}
    assert start["tool"] == {
        "kind": "tool",
        "exposed": "warehouse__query",
        "name": "query",
        "def_sha256": "c0ffee" + "0" * 58,
        "annotations": {"readOnlyHint": True, "title": "Query"},
    }
    assert start["decision"] == {
        "action": "allow",
        "policy": "analysts-read",
        "rule": "allow[0]",
        "reason": None,
        "limits": {"bucket": "ci-bot", "left": 19},
        "shadow": {},
        "config_sha256": None,
    }


def test_an_end_says_what_answered_and_how_long_each_part_took() -> None:
    ending = Ending(exchange(), OK, 10.018342, 2, payload.result_block(Keeping("shape+hmac"), OK.result, KEY))
    end = record.call_end(described(), ending)

    assert end["event"] == "call.end"
    assert end["downstream"] == {
        "transport": "stdio",
        "instance": "pid:4711#3",
        "identity": "exe:sha256:77ab",
        "server_info": "warehouse-mcp/1.2.0",
        "pin": "ok",
    }
    outcome, kept = end["outcome"], end["payload"]
    assert isinstance(outcome, dict)
    assert isinstance(kept, dict)
    assert (outcome["status"], outcome["http"], outcome["rounds"]) == ("ok", 200, 2)
    assert isinstance(outcome["dur_us"], int)
    assert abs(outcome["dur_us"] - 18342) <= 1
    assert kept.keys() >= {"args_shape", "args_hmac", "args_bytes", "result_hmac", "result_bytes", "mode"}


def test_one_tool_name_on_two_servers_is_told_apart() -> None:
    """G109."""
    one, other = a_call(), a_call()
    moved = Call(
        other.id, 8, other.method, {}, Target(Kind.TOOL, "archive", "query"), other.principal, other.caller, "a__query"
    )

    assert described(one)["server"] == "warehouse"
    assert described(moved)["server"] == "archive"
    assert record.call_start(described(moved))["tool"] == {
        "kind": "tool",
        "exposed": "a__query",
        "name": "query",
        "def_sha256": None,
        "annotations": {},
    }


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (OK, "ok"),
        (Complete({"isError": rawjson.Raw(b"true")}), "tool_error"),
        (Complete({"isError": rawjson.Raw(b"false")}), "ok"),
        (InputRequired({}, None), "input_required"),
        (Started({}), "started"),
        (Failure(Reason.PROTOCOL_ERROR, "", error=ErrorObject(-32603, "boom")), "tool_error"),
        (Failure(Reason.DENIED, ""), "denied"),
        (Failure(Reason.RATE_LIMITED, ""), "limited"),
        (Failure(Reason.TIMEOUT, ""), "timeout"),
        (Failure(Reason.UNAVAILABLE, ""), "unavailable"),
        (Failure(Reason.PROTOCOL_ERROR, ""), "protocol_error"),
        (Failure(Reason.CANCELLED, ""), "cancelled"),
        (Failure(Reason.TOO_LARGE, ""), "too_large"),
    ],
)
def test_each_way_to_end_has_its_own_word(outcome: Outcome, status: str) -> None:
    """G105: a refusal is never recorded as a success."""
    assert outcome_of(outcome)["status"] == status


def test_every_reason_has_a_status() -> None:
    assert set(record.STATUS) == set(Reason)


def test_a_servers_own_error_keeps_its_code() -> None:
    error = Failure(Reason.PROTOCOL_ERROR, "", error=ErrorObject(-32602, "Unknown tool"))

    assert outcome_of(error) == {**outcome_of(error), "rpc_code": -32602, "http": 400, "error_type": "server_error"}


def test_a_legacy_client_gets_every_error_with_200() -> None:
    call = a_call()
    legacy = Call(
        call.id, 7, call.method, {}, call.target, call.principal, Caller(Era.LEGACY, "2025-11-25", session="s")
    )
    error = Failure(Reason.PROTOCOL_ERROR, "", error=ErrorObject(-32602, "Unknown tool"))

    assert outcome_of(error, legacy)["http"] == 200


def test_a_refused_tool_call_is_a_result_and_any_other_one_an_error() -> None:
    refused = Failure(Reason.TIMEOUT, "took too long", may_have_run=True, detail="deadline of 60 s")
    tool, prompt = outcome_of(refused), outcome_of(refused, a_call(method="prompts/get"))

    assert (tool["is_error"], tool["rpc_code"], tool["error_type"]) == (True, None, "timeout")
    assert (prompt["is_error"], prompt["rpc_code"]) == (False, -31003)
    assert (tool["may_have_run"], tool["detail"]) == (True, "deadline of 60 s")


def test_a_denied_call_has_one_record_with_its_reason() -> None:
    decision = DecisionFacts("deny", "no-deletes", "deny[0]", "denied")
    ending = Ending(Exchange(started=1.0), Failure(Reason.DENIED, "no"), 1.5)
    denied = record.call_denied(described(decision=decision), ending)

    assert denied["event"] == "call.denied"
    assert "downstream" not in denied
    outcome = denied["outcome"]
    assert isinstance(outcome, dict)
    assert (outcome["status"], outcome["dur_us"], outcome["queue_us"], outcome["downstream_us"]) == (
        "denied",
        500000,
        0,
        0,
    )


def test_rounds_say_whether_something_here_waits() -> None:
    waiting = record.call_round(described(), Ending(exchange(), InputRequired({}, None), 11.0, 3), held=False)
    resumed = record.call_resumed(described(), 4)

    assert waiting["round"] == {"number": 3, "held": False}
    assert resumed["event"] == "call.round"
    assert resumed["round"] == {"number": 4, "held": True}


def test_a_call_that_goes_on_at_another_replica_says_at_which() -> None:
    moved = record.call_moved(described(), 2, "0123456789ab", held=False)
    assert (moved["event"], moved["call_id"]) == ("call.round", described()["call_id"])
    assert moved["round"] == {"number": 2, "held": False, "replica": "0123456789ab"}


def test_what_was_noted_on_the_way_is_kept() -> None:
    noted = exchange()
    noted.notes["ask_declined"] = "elicitation/create\x1b"

    assert record.call_end(described(), Ending(noted, OK, 11.0))["notes"] == {"ask_declined": "elicitation/create\\x1b"}


def test_a_call_without_a_trace_has_none() -> None:
    call = a_call()
    bare = Call(call.id, 7, call.method, {}, call.target, call.principal, call.caller)

    assert "trace" not in described(bare)


def hostile_call() -> Call:
    """Everything as long as it can be, of characters that grow when they are written."""
    text = "\u202e\x00" * 5000
    many: Object = {f"{number:03}{text}": text for number in range(500)}
    principal = Principal(
        f"sub:{text}/{text}", text, text, frozenset(f"{n}{text}" for n in range(500)), frozenset(many), {}, text
    )
    where = Caller(Era.LEGACY, text, text, text, info={"name": text, "version": text}, view=text)
    target = Target(Kind.RESOURCE, text, text, many)
    return Call("01J5ZKAAAAAAAAAAAAAAAAAAAA", text, text, {"arguments": many}, target, principal, where, text, trace={})


def test_no_input_makes_a_record_larger_than_16_kib() -> None:
    call = hostile_call()
    facts: Object = {f"{n:03}\x00" * 60: "\x00" * 900 for n in range(200)}
    decision = DecisionFacts("deny" * 99, "p" * 999, "r" * 999, "\x00" * 999, facts, facts, facts, facts, "d" * 999)
    failed = Failure(Reason.DENIED, "", detail="\x00" * 5000)
    noisy = exchange()
    noisy.notes.update({f"{n}\x00": "\x00" * 500 for n in range(500)})
    end = record.call_end(described(call, decision), Ending(noisy, failed, 11.0))
    kept = record.bounded({**STAMP, **end})

    assert len(rawjson.canonical_plain(end)) > MAX_RECORD
    line, _ = seal({**kept, "parent_seq": 2**52}, Head("gw1-" + "0" * 60, 2**52))
    assert len(line) <= MAX_RECORD
    assert kept["shrunk"] is True
    assert (kept["event"], kept["call_id"]) == ("call.end", "01J5ZKAAAAAAAAAAAAAAAAAAAA")
    assert kept.keys() >= {"ts", "server", "outcome"}


def test_a_record_loses_its_shape_before_anything_else() -> None:
    start = record.call_start(described(a_call({"x" * 100 + str(n): 1 for n in range(64)})))
    start["decision"] = {"filler": "x" * 9000}
    kept = record.bounded(start)

    assert kept == {**start, "shrunk": True, "payload": kept["payload"]}
    assert isinstance(kept["payload"], dict)
    assert kept["payload"].keys() == {"mode", "args_bytes", "args_hmac"}


def test_a_record_that_fits_is_not_touched() -> None:
    start = record.call_start(described())

    assert record.bounded(start) is start


def test_whatever_is_too_large_goes_as_a_whole_before_the_limit_does() -> None:
    kept = record.bounded({"event": "admin.reload", "admin": {"user": "alice"}, "big": "x" * 20_000})

    assert kept == {"event": "admin.reload", "admin": {"user": "alice"}, "shrunk": True}


def test_records_hold_integers_only() -> None:
    end = record.call_end(described(), Ending(exchange(), OK, 10.018342))

    assert "." not in "".join(part for part in json.dumps(end["outcome"]).split('"') if any(map(str.isdigit, part)))


def test_an_orphan_says_why_its_end_is_unknown() -> None:
    assert record.call_orphaned("01J", "crash") == {
        "event": "call.orphaned",
        "call_id": "01J",
        "orphaned": {"reason": "crash"},
    }


def test_what_was_held_back_says_what_the_client_heard_and_why() -> None:
    """S140, S137."""
    block = outcome_of(Failure(Reason.DENIED, "", hidden=True, detail="pins: changed since it was approved"))
    assert (block["status"], block["rpc_code"], block["is_error"]) == ("denied", -32602, False)
    assert block["detail"] == "pins: changed since it was approved"
