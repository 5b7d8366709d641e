from __future__ import annotations

from gateway.config.places import Document, Places
from gateway.config.subject import Findings


def test_nothing_is_said_about_what_is_settled() -> None:
    findings = Findings(Places(Document("f", {}, {("a",): 1, ("b",): 2})), settled=frozenset({("a",), ("b", 0)}))
    findings.problem(("a", "x"), "is wrong")
    findings.note(("a",), "is odd")
    findings.problem(("b", 0), "is wrong")
    findings.problem(("b", 1), "is wrong", "do better")
    findings.note(("b",), "is odd")
    assert [str(one) for one in findings.problems] == ["f:2: b[1]: is wrong (do better)"]
    assert findings.notes == ["f:2: b: is odd"]
