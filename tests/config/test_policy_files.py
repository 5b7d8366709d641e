from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.config_files import loaded, only, problems, write

POLICY = "policies:\n  - {name: NAME, clients: [anonymous]}\n"


def test_globs_are_read_in_order_and_mixed_with_policies(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write(tmp_path, POLICY.replace("NAME", name), f"policies/{name}.yaml")
    write(tmp_path, "cases: []\n", "policies/a.cases.yaml")
    write(tmp_path, "broken: [", "policies/.hidden.yaml")
    inline = "  - {{name: {}, clients: [anonymous]}}\n"
    text = "policies:\n" + inline.format("first") + "  - policies/*.yaml\n" + inline.format("last")
    assert [policy.name for policy in loaded(tmp_path, text).config.policies] == ["first", "a", "b", "c", "last"]


def test_globs_reach_into_folders_and_may_be_absolute(tmp_path: Path) -> None:
    write(tmp_path, POLICY, "p/x/y/z.yaml")
    assert len(loaded(tmp_path, "policies: ['p/**/*.yaml']\n").config.policies) == 1
    assert len(loaded(tmp_path, f"policies: ['{tmp_path}/p/x/y/*.yaml']\n").config.policies) == 1


def test_problems_have_the_line_of_their_own_file(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        # rules of the team
        policies:
          - {name: fine, clients: [anonymous]}
          - name: wrong
            clients: [anonymous]
            allow:
              - nowhere/*
            mode: shadowed
            hourz: x
        """,
        "policies/team.yaml",
    )
    text = "policies:\n  - {name: inline, clients: [anonymous]}\n  - policies/*.yaml\n"
    assert [(one.file, one.line, one.path) for one in problems(tmp_path, text)] == [
        (str(path), 7, "policies[1].allow[0]"),
        (str(path), 8, "policies[1].mode"),
        (str(path), 9, "policies[1].hourz"),
    ]


def test_equal_names_in_two_files_are_found(tmp_path: Path) -> None:
    one = write(tmp_path, POLICY, "a.yaml")
    two = write(tmp_path, "# two\n" + POLICY, "b.yaml")
    problem = only(problems(tmp_path, "policies: ['?.yaml']\n"))
    assert (problem.file, problem.line, problem.hint) == (str(two), 3, f"the first is at {one}:2")


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("polices: []\n", "polices", "did you mean 'policies'?"),
        ("policies: []\nlisten: {port: 1}\n", "listen", "a policy file has one key, policies"),
        ("{}\n", "", "has no policies"),
        ("policies: {name: x}\n", "policies", "must be a list"),
        ("policies: [other.yaml]\n", "policies[0]", "files named in a policy file are not read"),
        ("policies:\n", "policies", "must be a list"),
        ("", "", "is empty"),
        ("policies: [\n", "", "not valid YAML"),
    ],
)
def test_a_policy_file_is_as_strict_as_the_main_one(tmp_path: Path, text: str, path: str, said: str) -> None:
    file = write(tmp_path, text, "p.yaml")
    found = [one for one in problems(tmp_path, "policies: [p.yaml]\n") if one.path == path]
    assert any(said in f"{one.message} ({one.hint})" and one.file == str(file) for one in found)


@pytest.mark.parametrize("pattern", ["nowhere/*.yaml", "polices/p.yaml", "*.cases.yaml", ""])
def test_a_glob_that_finds_nothing_is_an_error(tmp_path: Path, pattern: str) -> None:
    """A policy that silently is not there would widen what is allowed."""
    write(tmp_path, POLICY, "policies/p.yaml")
    write(tmp_path, "cases: []\n", "x.cases.yaml")
    problem = only(problems(tmp_path, f"policies: ['{pattern}']\n"))
    assert (problem.path, problem.line) == ("policies[0]", 1)
    assert ("did you mean 'policies'?" in problem.hint) == pattern.startswith("polices")


def test_a_file_named_twice_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, POLICY, "p.yaml")
    assert "already read" in only(problems(tmp_path, "policies: [p.yaml, '*p.yaml']\n")).message


def test_a_folder_is_no_policy_file(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").mkdir()
    assert only(problems(tmp_path, "policies: [p.yaml]\n")).message.endswith("p.yaml is a directory")


def test_an_unset_variable_in_a_glob_stops_the_start_and_keeps_other_places(tmp_path: Path) -> None:
    text = "policies:\n  - '${WHERE}/*.yaml'\n  - {name: p, clients: [nobody]}\n"
    assert [(one.path, one.line) for one in problems(tmp_path, text)] == [
        ("policies[0]", 2),
        ("policies[1].clients[0]", 3),
    ]
