from __future__ import annotations

import pytest
from pydantic import ValidationError

from gateway.config.policies import Entry, Policy


def test_a_rule_is_a_selector_or_a_mapping() -> None:
    policy = Policy.model_validate({"name": "p", "clients": ["*"], "allow": ["a/*", {"tools": "b/x", "when": "true"}]})
    assert policy.allow == ["a/*", Entry(tools="b/x", when="true")]


def test_a_rule_of_python_objects_is_accepted_too() -> None:
    assert Policy(name="p", clients=["*"], deny=[Entry(tools="a/b"), "c/d"]).deny[1] == "c/d"


def test_the_errors_of_a_rule_are_those_of_the_form_that_was_written() -> None:
    with pytest.raises(ValidationError) as caught:
        Policy.model_validate({"name": "p", "clients": ["*"], "allow": [{"tool": "x"}, 5]})
    assert [error["type"] for error in caught.value.errors()] == ["missing", "extra_forbidden", "rule_form"]


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "x" * 65, "é"])
def test_a_policy_has_a_plain_name(name: str) -> None:
    with pytest.raises(ValidationError):
        Policy(name=name, clients=["*"])


def test_a_limit_counts_per_something() -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate({"name": "p", "clients": ["*"], "limits": [{"concurrency": 1, "per": []}]})


def test_what_is_redacted_is_named_by_json_pointers() -> None:
    audit = {"payload": "redacted", "redact": ["/card/number", "/rows/*/pin"]}
    assert Policy.model_validate({"name": "p", "clients": ["*"], "audit": audit}).audit.redact[1] == "/rows/*/pin"
    with pytest.raises(ValidationError, match="no JSON pointer"):
        Policy.model_validate({"name": "p", "clients": ["*"], "audit": {"redact": ["card"]}})
