from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.document import parse
from gateway.config.foreign import adopt
from gateway.config.loader import load
from tests.kit.config_files import CANARY, loaded, only, problems, write

DESKTOP = """
{
  "globalShortcut": "Ctrl+Space",
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"],
      "env": {"DEBUG": true, "PORT": 8080}
    },
    "old": {"command": "x", "disabled": true, "bogus": {"any": 1}},
    "remote": {"type": "http", "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN:-t}"}}
  }
}
"""

VSCODE = """
{
\t// servers of this workspace
\t"inputs": [{"type": "promptString", "id": "api-key", "description": "key", "password": true}],
\t"servers": {
\t\t"remote": {"type": "http", "url": "https://x.example/mcp", "headers": {"X-Key": "${input:api-key}"}},
\t\t"local": {"type": "stdio", "command": "uvx", "args": ["thing"], "envFile": "${workspaceFolder}/.env", "dev": {}},
\t},
}
"""


def test_a_file_of_claude_desktop_is_taken_as_it_is(tmp_path: Path) -> None:
    config = loaded(tmp_path, DESKTOP)
    assert list(config.config.servers) == ["filesystem", "remote"]
    files = config.config.servers["filesystem"]
    assert (files.env["DEBUG"].get_secret_value(), files.env["PORT"].get_secret_value()) == ("true", "8080")
    assert config.config.servers["remote"].headers["Authorization"].get_secret_value() == "Bearer t"
    assert config.off == {"old": "switched off in its file"}
    assert f"{tmp_path}/gateway.yaml:3: mcpServers: of this file only this is used, not globalShortcut" in config.notes


def test_a_file_of_vscode_is_taken_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path, VSCODE, ".vscode/mcp.json")
    config = load(path, {"API_KEY": "s3"})
    assert config.config.servers["remote"].headers["X-Key"].get_secret_value() == "s3"
    assert config.config.servers["local"].command == "uvx"
    assert config.notes == [
        f"{path}:6: servers.local.envFile: is not read: put its variables into env, or into the environment of the "
        "gateway as ${NAME}",
        f"{path}:6: servers.local.dev: is not used",
    ]
    assert load(path, {}).off == {"remote": "headers.X-Key: the variable API_KEY is not set"}


def test_a_file_of_cursor_is_taken_as_it_is(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        '{"mcpServers": {"a": {"url": "https://x.example/mcp", "headers": {"A": "Bearer ${env:T}"}}, '
        '"b": {"command": "${userHome}/bin/x"}}}',
        {"T": "t", "HOME": "/home/me"},
    )
    assert config.config.servers["a"].headers["A"].get_secret_value() == "Bearer t"
    assert config.config.servers["b"].command == "/home/me/bin/x"


@pytest.mark.parametrize("key", ["serverUrl", "httpUrl", "url"])
def test_an_address_has_several_names(tmp_path: Path, key: str) -> None:
    url = loaded(tmp_path, f'{{"mcpServers": {{"a": {{"{key}": "http://localhost:1/mcp"}}}}}}').config.servers["a"].url
    assert url is not None
    assert url.get_secret_value() == "http://localhost:1/mcp"


def test_a_wrong_address_is_reported_under_the_name_it_was_written_with(tmp_path: Path) -> None:
    problem = only(problems(tmp_path, f'{{"mcpServers": {{\n"a": {{"serverUrl": "ftp://{CANARY}"}}}}}}'))
    assert (problem.path, problem.line) == ("mcpServers.a.serverUrl", 2)
    assert CANARY not in str(problem)


