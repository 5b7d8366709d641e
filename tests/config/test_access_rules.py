from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.kit.config_files import CANARY, KEY, loaded, only, problems

SHA = hashlib.sha256(KEY.encode()).hexdigest()


@pytest.mark.parametrize("text", ["''", "'${EMPTY}'", "'${UNSET}'", "'${EMPTY:-}'"])
def test_an_empty_or_unset_key_never_becomes_open_access(tmp_path: Path, text: str) -> None:
    """G096."""
    problem = only(problems(tmp_path, f"clients:\n  bot: {{key: {text}}}\n", {"EMPTY": ""}))
    assert (problem.path, problem.line) == ("clients.bot.key", 2)


def test_a_key_of_thirty_two_characters_is_long_enough(tmp_path: Path) -> None:
    assert loaded(tmp_path, "clients: {bot: {key: '${K}'}}\n", {"K": "k" * 32}).config.clients
    assert "shorter than 32" in only(problems(tmp_path, "clients: {bot: {key: '${K}'}}\n", {"K": CANARY})).message


def test_a_client_may_have_a_key_and_digests_of_others(tmp_path: Path) -> None:
    """S34."""
    text = f"clients:\n  bot: {{key: '${{K}}', key_sha256: ['{'0' * 64}', '{SHA}']}}\n"
    assert loaded(tmp_path, text, {"K": KEY}).config.clients["bot"].key_sha256 == ["0" * 64, SHA]


def test_one_key_never_means_two_clients(tmp_path: Path) -> None:
    text = f"clients:\n  a: {{key_sha256: ['{SHA.upper()}']}}\n  b: {{key: '${{K}}'}}\n"
    problem = only(problems(tmp_path, text, {"K": KEY}))
    assert (problem.path, problem.message) == ("clients.b.key", "is the key of the client 'a' too")
    assert KEY not in str(problem)


@pytest.mark.parametrize("name", ["a", "ci-bot", "A.b_c@example.com", "0" * 64])
def test_names_of_clients(tmp_path: Path, name: str) -> None:
    assert name in loaded(tmp_path, f"clients: {{'{name}': {{key_sha256: ['{SHA}']}}}}\n").config.clients


@pytest.mark.parametrize("name", ["anonymous", "a b", "a:b", "*", "", "é", "0" * 65, "a\\nb"])
def test_names_no_client_may_have(tmp_path: Path, name: str) -> None:
    problem = only(problems(tmp_path, f'clients: {{"{name}": {{key_sha256: ["{SHA}"]}}}}\n'))
    assert "\n" not in str(problem)


def test_names_of_admin_users_follow_the_same_rule(tmp_path: Path) -> None:
    problem = only(problems(tmp_path, f"admin: {{users: {{'a b': {{token_sha256: '{SHA}'}}}}}}\n"))
    assert problem.message == "cannot be a name here"


def test_a_metrics_token_may_be_absent_but_not_short(tmp_path: Path) -> None:
    assert loaded(tmp_path, "admin: {metrics_token: ''}\n").config.admin.metrics_token.get_secret_value() == ""
    assert "shorter than 16" in only(problems(tmp_path, "admin: {metrics_token: short}\n")).message
    assert loaded(tmp_path, "admin: {metrics_token: 0123456789abcdef}\n").config.admin.metrics_token


def test_a_group_with_spaces_around_it_is_refused(tmp_path: Path) -> None:
    problem = only(problems(tmp_path, f"clients: {{a: {{key_sha256: ['{SHA}'], groups: [' x']}}}}\n"))
    assert problem.path == "clients.a.groups[0]"
