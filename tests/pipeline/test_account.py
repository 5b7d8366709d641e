"""What the audit log is told of a call."""

from __future__ import annotations

from gateway.audit.keys import AuditKey
from gateway.audit.sidecars import Sidecar
from gateway.errors import Reason
from gateway.model.outcome import Failure
from gateway.pipeline.account import Account
from gateway.pipeline.interceptor import Approved
from gateway.policy.decision import Decision
from gateway.protocol.rawjson import Object
from tests.kit.calls import OK, MemoryLog, call, passage

KEY = AuditKey.of(b"k" * 32)
ACCOUNT = Account(MemoryLog(), KEY, "shape+hmac", "c" * 64)


def block(described: Object, name: str) -> Object:
    found = described[name]
    assert isinstance(found, dict)
    return found


def test_a_description_names_rule_and_config_and_is_made_once() -> None:
    """S140, G109."""
    decision = Decision(True, "p", "allow[0]", "allow_rule", shadow=("q:deny[0]",))
    way = passage(decision=decision, limit_scope="rate")
    described = ACCOUNT.describe(call(arguments={"path": "/secret"}), way)
    assert described is ACCOUNT.describe(call(), way)
    assert block(described, "decision") == {
        "action": "allow",
        "policy": "p",
        "rule": "allow[0]",
        "reason": "allow_rule",
        "limits": {"scope": "rate"},
        "shadow": {"0": "q:deny[0]"},
        "config_sha256": "c" * 64,
    }
    assert "/secret" not in str(described)
    assert block(described, "payload")["args_shape"] == {"path": "str:7"}


def test_a_policy_can_make_the_log_keep_less() -> None:
    decision = Decision(True, "p", "r", "allow_rule", payload="none")
    described = ACCOUNT.describe(call(arguments={"a": 1}), passage(decision=decision))
    assert "args_shape" not in block(described, "payload")


def test_a_policy_says_what_is_kept_of_its_calls() -> None:
    account = Account(MemoryLog(), KEY, "none", "c" * 64)
    decision = Decision(True, "p", "r", "allow_rule", payload="redacted", redact=("/a",))
    described = account.describe(call(arguments={"a": 1, "b": 2}), passage(decision=decision))
    assert block(described, "payload")["args"] == '{"a":"[R:1]","b":2}'
    assert "args" not in block(account.describe(call(arguments={"a": 1}), passage()), "payload")


def test_full_payloads_stand_beside_the_chain() -> None:
    """S169."""
    kept: list[Sidecar] = []

    def keep(sidecar: Sidecar) -> bool:
        kept.append(sidecar)
        return len(kept) < 3

    account = Account(MemoryLog(), KEY, "none", "c" * 64, keep=keep)
    asked = call(arguments={"a": 1, "b": 2})
    way = passage(decision=Decision(True, "p", "r", "allow_rule", payload="full", redact=("/a",)))
    start = block(account.describe(asked, way), "payload")
    end = account.result(asked, way, OK)

    assert [each.id for each in kept] == [start["args_sidecar"], end["result_sidecar"]]
    assert {each.owner for each in kept} == {asked.principal.id}
    assert kept[0].text == b'{"args":{"a":"[R:1]","b":2}}'
    assert kept[1].text.startswith(b'{"result":{')
    assert account.result(asked, way, OK)["result_sidecar"] is None, "there was no room"


def test_a_call_without_a_decision_was_denied() -> None:
    assert block(ACCOUNT.describe(call(), passage()), "decision")["action"] == "deny"


def test_only_results_are_digested() -> None:
    way = passage()
    kept = ACCOUNT.result(call(), way, OK)
    assert str(kept["result_hmac"]).startswith(KEY.id)
    assert ACCOUNT.result(call(), way, Failure(Reason.DENIED, "no")) == {}


def test_the_records_of_a_call_name_the_approval_it_needed_and_who_gave_it() -> None:
    decision = Decision(True, "p", "r", "allow_rule")
    way = passage(decision=decision, approved=Approved("a1", ("alice", "bob")))
    assert block(ACCOUNT.describe(call(), way), "decision")["approval"] == {"id": "a1", "by": ["alice", "bob"]}
    assert "approval" not in block(ACCOUNT.describe(call(), passage(decision=decision)), "decision")
