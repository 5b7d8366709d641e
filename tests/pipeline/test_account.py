"""What the audit log is told of a call."""

from __future__ import annotations

import pytest

from gateway.audit.keys import AuditKey
from gateway.errors import Reason
from gateway.model.outcome import Failure
from gateway.pipeline.account import Account, least_revealing
from gateway.policy.decision import Decision
from gateway.protocol.rawjson import Object
from tests.kit.calls import OK, MemoryLog, call, passage

KEY = AuditKey.of(b"k" * 32)
ACCOUNT = Account(MemoryLog(), KEY, "shape+hmac", "c" * 64)


def block(described: Object, name: str) -> Object:
    found = described[name]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("modes", "kept"),
    [(("shape+hmac",), "shape+hmac"), (("shape+hmac", "shape"), "shape"), (("none", "shape"), "none"), ((), "none")],
)
def test_the_least_revealing_mode_wins(modes: tuple[str, ...], kept: str) -> None:
    assert least_revealing(*modes) == kept


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


def test_a_policy_cannot_make_the_log_keep_more() -> None:
    account = Account(MemoryLog(), KEY, "none", "c" * 64)
    decision = Decision(True, "p", "r", "allow_rule", payload="shape+hmac")
    described = account.describe(call(arguments={"a": 1}), passage(decision=decision))
    assert "args_hmac" not in block(described, "payload")


def test_a_call_without_a_decision_was_denied() -> None:
    assert block(ACCOUNT.describe(call(), passage()), "decision")["action"] == "deny"


def test_only_results_are_digested() -> None:
    way = passage()
    kept = ACCOUNT.result(way, OK)
    assert str(kept["result_hmac"]).startswith(KEY.id)
    assert ACCOUNT.result(way, Failure(Reason.DENIED, "no")) == {}
