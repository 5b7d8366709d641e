"""The catalogue, and the records of everything that is no call (S172)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gateway.audit import events
from gateway.audit.events import Asked
from gateway.audit.record import DecisionFacts
from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.model.principal import Principal
from gateway.protocol.rawjson import Object, Value
from tests.kit.audit import KEY, PRINCIPAL, caller

ASKED = Asked(PRINCIPAL, caller(session="very-secret"), "tools/call", 7)

RECORDS: tuple[Object, ...] = (
    events.unknown_denied(ASKED, "no_such\x1btool", 12, KEY),
    events.list_served(ASKED, 42, KEY),
    events.refused_early("auth.failed", "203.0.113.9", {"kind": "key", "reason": "unknown"}, 3),
    events.ratelimit_refused(ASKED, {"bucket": "alice"}, KEY),
    events.server_event("downstream.exited", "files", {"code": 1, "stderr": "x\x1b[2J"}),
    events.server_event("pin.mismatch", "files", {"kind": "argv"}),
    events.server_event("definition.suspicious", "files", {"tool": "read", "rule": "hidden_text"}),
    events.gateway_event("config.loaded", {"sha256": "51d0", "file": "gateway.yaml"}),
    events.gateway_event("gateway.started", {"version": "0.1.0"}),
    events.gateway_event("auth.degraded", {"issuer": "https://as.example"}),
    events.gateway_event("alert.raised", {"kind": "rate"}),
    events.admin("reload", "alice", {"result": "ok"}, "127.0.0.1"),
    events.gap({"call.end": 2, "call.start": 1}),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["event"])
def test_every_record_is_in_the_catalogue_and_safe_to_show(record: Object) -> None:
    assert events.is_known(str(record["event"]))
    text = json.dumps(record, ensure_ascii=False)
    assert text.isprintable()
    assert "very-secret" not in text
    assert "alice@" not in text


@pytest.mark.parametrize(
    "event", ["call.started", "admin", "admin.", "admin.Reload", "admin.a b", "", "x", "call.end\n"]
)
def test_what_is_not_in_the_catalogue_is_unknown(event: str) -> None:
    assert not events.is_known(event)


def test_the_catalogue_is_that_of_the_documentation() -> None:
    """S172: what may stand in the chain, security events and acts of administrators among it, is listed."""
    text = (Path(__file__).parents[2] / "docs" / "audit.md").read_text("utf-8").split("## Events")[1].split("\n\n")[1]
    groups = re.findall(r"`([a-z]+)\.([a-z_|]+)`", text)
    # Acts of administrators are held to what the source writes by tests/test_docs.py.
    documented = {f"{group}.{event}" for group, names in groups for event in names.split("|") if group != "admin"}
    assert documented == events.EVENTS
    assert {"call.start", "list.served", "pin.recorded", "audit.checkpoint", "gateway.draining"} <= events.EVENTS


def test_an_unknown_name_stands_for_all_that_were_held_back() -> None:
    record = events.unknown_denied(ASKED, "nope", 12, KEY)

    assert (record["event"], record["count"], record["server"]) == ("call.denied", 12, None)
    assert record["decision"] == {"action": "deny", "policy": None, "rule": None, "reason": "unknown_name"}


def test_a_hidden_name_is_told_with_what_it_stands_for_and_who_hides_it() -> None:
    unknown = events.unknown_denied(ASKED, "crm__delete", 1, KEY)
    record = events.hidden_denied(
        unknown, Target(Kind.TOOL, "crm", "delete"), DecisionFacts("deny", "p", "deny[0]", "deny_rule")
    )

    assert record["tool"] == {
        "kind": "tool",
        "exposed": "crm__delete",
        "name": "delete",
        "def_sha256": None,
        "annotations": {},
    }
    assert record["server"] == "crm"
    assert record["decision"] == {"action": "deny", "policy": "p", "rule": "deny[0]", "reason": "deny_rule"}
    assert record["outcome"] == unknown["outcome"]


def test_a_failed_login_shows_where_from_and_not_with_what() -> None:
    facts: dict[str, Value] = {"kind": "key", "reason": "unknown"}
    assert events.refused_early("auth.failed", "203.0.113.9", facts) == {
        "event": "auth.failed",
        "src": {"ip": "203.0.113.0/24"},
        "auth": {"kind": "key", "reason": "unknown"},
        "count": 1,
    }


def test_a_gap_counts_what_is_missing() -> None:
    assert events.gap({"call.end": 2, "call.start": 1})["gap"] == {
        "lost": 3,
        "events": {"call.end": 2, "call.start": 1},
    }


def test_facts_are_cut_one_by_one() -> None:
    record = events.server_event("downstream.failed", "files", {"error": "x" * 5000, "list": ["y" * 500], "n": 1.5})
    facts = record["downstream"]

    assert isinstance(facts, dict)
    assert len(str(facts["error"])) <= 1024
    assert facts["n"] == "1.5"
    assert len(json.dumps(record)) < 2048


def test_an_approval_says_who_asked_for_what_and_who_said_yes() -> None:
    facts: Object = {"id": "a1", "name": "export", "rules": ["p/approve[0]"], "by": ["alice"], "reason": "x" * 5000}
    who = Principal("sub:https://i/maria", "jwt", "idp", claims={"iss": "https://i"})
    entry = events.approval("approved", who, "crm", facts, KEY)
    assert events.is_known(str(entry["event"]))
    assert (entry["event"], entry["server"]) == ("approval.approved", "crm")
    block = entry["approval"]
    assert isinstance(block, dict)
    assert (block["id"], block["by"]) == ("a1", ["alice"])
    assert "maria" not in str(entry)
    assert len(str(block["reason"])) <= 1024
