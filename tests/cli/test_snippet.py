from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.main import main
from gateway.cli.snippet import CLIENTS, endpoint_of
from gateway.config.loader import load
from tests.kit.config_files import loaded, write

CLIENT = f"clients: {{bot: {{key_sha256: ['{'0' * 64}']}}}}\n"


def printed(folder: Path, capsys: pytest.CaptureFixture[str], client: str, text: str) -> tuple[Any, str]:
    assert main(["snippet", client, "-c", str(write(folder, text))]) == 0
    streams = capsys.readouterr()
    return json.loads(streams.out), streams.err


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("text", ["servers: {}\n", CLIENT])
def test_every_snippet_is_json_with_the_address(
    client: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value, said = printed(tmp_path, capsys, client, text)
    assert "http://127.0.0.1:8080/mcp" in json.dumps(value)
    assert ("Bearer" in json.dumps(value)) is (text == CLIENT)
    assert said.startswith("for ")


def test_claude_code_names_the_key_by_a_variable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value, said = printed(tmp_path, capsys, "claude-code", CLIENT)
    assert value["mcpServers"]["mcp-gateway"] == {
        "type": "http",
        "url": "http://127.0.0.1:8080/mcp",
        "headers": {"Authorization": "Bearer ${MCP_GATEWAY_KEY}"},
    }
    assert "claude mcp add --scope project --transport http mcp-gateway http://127.0.0.1:8080/mcp" in said
    assert "set MCP_GATEWAY_KEY" in said


def test_vscode_asks_for_the_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value, _ = printed(tmp_path, capsys, "vscode", CLIENT)
    assert value["inputs"][0]["password"] is True
    assert value["servers"]["mcp-gateway"]["headers"]["Authorization"] == "Bearer ${input:mcp-gateway-key}"


def test_cursor_names_the_key_by_a_variable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value, _ = printed(tmp_path, capsys, "cursor", CLIENT)
    assert value["mcpServers"]["mcp-gateway"]["headers"] == {"Authorization": "Bearer ${env:MCP_GATEWAY_KEY}"}


def test_claude_desktop_gets_a_bridge_and_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value, said = printed(tmp_path, capsys, "claude-desktop", CLIENT)
    server = value["mcpServers"]["mcp-gateway"]
    assert server["command"] == "npx"
    assert server["args"][:3] == ["-y", "mcp-remote", "http://127.0.0.1:8080/mcp"]
    assert server["args"][3:] == ["--header", "Authorization:${MCP_GATEWAY_AUTHORIZATION}"]
    assert "stdio servers only" in said
    assert "--allow-http" not in server["args"]


def test_a_plain_address_of_another_host_has_to_be_allowed_to_the_bridge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value, _ = printed(tmp_path, capsys, "claude-desktop", "listen: {public_url: 'http://gw.internal/mcp'}\n")
    assert value["mcpServers"]["mcp-gateway"]["args"] == ["-y", "mcp-remote", "http://gw.internal/mcp", "--allow-http"]


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("{}", "http://127.0.0.1:8080/mcp"),
        ("{public_url: 'https://mcp.example.com/x'}", "https://mcp.example.com/x"),
        ("{host: '::1', port: 1}", "http://[::1]:1/mcp"),
        ("{host: 0.0.0.0}", "http://127.0.0.1:8080/mcp"),
        ("{host: '::'}", "http://[::1]:8080/mcp"),
        ("{host: 0.0.0.0, tls: {cert: c, key: k}, allowed_hosts: [gw.example]}", "https://gw.example:8080/mcp"),
        ("{host: 0.0.0.0, behind_tls_proxy: true, allowed_hosts: [gw.example]}", "https://gw.example/mcp"),
        ("{host: 0.0.0.0, tls: {cert: c, key: k}, allowed_hosts: ['gw.example:443']}", "https://gw.example:443/mcp"),
        ("{path: /a/b}", "http://127.0.0.1:8080/a/b"),
    ],
)
def test_the_address_is_the_one_clients_know(listen: str, url: str, tmp_path: Path) -> None:
    assert endpoint_of(loaded(tmp_path, f"listen: {listen}\n")).url == url


def test_an_unknown_client_is_answered_with_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snippet", "vscod", "-c", str(tmp_path / "missing.yaml")]) == 2
    assert capsys.readouterr().err == (
        "snippet: no client 'vscod' (did you mean 'vscode'? clients: claude-code, claude-desktop, vscode, cursor)\n"
    )


def test_programs_get_everything_as_one_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snippet", "vscode", "--json", "-c", str(write(tmp_path, CLIENT))]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["client"], value["file"]) == ("vscode", ".vscode/mcp.json")
    assert value["value"]["servers"]


def test_a_snippet_of_vscode_is_a_config_this_gateway_would_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value, _ = printed(tmp_path, capsys, "vscode", CLIENT)
    config = load(write(tmp_path, json.dumps(value), "mcp.json"), {"MCP_GATEWAY_KEY": "k"})
    assert list(config.config.servers) == ["mcp-gateway"]
