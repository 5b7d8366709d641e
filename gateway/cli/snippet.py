"""``snippet``: what to put into a client so that it talks to this gateway.

A key never stands in a snippet: it is named by a variable or asked for by the client.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gateway.cli.output import Exit, Output, config_path, escaped, wants_json
from gateway.config.loader import load
from gateway.config.root import LoadedConfig
from gateway.config.types import is_loopback
from gateway.protocol import rawjson

NAME: Final = "mcp-gateway"
VARIABLE: Final = "MCP_GATEWAY_KEY"
_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what to dial instead.


@dataclass(frozen=True, slots=True)
class Snippet:
    """The text for one client: ``value`` belongs into ``file``, ``notes`` say what else to know."""

    file: str
    value: dict[str, object]
    notes: tuple[str, ...] = ()
    toml: str = ""
    """The same in TOML, for a client whose file is written in that."""

    @property
    def text(self) -> str:
        """What is pasted."""
        return self.toml or rawjson.pretty(self.value)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a client must know of the gateway. Where only tokens are accepted it needs no key: it signs in by itself."""

    url: str
    needs_key: bool


def _claude_code(endpoint: Endpoint) -> Snippet:
    server: dict[str, object] = {"type": "http", "url": endpoint.url}
    command = f"claude mcp add --transport http {NAME} {endpoint.url}"
    if endpoint.needs_key:
        # Variables are filled in where the entry stands in .mcp.json, which is the scope of a project.
        header = "Bearer ${" + VARIABLE + "}"
        server["headers"] = {"Authorization": header}
        command = command.replace(" add ", " add --scope project ") + f" --header 'Authorization: {header}'"
    return Snippet(".mcp.json", {"mcpServers": {NAME: server}}, (f"or run: {command}", *_variable(endpoint)))


def _claude_desktop(endpoint: Endpoint) -> Snippet:
    server, notes = _bridge(endpoint, "Claude Desktop")
    known = (
        "Claude Desktop's file takes stdio servers only: connect stands between",
        f"where this program is not installed: npx -y mcp-remote {endpoint.url}",
    )
    return Snippet("claude_desktop_config.json", {"mcpServers": {NAME: server}}, (*known, *notes))


