"""Records in the words of OCSF and CEF: valid, and with nothing that could be read as something else (S170)."""

from __future__ import annotations

import json
import re

import jsonschema_rs
import pytest
from ocsf_json_schema import (  # type: ignore[import-untyped] # it has none
    OcsfJsonSchemaEmbedded,
    get_ocsf_schema,
)

from gateway.audit import events, export, payload, record
from gateway.audit.events import Asked
from gateway.audit.payload import Keeping
from gateway.audit.record import DecisionFacts, Ending
from gateway.errors import Reason
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, Outcome
from gateway.protocol.rawjson import Object
from tests.kit.audit import KEY, PRINCIPAL, STAMP, a_call, caller

ALLOWED = DecisionFacts("allow", "p", "allow[0]", config_sha256="c0")


def ended(outcome: Outcome, decision: DecisionFacts = ALLOWED, name: str = "query") -> Object:
    call = a_call({"sql": "select", "password": "x"}, name=name)
    block = payload.arguments_block(Keeping("redacted"), call.arguments, KEY)
    return record.call_end(record.describe(call, decision, block, KEY), Ending(Exchange(started=1.0), outcome, 1.2))


def chained(entry: Object) -> Object:
    return {**STAMP, "v": 1, "chain": "gw1", "seq": 3, "prev": "0" * 64, "hash": "1" * 64, **entry}


RECORDS: dict[str, Object] = {
    "ok": ended(Complete({})),
    "denied": ended(Failure(Reason.DENIED, "no"), DecisionFacts("deny", "p", "deny[0]", "deny_rule")),
    "limited": ended(Failure(Reason.RATE_LIMITED, "slow down")),
    "timeout": ended(Failure(Reason.TIMEOUT, "late", may_have_run=True)),
    "orphaned": record.call_orphaned("01J5ZK", "crash"),
    "unknown": events.unknown_denied(Asked(PRINCIPAL, caller()), "nope", 3, KEY),
    "listed": events.list_served(Asked(PRINCIPAL, caller()), 7, KEY),
    "auth": events.refused_early("auth.failed", "203.0.113.7", {"kind": "key"}, 2),
    "admin": events.admin("reload", "alice", {"result": "ok"}, "127.0.0.1"),
    "config": events.gateway_event("config.loaded", {"config_sha256": "c0"}),
    "pin": events.server_event("pin.mismatch", "github", {"kind": "definition"}),
    "checkpoint": {"event": "audit.checkpoint", "checkpoint": {"key": "s1", "signature": "AAAA"}},
}


@pytest.fixture(scope="module")
def schema() -> jsonschema_rs.Validator:
    classes = OcsfJsonSchemaEmbedded(get_ocsf_schema(version=export.OCSF_VERSION))
    text = json.dumps(classes.get_class_schema(class_name="api_activity", profiles=["security_control"]))
    return jsonschema_rs.validator_for(json.loads(text), offline=True)


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_is_a_valid_ocsf_event(name: str, schema: jsonschema_rs.Validator) -> None:
    event = export.ocsf(chained(RECORDS[name]))
    assert [error.message for error in schema.iter_errors(event)] == []
    assert event["class_uid"] == 6003
    assert json.loads(export.ocsf_line(chained(RECORDS[name]))) == event


def block(event: Object, *path: str) -> object:
    value: object = event
    for name in path:
        assert isinstance(value, dict)
        value = value[name]
    return value


def test_an_ocsf_event_says_who_did_what_and_what_was_decided() -> None:
    event = export.ocsf(chained(RECORDS["ok"]))
    assert block(event, "actor", "app_uid") == "example-idp"
    assert block(event, "actor", "user", "uid") == KEY.digest("subject", b"alice@example.org", 32)
    assert block(event, "api", "operation") == "tools/call"
    assert block(event, "api", "service", "name") == "warehouse"
    assert block(event, "api", "request", "data") == {"sql": "select", "password": "[R:1]"}
    assert block(event, "src_endpoint", "ip") == "203.0.113.0"
    assert (event["time"], event["status_id"], event["action_id"]) == (1787479200123, 1, 1)
    dispositions = {name: export.ocsf(chained(entry)).get("disposition_id") for name, entry in RECORDS.items()}
    assert dispositions == {
        "ok": 1,
        "denied": 2,
        "limited": 25,
        "timeout": 27,
        "orphaned": 2,
        "unknown": 2,
        "listed": None,
        "auth": 26,
        "admin": None,
        "config": None,
        "pin": None,
        "checkpoint": None,
    }


def parse_cef(line: str) -> tuple[list[str], dict[str, str]]:
    """Read a CEF line as its specification says."""
    parts = re.split(r"(?<!\\)(?:\\\\)*\|", line, maxsplit=7)
    found: dict[str, str] = {}
    for match in re.finditer(r"(\w+)=((?:\\.|[^\\=])*?)(?=\s\w+=|$)", parts[7], re.DOTALL):
        value = re.sub(r"\\(.)", lambda each: {"n": "\n", "r": "\r"}.get(each[1], each[1]), match[2])
        found[match[1]] = value
    return parts[:7], found


HOSTILE = 'a|b\\c=d e\nCEF:0|evil|x cs1=forged\r"'


def test_hostile_texts_survive_cef_and_add_nothing() -> None:
    entry = chained({"event": "call.end", "server": HOSTILE, "tool": {"exposed": HOSTILE}, "outcome": {"status": "ok"}})
    line = export.cef(entry)
    head, fields = parse_cef(line)

    assert "\n" not in line
    assert "\r" not in line
    assert head[:3] == ["CEF:0", "aiohttp-mcp-gateway", "mcp-gateway"]
    assert fields["destinationServiceName"] == HOSTILE
    assert fields["cs1"] == HOSTILE
    assert export.cef({**entry, "event": "a|b\\c\n"}).split(" ")[0].count("\\|") == 1


def test_cef_says_who_did_what() -> None:
    head, fields = parse_cef(export.cef(chained(RECORDS["denied"])))
    assert head[4:] == ["call.end", "call.end tools/call", "5"]
    assert fields["suser"] == "example-idp"
    assert fields["act"] == "deny"
    assert (fields["outcome"], fields["reason"]) == ("denied", "denied")
    assert (fields["cs5Label"], fields["cs5"]) == ("policy", "p")
    assert parse_cef(export.cef(chained(RECORDS["pin"])))[0][6] == "7"
    assert parse_cef(export.cef(chained(RECORDS["config"])))[1]["msg"] == "config_sha256=c0"


def test_native_export_is_the_record() -> None:
    entry = chained(RECORDS["ok"])
    assert json.loads(export.jsonl(entry)) == entry
    assert set(export.WRITERS) == {"jsonl", "ocsf", "cef"}
