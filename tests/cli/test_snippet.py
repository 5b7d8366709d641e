from __future__ import annotations

import json
import re
import sys
import tomllib
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
    read = tomllib.loads if streams.out.startswith("[") else json.loads
    return read(streams.out), streams.err


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("text", ["servers: {}\n", CLIENT])
def test_every_snippet_is_json_with_the_address(
    client: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value, said = printed(tmp_path, capsys, client, text)
    assert "http://127.0.0.1:8080/mcp" in json.dumps(value)
    assert bool(re.search("gateway[_-]key", json.dumps(value), re.IGNORECASE)) is (text == CLIENT)
    assert said.startswith("for ")


@pytest.mark.parametrize("client", CLIENTS)
def test_where_clients_sign_in_by_themselves_a_snippet_has_no_header(
    client: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "https://mcp.example.com/mcp"
    text = f"listen: {{public_url: '{url}'}}\nauth: {{jwt: {{issuer: 'https://idp.example.com', audience: '{url}'}}}}\n"
    value, _ = printed(tmp_path, capsys, client, text)
    assert url in json.dumps(value)
    assert "Authorization" not in json.dumps(value)


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


def test_windsurf_codex_and_gemini_name_the_key_by_a_variable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = "http://127.0.0.1:8080/mcp"
    windsurf, _ = printed(tmp_path, capsys, "windsurf", CLIENT)
    codex, said = printed(tmp_path, capsys, "codex", CLIENT)
    gemini, _ = printed(tmp_path, capsys, "gemini-cli", CLIENT)
    assert windsurf["mcpServers"]["mcp-gateway"] == {
        "serverUrl": address,
        "headers": {"Authorization": "Bearer ${env:MCP_GATEWAY_KEY}"},
    }
    assert codex["mcp_servers"]["mcp-gateway"] == {"url": address, "bearer_token_env_var": "MCP_GATEWAY_KEY"}
    assert "set MCP_GATEWAY_KEY" in said
    assert gemini["mcpServers"]["mcp-gateway"] == {
        "httpUrl": address,
        "headers": {"Authorization": "Bearer ${MCP_GATEWAY_KEY}"},
    }


def test_zed_and_jetbrains_fill_in_no_variables_and_say_where_the_key_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zed, said = printed(tmp_path, capsys, "zed", CLIENT)
    assert zed["context_servers"]["mcp-gateway"]["headers"] == {"Authorization": "Bearer <MCP_GATEWAY_KEY>"}
    assert "put the key in place of <MCP_GATEWAY_KEY>" in said
    jetbrains, said = printed(tmp_path, capsys, "jetbrains", CLIENT)
    server = jetbrains["mcpServers"]["mcp-gateway"]
    assert server["args"] == ["connect", "http://127.0.0.1:8080/mcp", "--key-env", "MCP_GATEWAY_KEY"]
    assert "put the key there" in said


def test_toml_is_there_for_programs_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snippet", "codex", "--json", "-c", str(write(tmp_path, CLIENT))]) == 0
    value = json.loads(capsys.readouterr().out)
    assert tomllib.loads(value["text"]) == value["value"]


def test_claude_desktop_gets_a_bridge_and_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value, said = printed(tmp_path, capsys, "claude-desktop", CLIENT)
    server = value["mcpServers"]["mcp-gateway"]
    assert server["command"] == str(Path(sys.executable).with_name("mcp-gateway"))
    assert server["args"] == ["connect", "http://127.0.0.1:8080/mcp", "--key-env", "MCP_GATEWAY_KEY"]
    assert server["env"] == {"MCP_GATEWAY_KEY": "<the key>"}
    assert "stdio servers only" in said
    assert main([*server["args"][:1], "ftp://x", *server["args"][2:]]) == 2


def test_a_plain_address_of_another_host_has_to_be_allowed_to_the_bridge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value, _ = printed(tmp_path, capsys, "claude-desktop", "listen: {public_url: 'http://gw.internal/mcp'}\n")
    assert value["mcpServers"]["mcp-gateway"]["args"] == ["connect", "http://gw.internal/mcp", "--allow-http"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_view_has_an_address_of_its_own(client: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write(tmp_path, "servers: {a: {command: x}}\nviews: {desk: {include: ['a/*']}}\n")
    assert main(["snippet", client, "--view", "desk", "-c", str(config)]) == 0
    assert "http://127.0.0.1:8080/mcp/desk" in capsys.readouterr().out
    assert main(["snippet", client, "--view", "other", "-c", str(config)]) == 2


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
        "snippet: no client 'vscod' (did you mean 'vscode'? clients: claude-code, claude-desktop, vscode, "
        "cursor, windsurf, codex, gemini-cli, zed, jetbrains)\n"
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
