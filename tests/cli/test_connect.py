"""``connect`` as clients start it: a process on a pipe, with a real gateway behind it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.main import main
from tests.cli.conftest import KEY
from tests.kit.gateway import COMMAND, Gateway, eventually
from tests.kit.peers import Driver, driver
from tests.kit.wire import EraName, every, stdio_client

LEGACY_HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_on_a_pipe_lists_and_calls(gateway: Gateway, era: EraName, tmp_path: Path) -> None:
    command: list[str | Path] = [COMMAND, "connect", gateway.url, "--key-env", "THE_KEY"]
    environment = {**os.environ, "THE_KEY": KEY}
    async with stdio_client(command, era, tmp_path, environment) as client:
        names = [tool["name"] for tool in await every(client, "tools/list", "tools")]
        assert "notes__whoami" in names
        answer = await client.request("tools/call", {"name": "notes__whoami", "arguments": {}})
        assert answer.result["structuredContent"]["dataset"] == "d"
        unknown = await client.request("tools/call", {"name": "notes__nothing", "arguments": {}})
        assert unknown.error["code"] == -32602


@pytest.fixture(params=["mcp1-legacy", "mcp2-legacy", "mcp2-modern", "mcp2-auto"])
def official(
    request: pytest.FixtureRequest, gateway: Gateway, key_file: Path, tmp_path: Path
) -> Iterator[tuple[str, Driver]]:
    """An official client that starts the command itself."""
    command = json.dumps([str(COMMAND), "connect", gateway.url, "--key-file", str(key_file)])
    with driver(request.param, command, tmp_path / "log") as connected:
        yield request.param, connected


def test_an_official_stdio_client_works_through_it(official: tuple[str, Driver]) -> None:
    name, client = official
    assert client.connected["ok"]["protocolVersion"] == ("2025-11-25" if "legacy" in name else "2026-07-28")
    assert "notes__whoami" in [tool["name"] for tool in client.ok("tools")["tools"]]
    assert client.ok("call", name="notes__whoami", arguments={})["structuredContent"]["dataset"] == "d"
    assert "Unknown tool" in str(client.do("call", name="notes__nothing", arguments={}))
    assert client.ok("call", name="notes__whoami", arguments={})["isError"] is False


def relayed(gateway: Gateway, *messages: Any, arguments: tuple[str, ...] = ()) -> tuple[int, list[Any], str]:
    """Write these lines to the command, end its input and return its exit code, answers and errors."""
    lines = "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in messages)
    done = subprocess.run(
        [COMMAND, "connect", gateway.url, *arguments],
        input=lines,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_without_a_credential_every_request_is_told_so(gateway: Gateway) -> None:
    code, answers, _ = relayed(gateway, LEGACY_HELLO, "no json")
    assert code == 0
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(0, -31008), (None, -32700)]
    assert "--key-env" in answers[0]["error"]["message"]


def test_open_requests_are_answered_after_the_input_has_ended(gateway: Gateway, key_file: Path) -> None:
    call = {"name": "notes__whoami", "arguments": {}}
    code, answers, _ = relayed(
        gateway,
        LEGACY_HELLO,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": call},
        arguments=("--key-file", str(key_file)),
    )
    assert code == 0
    assert {answer["id"] for answer in answers} == {0, "a"}


def test_the_end_of_the_client_ends_its_session(gateway: Gateway, key_file: Path) -> None:
    before = gateway.metric("mcp_gateway_sessions")
    relayed(gateway, LEGACY_HELLO, arguments=("--key-file", str(key_file)))
    assert gateway.metric("mcp_gateway_sessions") == before


def test_it_ends_when_it_is_told_to(gateway: Gateway, key_file: Path) -> None:
    process = subprocess.Popen(
        [COMMAND, "connect", gateway.url, "--key-file", key_file], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(LEGACY_HELLO).encode() + b"\n")
        process.stdin.flush()
        assert b"protocolVersion" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        eventually(lambda: process.poll() is not None, "it ends")
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def test_a_gateway_that_is_not_there_is_named_to_the_client(tmp_path: Path) -> None:
    done = subprocess.run(
        [COMMAND, "connect", "http://127.0.0.1:9/mcp"],
        input=json.dumps(LEGACY_HELLO) + "\n",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    answer = json.loads(done.stdout)
    assert answer["error"]["code"] == -31002
    assert "Is the gateway running?" in answer["error"]["message"]
    assert "127.0.0.1" not in answer["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ftp://x"], "URL must be an http or https address"),
        (["https://u:p@x.example/mcp"], "a key in the URL would be seen"),
        (["http://x.example/mcp", "--key-env", "PATH"], "would cross the network in the clear"),
        (["https://x.example/mcp", "--key-env", "SURELY_NOT_SET"], "the variable SURELY_NOT_SET is not set"),
        (["https://x.example/mcp", "--key-file", "missing"], "missing: No such file"),
        (["https://x.example/mcp", "--ca", "missing"], "missing cannot be read as certificates"),
    ],
)
def test_a_command_line_that_does_not_fit_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["connect", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_key_that_others_can_read_is_refused(key_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key_file.chmod(0o644)
    assert main(["connect", "https://x.example/mcp", "--key-file", str(key_file)]) == 2
    assert "may be read by others" in capsys.readouterr().err
