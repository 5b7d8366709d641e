"""Every approval can be given by somebody, and by nobody who asks for it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.kit.config_files import KEY, loaded, only, problems

TOKEN = "0" * 64
BASE = """
servers: {crm: {command: x, timeouts: {asks: 30s}}}
clients: {ci-bot: {key: '${K}'}}
"""
USERS = f"""
admin: {{users: {{alice: {{token_sha256: '{TOKEN}', roles: [approve]}}, bob: {{token_sha256: '{"1" * 64}'}}}}}}
"""


def policy(rule: str, users: str = USERS) -> str:
    return f"{BASE}{users}policies:\n  - {{name: p, clients: ['*'], approve: [{{tools: crm/x, hold: 10s, {rule}}}]}}\n"


@pytest.mark.parametrize("rule", ["by: [alice]", "timeout: 7d", "timeout: 10s"])
def test_somebody_with_the_role_is_asked(tmp_path: Path, rule: str) -> None:
    assert loaded(tmp_path, policy(rule), {"K": KEY}).notes == []


def test_without_users_the_one_that_is_made_is_asked(tmp_path: Path) -> None:
    assert loaded(tmp_path, policy("by: [admin]", ""), {"K": KEY}).notes == []
    problem = only(problems(tmp_path, policy("by: [alice]", ""), {"K": KEY}))
    assert (problem.message, problem.hint) == ("no admin user is called 'alice'", "admin users: admin")


def test_a_user_that_is_not_there_or_may_not_is_a_fault(tmp_path: Path) -> None:
    unknown = only(problems(tmp_path, policy("by: [alic]"), {"K": KEY}))
    assert (unknown.path, unknown.hint) == ("policies[0].approve[0].by[0]", "did you mean 'alice'?")
    unable = only(problems(tmp_path, policy("by: [bob]"), {"K": KEY}))
    assert unable.message == "'bob' cannot approve: it lacks the role"
    empty = only(problems(tmp_path, policy("by: []"), {"K": KEY}))
    assert empty.path == "policies[0].approve[0].by"


def test_where_nobody_has_the_role_nothing_can_be_approved(tmp_path: Path) -> None:
    users = f"admin: {{users: {{bob: {{token_sha256: '{TOKEN}'}}}}}}\n"
    problem = only(problems(tmp_path, policy("timeout: 1m", users), {"K": KEY}))
    assert problem.path == "policies[0].approve"


@pytest.mark.parametrize("rule", ["timeout: 5s", "timeout: 0s", "timeout: 8d"])
def test_times_that_make_no_sense_are_faults(tmp_path: Path, rule: str) -> None:
    assert "timeout must be between 0s and 7d" in str(only(problems(tmp_path, policy(rule), {"K": KEY})))


def test_a_wait_that_no_server_allows_is_noted(tmp_path: Path) -> None:
    (note,) = loaded(tmp_path, policy("timeout: 1m").replace("hold: 10s", "hold: 40s"), {"K": KEY}).notes
    assert "is longer than timeouts.asks of every server" in note


@pytest.mark.parametrize("client", ["key: '${K}'", f"key_sha256: ['{hashlib.sha256(KEY.encode()).hexdigest()}']"])
def test_a_clients_key_is_no_persons_token(tmp_path: Path, client: str) -> None:
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    text = f"clients: {{bot: {{{client}}}}}\nadmin: {{users: {{bot: {{token_sha256: '{digest}'}}}}}}\n"
    problem = only(problems(tmp_path, text, {"K": KEY}))
    assert problem.path == "admin.users.bot.token_sha256"
    assert "could approve its own calls" in problem.message