def test_choices_of_tools_are_understood(tmp_path: Path) -> None:
    servers = loaded(
        tmp_path,
        """
        mcpServers:
          a: {command: x, disabledTools: [rm]}
          b: {command: x, includeTools: [ls], excludeTools: [rm]}
          c: {command: x, tools: ["*"]}
          d: {command: x, tools: {exclude: [rm]}, enabledTools: [ls]}
        """,
    ).config.servers
    assert servers["a"].tools.exclude == ["rm"]
    assert (servers["b"].tools.include, servers["b"].tools.exclude) == (["ls"], ["rm"])
    assert servers["c"].tools.include == ["*"]
    assert (servers["d"].tools.include, servers["d"].tools.exclude) == (["ls"], ["rm"])


@pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp", "auto"])
def test_kinds_of_http_leave_the_transport_to_be_found(tmp_path: Path, kind: str) -> None:
    config = loaded(tmp_path, f"mcpServers:\n  a: {{type: {kind}, url: 'http://localhost/mcp'}}\n")
    assert config.config.servers["a"].transport == "auto"
    assert config.notes == []


def test_the_oldest_kind_of_http_keeps_its_transport(tmp_path: Path) -> None:
    config = loaded(tmp_path, "mcpServers:\n  a: {type: sse, url: 'http://localhost/sse'}\n  b: {command: x}\n")
    assert (config.config.servers["a"].transport, config.off) == ("sse", {})


def test_keys_that_mean_nothing_are_noted_never_silent(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """
        mcpServers:
          a:
            command: x
            timeout: 600000
            autoApprove: [ls]
            frobnicate: 1
            timeout_s: 5
            type: websocket
            description: null
        """,
    )
    assert [note.split(": ", 2)[1] for note in config.notes] == [
        "mcpServers.a.timeout",
        "mcpServers.a.autoApprove",
        "mcpServers.a.frobnicate",
        "mcpServers.a.timeout_s",
        "mcpServers.a.type",
    ]
    assert "did you mean 'timeouts'?" in config.notes[3]


def test_beside_sections_of_ours_unknown_keys_are_errors_again(tmp_path: Path) -> None:
    found = problems(
        tmp_path, "listen: {port: 1}\nmcpServers:\n  a: {command: x, frobnicate: 1, autoApprove: []}\nfoo: 1\n"
    )
    assert [(one.path, one.message) for one in found] == [
        ("mcpServers.a.frobnicate", "unknown key"),
        ("foo", "unknown key"),
    ]


def test_both_lists_of_servers_are_served_together(tmp_path: Path) -> None:
    config = loaded(tmp_path, "servers:\n  a: {command: x}\nmcpServers:\n  b: {command: y}\n")
    assert list(config.config.servers) == ["a", "b"]


def test_our_own_keys_work_in_a_foreign_entry(tmp_path: Path) -> None:
    server = loaded(tmp_path, "mcpServers:\n  a: {command: x, namespace: '', concurrency: 3}\n").config.servers["a"]
    assert (server.namespace, server.concurrency) == ("", 3)


def test_process_keys_beside_an_address_are_noted_and_left_out(tmp_path: Path) -> None:
    config = loaded(tmp_path, "mcpServers:\n  a: {url: 'http://localhost/', args: [], env: {A: b}}\n")
    assert config.config.servers["a"].env == {}
    assert "mcpServers.a.env: is not used: the server has a URL" in config.notes[0]


@pytest.mark.parametrize("text", ["mcpServers: []\n", "mcpServers: {a: npx}\n", "servers: 5\nmcpServers: {}\n"])
def test_a_list_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    assert any("must be a mapping" in one.message for one in problems(tmp_path, text))


def test_a_file_of_ours_is_not_touched() -> None:
    document = parse(b"servers:\n  a: {command: x}\n", "f")
    adopted = adopt(document)
    assert adopted.root == document.root
    assert (adopted.taken, adopted.inputs, adopted.notes) == (set(), False, [])


def test_a_kind_in_our_own_file_is_an_unknown_key(tmp_path: Path) -> None:
    text = "listen: {port: 1}\nservers:\n  a: {type: stdio, command: x}\n"
    assert only(problems(tmp_path, text)).path == "servers.a.type"
