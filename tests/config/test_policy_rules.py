from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.config_files import KEY, loaded, only, problems

BASE = """
servers:
  wiki: {command: x}
  wiki-old: {command: y}
clients:
  ci-bot: {key: '${K}', groups: [automation]}
"""


def policy(clients: str = "['*']", allow: str = "[]") -> str:
    return f"{BASE}policies:\n  - {{name: p, clients: {clients}, allow: {allow}}}\n"


@pytest.mark.parametrize(
    "selector",
    [
        "wiki/*",
        "*/x",
        "wi*/x",
        "wiki/a/b",
        "prompt:wiki/*",
        "resource:wiki/file:///**",
        "any:*/*",
        "wiki-old/x",
        "*ol*/x",
    ],
)
def test_selectors_of_servers_that_are_there(tmp_path: Path, selector: str) -> None:
    assert loaded(tmp_path, policy(allow=f"['{selector}', {{tools: '{selector}'}}]"), {"K": KEY}).notes == []


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ("wikki/*", "did you mean 'wiki'?"),
        ("wiki_old/*", "did you mean 'wiki-old'?"),
        ("zzz/*", "servers: wiki, wiki-old"),
        ("WIKI/*", "did you mean 'wiki'?"),
        ("wik/x", "did you mean 'wiki'?"),
        ("wiki?/x", "did you mean 'wiki'?"),
        ("[w]iki/x", "no server is called"),
        ("wiki", "write wiki/*"),
        ("/x", "is no selector"),
        ("wiki/", "write wiki/*"),
        ("", "is no selector"),
        ("tool:wiki/x", "no kind of selector"),
        ("promt:wiki/x", "did you mean 'prompt:'?"),
    ],
)
def test_selectors_that_can_match_nothing(tmp_path: Path, selector: str, said: str) -> None:
    """G074, S65: the server part is anchored, and only * is special in it."""
    for allow, path in ((f"['{selector}']", "allow[0]"), (f"[{{tools: '{selector}'}}]", "allow[0].tools")):
        problem = only(problems(tmp_path, policy(allow=allow), {"K": KEY}))
        assert said in f"{problem.message} ({problem.hint})"
        assert (problem.path, problem.line) == (f"policies[0].{path}", 7)


@pytest.mark.parametrize("client", ["*", "anonymous", "ci-bot", "key:ci-bot", "group:automation"])
def test_callers_that_are_there(tmp_path: Path, client: str) -> None:
    assert loaded(tmp_path, policy(f"['{client}']", "['wiki/x']"), {"K": KEY}).notes == []


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ("ci_bot", "did you mean 'ci-bot'?"),
        ("anonymus", "did you mean 'anonymous'?"),
        ("zzz", "clients: ci-bot"),
        ("key:zzz", "clients: ci-bot"),
        ("groups:automation", "did you mean 'group:'?"),
        ("http:x", "no form of a principal"),
        ("group:", "names nobody"),
        ("sub:alice", "write sub:ISSUER/NAME"),
        ("client:app", "write client:ISSUER/NAME"),
        ("", "no client is called"),
    ],
)
def test_callers_that_cannot_be(tmp_path: Path, client: str, said: str) -> None:
    """G074."""
    problem = only(problems(tmp_path, policy(f"['{client}']"), {"K": KEY}))
    assert said in f"{problem.message} ({problem.hint})"
    assert problem.path == "policies[0].clients[0]"


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ("group:automaton", "no client is in a group 'automaton': did you mean 'automation'?"),
        ("sub:https://idp/alice", "nobody can be sub:… without auth.jwt"),
        ("client:https://idp/app", "nobody can be client:… without auth.jwt"),
        ("scope:read", "nobody can be scope:… without auth.jwt"),
        ("cert:CN", "nobody can be cert:… without listen.tls.client_ca"),
    ],
)
def test_forms_that_nobody_has_yet_are_noted(tmp_path: Path, client: str, said: str) -> None:
    notes = loaded(tmp_path, policy(f"['{client}']", "['wiki/x']"), {"K": KEY}).notes
    assert notes == [f"{tmp_path}/gateway.yaml:7: policies[0].clients[0]: {said}"]


def test_every_place_of_a_selector_is_looked_at(tmp_path: Path) -> None:
    text = BASE + (
        "policies:\n  - name: p\n    clients: ['*']\n    deny: [no/a, {tools: no/b}]\n"
        "    limits: [{concurrency: 1, tools: [wiki/x, no/c]}]\n"
    )
    assert [one.path for one in problems(tmp_path, text, {"K": KEY})] == [
        "policies[0].deny[0]",
        "policies[0].deny[1].tools",
        "policies[0].limits[0].tools[1]",
    ]


def test_a_policy_without_any_rule_is_noted(tmp_path: Path) -> None:
    assert "has no rule and changes nothing" in loaded(tmp_path, policy(), {"K": KEY}).notes[0]
