"""Policy files by themselves: read like those of a config, whatever servers and clients they speak of."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.policy_set import load_policies
from gateway.config.reading import Unreadable
from gateway.errors import ConfigError
from tests.kit.config_files import write

READ = """
policies:
  - name: read
    clients: [whoever, "group:${GROUP}"]
    allow: [no-such-server/*]
"""


def said(*paths: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_policies(paths, {})
    return [str(problem) for problem in caught.value.problems]


def test_files_become_one_set_that_knows_where_each_rule_is_written(tmp_path: Path) -> None:
    one = write(tmp_path, READ, "one [1].yaml")
    two = write(tmp_path, READ.replace("read", "other"), "two.yaml")
    loaded = load_policies([one, two], {"GROUP": "staff"})
    assert [policy.name for policy in loaded.config.policies] == ["read", "other"]
    assert loaded.config.policies[0].clients == ["whoever", "group:staff"]
    assert loaded.positions["policies[other].allow[0]"] == (str(two), 4, "policies[0].allow[0]")
    assert len(loaded.digest) == 64


def test_problems_have_the_file_and_line_they_are_in(tmp_path: Path) -> None:
    typo = write(tmp_path, "policies:\n  - {name: p, clients: [a], alow: []}\n", "typo.yaml")
    assert said(typo) == [f"{typo}:2: policies[0].alow: unknown key (did you mean 'allow'?)"]
    nothing = write(tmp_path, "policies:\n  - {name: p, clients: }\n", "nothing.yaml")
    assert said(nothing) == [
        f"{nothing}:2: policies[0].clients: has no value (remove the key, or write the value behind it)"
    ]
    config = write(tmp_path, "servers: {}\npolicies: []\n", "config.yaml")
    assert said(config) == [f"{config}:1: servers: unknown key (a policy file has one key, policies)"]
    unset = write(tmp_path, READ, "unset.yaml")
    assert "the variable GROUP is not set" in said(unset)[0]


def test_two_policies_of_one_name_are_an_error_across_files(tmp_path: Path) -> None:
    text = READ.replace(', "group:${GROUP}"', "")
    one, two = write(tmp_path, text, "one.yaml"), write(tmp_path, text, "two.yaml")
    assert said(one, two) == [
        f"{two}:2: policies[0].name: another policy has the name 'read' (the first is at {one}:2)"
    ]


def test_a_file_that_is_not_there_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        load_policies([tmp_path / "none.yaml"], {})
