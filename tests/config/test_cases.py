"""Files of cases: strict like a config, with file, line and hint for what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.config.cases import MONDAY_NOON, Caller, cases_of, load_cases, policy_file_of
from gateway.config.reading import Unreadable
from gateway.errors import ConfigError, Problem
from tests.kit.config_files import write


def faults(folder: Path, text: str) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        load_cases(write(folder, text, "p.cases.yaml"), {})
    return caught.value.problems


def test_cases_are_read_with_their_lines(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        cases:
          - {who: ann, call: wiki/search, expect: allow}
          - name: somebody described
            who: {groups: [a], scopes: [s], claims: {n: 1.5}}
            call: prompt:wiki/x
            args: {x: null, "y": [1, {z: "${WORD}"}]}
            at: 2026-08-24T10:00:00+02:00
            expect: deny
            rule: deny[0]
        """,
        "p.cases.yaml",
    )
    first, second = load_cases(path, {"WORD": "w"})
    assert (first.line, second.line, first.case.at) == (2, 3, MONDAY_NOON)
    assert second.case.who == Caller(groups=["a"], scopes=["s"], claims={"n": 1.5})
    assert second.case.args == {"x": None, "y": [1, {"z": "w"}]}
    assert second.case.at == datetime(2026, 8, 24, 8, tzinfo=UTC)
    assert MONDAY_NOON.weekday() == 0


ONE = "cases:\n  - "
WHO = f"{ONE}{{who: a, call: b/c, "


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("cases: []", "cases", "must not be empty"),
        ("case: []", "case", "unknown key (did you mean 'cases'?)"),
        (WHO + "expct: allow}", "cases[0].expct", "unknown key (did you mean 'expect'?)"),
        (WHO + "}", "cases[0].expect", "is missing"),
        (
            WHO + "expect: alow}",
            "cases[0].expect",
            "must be one of allow, approve, deny, hidden (did you mean 'allow'?)",
        ),
        (WHO + "expect: allow, at: '2026-01-01 10:00'}", "cases[0].at", "must be a time with its zone"),
        (
            ONE + "{who: {group: [x]}, call: b/c, expect: deny}",
            "cases[0].who.group",
            "unknown key (did you mean 'groups'?)",
        ),
        (ONE + "{who: [a], call: b/c, expect: allow}", "cases[0].who", "must be a name as in clients of policies"),
        (ONE + "{who: a, call: '${NONE}', expect: allow}", "cases[0].call", "the variable NONE is not set"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, path: str, said: str) -> None:
    found = {(each.line, str(each).partition(": ")[2]) for each in faults(tmp_path, text + "\n")}
    line = 2 if path.startswith("cases[0]") else 1
    assert any(number == line and message.startswith(f"{path}: {said}") for number, message in found), found


def test_a_file_that_is_not_there_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        load_cases(tmp_path / "none.cases.yaml", {})


def test_cases_and_policies_find_each_other_by_name(tmp_path: Path) -> None:
    policy, cases = tmp_path / "p.yaml", tmp_path / "p.cases.yaml"
    for path in (policy, cases):
        path.touch()
    assert (cases_of(policy), policy_file_of(cases)) == (cases, policy)
    assert cases_of(tmp_path / "q.yaml") is None
    assert policy_file_of(policy) is None
    assert policy_file_of(tmp_path / "q.cases.yaml") is None