def _bridge(endpoint: Endpoint, client: str) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return ``connect`` as a stdio server, and what to know of the key."""
    arguments = ["connect", endpoint.url]
    server: dict[str, object] = {"command": _command(), "args": arguments}
    parts = urlsplit(endpoint.url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        arguments.append("--allow-http")
    if not endpoint.needs_key:
        return server, ()
    arguments += ["--key-env", VARIABLE]
    server["env"] = {VARIABLE: "<the key>"}
    return server, (f"{client} hands on only what stands in env: put the key there, and keep the file to yourself",)


def _command() -> str:
    """Return where this program is: programs that a desktop starts do not know the PATH of a shell."""
    beside = Path(sys.executable).with_name(NAME)
    return str(beside) if beside.exists() else NAME


def _vscode(endpoint: Endpoint) -> Snippet:
    server: dict[str, object] = {"type": "http", "url": endpoint.url}
    value: dict[str, object] = {"servers": {NAME: server}}
    if not endpoint.needs_key:
        return Snippet(".vscode/mcp.json", value)
    server["headers"] = {"Authorization": "Bearer ${input:mcp-gateway-key}"}
    prompt = {
        "type": "promptString",
        "id": "mcp-gateway-key",
        "description": "Key of the MCP gateway",
        "password": True,
    }
    notes = ("VS Code asks for the key once and keeps it in its own store",)
    return Snippet(".vscode/mcp.json", {"inputs": [prompt], **value}, notes)


def _cursor(endpoint: Endpoint) -> Snippet:
    server: dict[str, object] = {"url": endpoint.url}
    if endpoint.needs_key:
        server["headers"] = {"Authorization": "Bearer ${env:" + VARIABLE + "}"}
    return Snippet(".cursor/mcp.json", {"mcpServers": {NAME: server}}, _variable(endpoint))


def _windsurf(endpoint: Endpoint) -> Snippet:
    server: dict[str, object] = {"serverUrl": endpoint.url}
    if endpoint.needs_key:
        server["headers"] = {"Authorization": "Bearer ${env:" + VARIABLE + "}"}
    return Snippet("~/.codeium/windsurf/mcp_config.json", {"mcpServers": {NAME: server}}, _variable(endpoint))


def _codex(endpoint: Endpoint) -> Snippet:
    server: dict[str, object] = {"url": endpoint.url}
    if endpoint.needs_key:
        server["bearer_token_env_var"] = VARIABLE
    # A JSON string without characters beyond ASCII is a basic string of TOML too.
    lines = [f"{key} = {rawjson.encode(value).decode()}" for key, value in server.items()]
    toml = "\n".join([f"[mcp_servers.{NAME}]", *lines])
    return Snippet("~/.codex/config.toml", {"mcp_servers": {NAME: server}}, _variable(endpoint), toml)


def _gemini(endpoint: Endpoint) -> Snippet:
    server: dict[str, object] = {"httpUrl": endpoint.url}
    if endpoint.needs_key:
        server["headers"] = {"Authorization": "Bearer ${" + VARIABLE + "}"}
    return Snippet("~/.gemini/settings.json", {"mcpServers": {NAME: server}}, _variable(endpoint))


def _zed(endpoint: Endpoint) -> Snippet:
    server: dict[str, object] = {"url": endpoint.url}
    if not endpoint.needs_key:
        return Snippet("settings.json", {"context_servers": {NAME: server}})
    server["headers"] = {"Authorization": f"Bearer <{VARIABLE}>"}
    notes = (f"Zed fills in no variables: put the key in place of <{VARIABLE}>, and keep the file to yourself",)
    return Snippet("settings.json", {"context_servers": {NAME: server}}, notes)


def _jetbrains(endpoint: Endpoint) -> Snippet:
    place = "Settings, Tools, AI Assistant, Model Context Protocol"
    if not endpoint.needs_key:
        return Snippet(place, {"mcpServers": {NAME: {"url": endpoint.url}}})
    server, notes = _bridge(endpoint, "The IDE")
    return Snippet(place, {"mcpServers": {NAME: server}}, notes)


def _variable(endpoint: Endpoint) -> tuple[str, ...]:
    return (f"set {VARIABLE} to the key where the client is started",) if endpoint.needs_key else ()


CLIENTS: Final[dict[str, Callable[[Endpoint], Snippet]]] = {
    "claude-code": _claude_code,
    "claude-desktop": _claude_desktop,
    "vscode": _vscode,
    "cursor": _cursor,
    "windsurf": _windsurf,
    "codex": _codex,
    "gemini-cli": _gemini,
    "zed": _zed,
    "jetbrains": _jetbrains,
}


def run(args: argparse.Namespace) -> int:
    """Print the snippet for one client: JSON to standard output, what else to know to standard error."""
    client: str = args.client
    if client not in CLIENTS:
        close = difflib.get_close_matches(client, list(CLIENTS), n=1, cutoff=0.5)
        hint = f"did you mean '{close[0]}'? " if close else ""
        Output.errors().line(f"snippet: no client '{escaped(client[:64])}' ({hint}clients: {', '.join(CLIENTS)})")
        return Exit.UNKNOWN
    loaded = load(config_path(args), os.environ)
    endpoint = endpoint_of(loaded)
    if args.view is not None:
        if args.view not in loaded.config.views:
            Output.errors().line(f"snippet: there is no view '{escaped(args.view[:64])}' in the config")
            return Exit.UNKNOWN
        endpoint = replace(endpoint, url=f"{endpoint.url.rstrip('/')}/{args.view}")
    snippet = CLIENTS[client](endpoint)
    output = Output.standard()
    if wants_json(args):
        shown = {"client": client, "file": snippet.file, "value": snippet.value, "notes": list(snippet.notes)}
        output.value(shown | ({"text": snippet.toml} if snippet.toml else {}))
        return Exit.FINE
    output.stream.write(snippet.text + "\n")
    sys.stdout.flush()
    errors = Output.errors()
    for text in (f"for {snippet.file}", *snippet.notes):
        errors.line(text)
    return Exit.FINE


def endpoint_of(loaded: LoadedConfig) -> Endpoint:
    """Return the address as clients know it."""
    listen = loaded.config.listen
    needs_key = bool(loaded.config.clients)
    if listen.public_url:
        return Endpoint(listen.public_url, needs_key)
    scheme = "https" if listen.tls is not None or listen.behind_tls_proxy else "http"
    if listen.allowed_hosts:
        host = listen.allowed_hosts[0]
        is_named = ":" in host.rpartition("]")[2] or listen.behind_tls_proxy
        return Endpoint(f"{scheme}://{host}{'' if is_named else f':{listen.port}'}{listen.path}", needs_key)
    name = _WILDCARDS.get(listen.host, listen.host)
    host = f"[{name}]" if ":" in name else name
    return Endpoint(f"{scheme}://{host}:{listen.port}{listen.path}", needs_key)
