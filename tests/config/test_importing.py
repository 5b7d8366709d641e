from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.config.document import parse
from gateway.config.importing import Imported, take
from gateway.errors import ConfigError

TOKEN = "ghp_" + "a" * 36


def imported(value: Any) -> Imported:
    return take(parse(json.dumps(value).encode(), "mcp.json"))


def one(entry: Any, name: str = "wiki") -> tuple[Any, dict[str, bool]]:
    """Import one server; return it, and the variables it needs with whether their values were in the file."""
    found = imported({"mcpServers": {name: entry}})
    return found.servers[name], {each.name: each.given for each in found.variables}


def test_secrets_of_the_environment_become_variables_of_the_same_name() -> None:
    env = {"GITHUB_TOKEN": "x", "LOG_LEVEL": "debug", "PORT": 80, "ANY": TOKEN}
    server, variables = one({"command": "npx", "args": ["-y", "thing"], "env": env})
    assert server == {
        "command": "npx",
        "args": ["-y", "thing"],
        "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "LOG_LEVEL": "debug", "PORT": "80", "ANY": "${ANY}"},
    }
    assert variables == {"GITHUB_TOKEN": True, "ANY": True}


@pytest.mark.parametrize(
    ("header", "value", "expected"),
    [
        ("Authorization", f"Bearer {TOKEN}", "Bearer ${WIKI_TOKEN}"),
        ("authorization", "opaque", "${WIKI_TOKEN}"),
        ("X-Api-Key", "k", "${WIKI_X_API_KEY}"),
        ("X-Tenant", "acme", "${WIKI_X_TENANT}"),
        ("Accept", "*/*", "*/*"),
        ("Accept", TOKEN, "${WIKI_ACCEPT}"),
    ],
)
def test_a_header_keeps_its_scheme_and_no_value(header: str, value: str, expected: str) -> None:
    server, _ = one({"type": "http", "url": "https://wiki.example/mcp", "headers": {header: value}})
    assert server == {"url": "https://wiki.example/mcp", "headers": {header: expected}}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--api-key", "abc"], ["--api-key", "${WIKI_API_KEY}"]),
        (["--token=abc", "--port=80"], ["--token=${WIKI_TOKEN}", "--port=80"]),
        (["-e", "PGPASSWORD=p", "-e", "PGHOST=h"], ["-e", "PGPASSWORD=${PGPASSWORD}", "-e", "PGHOST=h"]),
        (["--header", "Authorization: Bearer abc"], ["--header", "Authorization: Bearer ${WIKI_TOKEN}"]),
        (["postgresql://me:pw@db/x?sslmode=on"], ["postgresql://me:${WIKI_PASSWORD}@db/x?sslmode=on"]),
        (["--verbose", "--keyfile"], ["--verbose", "--keyfile"]),
        ([TOKEN], ["${WIKI_SECRET}"]),
        (["/srv/docs", "-y", "pkg@1.2.3"], ["/srv/docs", "-y", "pkg@1.2.3"]),
    ],
)
def test_secrets_in_arguments_become_variables(arguments: list[str], expected: list[str]) -> None:
    server, _ = one({"command": "x", "args": arguments})
    assert server["args"] == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://x.example/mcp", "https://x.example/mcp"),
        ("https://me:pw@x.example/mcp", "https://me:${WIKI_PASSWORD}@x.example/mcp"),
        ("https://pw@x.example/mcp", "https://${WIKI_PASSWORD}@x.example/mcp"),
        ("https://x.example/mcp?a=1&api_key=k#f", "https://x.example/mcp?a=1&api_key=${WIKI_API_KEY}#f"),
    ],
)
def test_secrets_in_a_url_become_variables(url: str, expected: str) -> None:
    assert one({"url": url})[0] == {"url": expected}


