"""``serve``: what it says before it serves, and what it refuses."""

from __future__ import annotations

import argparse
import io
import json
import shlex
import sys
from pathlib import Path

import pytest

from gateway.app import Addresses
from gateway.cli.main import main
from gateway.cli.output import Output
from gateway.cli.serve import again, announce
from tests.kit.configs import loaded
from tests.kit.gateway import serving

ADDRESSES = Addresses("http://127.0.0.1:8080/mcp", "http://127.0.0.1:9090", "/s/admin.token")


def told(config: dict[str, object], off: dict[str, str] | None = None) -> str:
    stream = io.StringIO()
    announce(loaded(config, off=off or {}), "mcp-gateway {}".format, Output(stream, terminal=False), ADDRESSES)
    return stream.getvalue()


def test_an_open_gateway_says_that_it_is_one() -> None:
    text = told({"servers": {"a": {"command": "x"}}})
    assert "MCP gateway is serving http://127.0.0.1:8080/mcp" in text
    assert "anonymous, loopback only" in text
    assert "everything is allowed" in text


@pytest.mark.parametrize(
    ("started", "words", "shown"),
    [
        (["/usr/bin/python3", ".venv/bin/mcp-gateway"], ["-c", "demo/gateway.yaml"], ".venv/bin/mcp-gateway"),
        (["/usr/bin/python3", "/nowhere on the path/mcp-gateway"], [], "'/nowhere on the path/mcp-gateway'"),
        (["python3", "/src/gateway/__main__.py"], ["-c", "my gateway.yaml"], "python3 -m gateway"),
    ],
)
def test_commands_are_shown_as_they_can_be_run_from_here(
    started: list[str], words: list[str], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PATH that `make run` sets is not that of the user's shell."""
    monkeypatch.setattr(sys, "orig_argv", started)
    monkeypatch.setattr(sys, "argv", started[1:])
    args = argparse.Namespace(**({"config": Path(words[1])} if words else {}))
    assert again(args, "audit tail") == " ".join([shown, "audit tail", *map(shlex.quote, words)])


def test_a_program_on_the_path_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "mcp-gateway"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert again(argparse.Namespace(), "status") == "mcp-gateway status"


def test_snippets_are_shown_for_three_clients() -> None:
    text = told({"servers": {"a": {"command": "x"}}})
    for part in (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json", "claude mcp add"):
        assert part in text


def test_with_clients_no_key_is_ever_shown() -> None:
    """S150."""
    text = told({"clients": {"bot": {"key": "k" * 40}}})
    assert "by key: bot" in text
    assert "k" * 40 not in text
    assert "none yet" in text


def test_a_server_that_is_off_is_named_with_its_reason() -> None:
    """G125."""
    assert "off           wiki: headers.Authorization: WIKI_TOKEN is not set" in told(
        {}, {"wiki": "headers.Authorization: WIKI_TOKEN is not set"}
    )


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"listen": {"host": "0.0.0.0"}}, "listen.host"),
        ({"lisen": {}}, "listen"),
        (
            {
                "servers": {"a": {"command": "x"}},
                "policies": [{"name": "p", "clients": ["*"], "allow": [{"tools": "a/*", "when": "1 +"}]}],
            },
            "when",
        ),
    ],
)
def test_a_config_that_must_not_be_served_ends_at_once(
    tmp_path: Path, config: dict[str, object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """S04, G126: exit code 2 and a text that names the key."""
    path = tmp_path / "gateway.yaml"
    path.write_text(json.dumps(config))
    assert main(["serve", "-c", str(path)]) == 2
    text = capsys.readouterr().err
    assert said in text
    assert "Traceback" not in text


def test_it_serves_with_metrics_and_ends_well(tmp_path: Path) -> None:
    with serving(tmp_path, {}) as gateway:
        assert gateway.metric("mcp_gateway_build_info") == 1
        assert gateway.admin("/healthz") == (200, "ok\n")
        gateway.terminate()
        assert gateway.wait() == 0