def test_a_path_that_looks_like_a_secret_is_pointed_at() -> None:
    found = imported({"mcpServers": {"z": {"url": f"https://x.example/{TOKEN}/mcp"}}})
    assert ["put ${VARIABLE} in its place" in note for note in found.notes] == [True]


def test_what_is_a_variable_already_stays_one_in_our_words() -> None:
    env = {"A": "${env:TOKEN}", "B": "${input:api-key}", "C": "${userHome}/x", "D": "${X:-d}", "E": "${config:a.b}"}
    server, variables = one({"command": "x", "env": env})
    assert server["env"] == {
        "A": "${TOKEN}",
        "B": "${API_KEY}",
        "C": "${HOME}/x",
        "D": "${X:-d}",
        "E": "$${config:a.b}",
    }
    assert variables == {"TOKEN": False, "API_KEY": False}


def test_two_values_of_one_name_get_two_variables_and_one_value_gets_one() -> None:
    found = imported(
        {
            "mcpServers": {
                "a": {"command": "x", "env": {"API_KEY": "1"}},
                "b": {"command": "x", "env": {"API_KEY": "2"}},
                "c": {"command": "x", "env": {"API_KEY": "1"}},
            }
        }
    )
    values: list[Any] = list(found.servers.values())
    assert [value["env"]["API_KEY"] for value in values] == ["${API_KEY}", "${B_API_KEY}", "${API_KEY}"]
    assert [each.name for each in found.variables] == ["API_KEY", "B_API_KEY"]


def test_files_of_vscode_are_taken_from_a_workspace_and_from_user_settings() -> None:
    servers = {
        "s": {"type": "http", "url": "https://x.example/mcp"},
        "old": {"type": "sse", "url": "https://y.example"},
    }
    expected = {"s": {"url": "https://x.example/mcp"}, "old": {"url": "https://y.example", "transport": "sse"}}
    assert imported({"servers": servers}).servers == expected
    assert imported({"editor.fontSize": 12, "mcp": {"servers": servers}}).servers == expected


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"command": ["npx", "thing"]}, "its command is no text"),
        ({"command": "npx", "args": "-y thing"}, "its args are no list of texts"),
        ({"command": "npx", "env": ["A=1"]}, "its env are no names with texts"),
        ({"type": "http", "url": "unix:///run/mcp.sock"}, "its url is no http or https address"),
        ({"type": "http", "url": ["https://x.example"]}, "its url is no http or https address"),
    ],
)
def test_what_no_config_could_have_is_left_out_and_said(entry: Any, why: str) -> None:
    found = imported({"mcpServers": {"wiki": entry, "fine": {"command": "x"}}})
    assert list(found.servers) == ["fine"]
    assert any(f"wiki: is left out: {why}" in note for note in found.notes)


def test_what_cannot_come_along_is_said() -> None:
    found = imported(
        {
            "mcpServers": {
                "off": {"command": "x", "disabled": True},
                "neither": {"type": "http"},
                "a:b": {"command": "x", "envFile": ".env"},
                "a b": {"command": "x"},
                "???": {"command": "x"},
                "bridge": {"command": "npx", "args": ["mcp-remote@latest", "https://x.example/mcp"]},
            },
            "projects": {},
        }
    )
    assert list(found.servers) == ["a-b", "bridge"]
    said = "\n".join(found.notes)
    for words in (
        "off: is left out: switched off",
        "neither: is left out: it has neither a command nor a url",
        "envFile: is not read",
        "is named a-b here",
        '"a b": is left out: its name is too much like another\'s',
        "its name has no letter or digit",
        "runs mcp-remote",
        "servers of single projects are not read",
    ):
        assert words in said


@pytest.mark.parametrize("value", [{"servers": {}}, {"listen": {"port": 1}}, {"servers": {"a": {"command": "x"}}}])
def test_a_file_without_a_foreign_list_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="holds no servers of another program"):
        imported(value)


def test_a_list_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be a mapping of names to servers"):
        imported({"mcpServers": []})
