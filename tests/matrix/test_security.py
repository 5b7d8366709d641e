"""Secrets: unique marks wherever one can be, a gateway driven through all it does, and a search of all it left."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch
from urllib.parse import quote

import pytest

from gateway.cli.main import main
from tests.kit import wire
from tests.kit.gateway import Gateway, Json, descendants, eventually, free_port, serving
from tests.kit.http_server import HttpServer, McpServer
from tests.kit.http_server import serving as serving_http
from tests.kit.secrets import found_in
from tests.kit.wire import EraName

SCRIPTED = Path(__file__).parents[1] / "kit" / "stdio_server.py"

MARKS = {
    name: f"{name}-~/+%d-{sha256(name.encode()).hexdigest()[:24]}" % number
    for number, name in enumerate(
        (
            "alice-key",
            "bob-key",
            "stranger-key",
            "admin-token",
            "metrics-token",
            "query-token",
            "env-first",
            "env-second",
            "env-crashing",
            "header-web",
            "userinfo-web",
            "query-web",
            "userinfo-dead",
            "argument",
            "cookie",
            "garbage",
            "unrelated",
            "broken-config",
        )
    )
}
"""What must not get around, by where it is. Characters that each encoding changes are part of every one."""


HOSTILE = 'x\n{"event":"forged"}\r\x1b]0;pwn\x07\x9b\u2028\u202e\u200b' + "y" * 5000
"""A name that would forge log lines and move a terminal's cursor."""


def leaks(places: dict[str, bytes], *allowed: str) -> set[tuple[str, str]]:
    """Return each mark that was found, with the place; marks in ``allowed`` may be there."""
    return found_in(places, {name: mark for name, mark in MARKS.items() if name not in allowed})


def test_the_search_knows_every_form() -> None:
    mark = MARKS["argument"]
    hidden = [mark, quote(mark, safe=""), mark.encode().hex(), base64.b64encode(f"ab:{mark}".encode()).decode()]

    for text in [*hidden, base64.urlsafe_b64encode(f"user:{mark}:x".encode()).decode(), json.dumps({"a": mark})]:
        assert leaks({"here": f"<{text}>".encode()}) == {("argument", "here")}, text
    assert leaks({"here": b"nothing"}) == set()


@dataclass
class Sweep:
    """A gateway that was driven through everything, and what came out of it on the way."""

    gateway: Gateway
    seen_by_web: list[bytes] = field(default_factory=list)
    answers: dict[str, bytes] = field(default_factory=dict)
    printed: dict[str, bytes] = field(default_factory=dict)
    processes: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    sessions: list[str] = field(default_factory=list)

    def answer(self, name: str, data: object) -> None:
        """Keep an answer."""
        self.answers[f"{len(self.answers)} {name}"] = json.dumps(data).encode() if not isinstance(data, bytes) else data

    def files(self, *folders: str) -> dict[str, bytes]:
        """Return the content of every file below some folders."""
        below = [path for folder in folders for path in (self.gateway.folder / folder).rglob("*") if path.is_file()]
        return {str(path): path.read_bytes() for path in below}


def _stdio(folder: Path, name: str, *modes: str) -> Json:
    arguments = ["-I", "-S", str(SCRIPTED), f"record={folder / name}.received", *modes, "--name", name]
    return {"command": sys.executable, "args": arguments, "env": {"TOKEN": f"${{{name.upper()}_TOKEN}}"}}


def _config(folder: Path, web: HttpServer) -> Json:
    def secret(name: str) -> str:
        return quote(MARKS[name], safe="")

    return {
        "admin": {
            "users": {"root": {"token_sha256": sha256(MARKS["admin-token"].encode()).hexdigest(), "roles": ["reload"]}},
            "metrics_token": "${METRICS_TOKEN}",
        },
        "servers": {
            "first": _stdio(folder, "first", "slow=0"),
            "second": _stdio(folder, "second", "slow=0"),
            "crashing": _stdio(folder, "crashing", "crash=TOKEN"),
            "web": {
                "url": f"http://user:${{WEB_USERINFO}}@127.0.0.1:{web.port}/mcp?key=${{WEB_QUERY}}",
                "headers": {"X-Api-Key": "${WEB_HEADER}"},
            },
            "dead": {"url": f"http://{secret('userinfo-dead')}@127.0.0.1:{free_port()}/mcp"},
            "unset": {"command": "true", "env": {"TOKEN": "${NOBODY_SET_THIS}"}},
        },
        "clients": {"alice": {"key": "${ALICE_KEY}"}, "bob": {"key": "${BOB_KEY}"}},
        "policies": [
            {
                "name": "alice",
                "clients": ["alice"],
                "allow": ["first/*", "second/*", "web/*", "crashing/*", "dead/*"],
                "deny": [{"tools": "first/log", "when": "args.data != ''"}],
                "limits": [{"rate": "1/day", "tools": ["first/progress"]}],
            }
        ],
        "telemetry": {"log_level": "debug"},
    }


def _environment() -> dict[str, str]:
    secrets = {
        "ALICE_KEY": "alice-key",
        "BOB_KEY": "bob-key",
        "FIRST_TOKEN": "env-first",
        "SECOND_TOKEN": "env-second",
        "CRASHING_TOKEN": "env-crashing",
        "WEB_HEADER": "header-web",
        "METRICS_TOKEN": "metrics-token",
        "MCP_GATEWAY_ADMIN_TOKEN": "admin-token",
    }
    others = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PYTHONPATH", "SSH_AUTH_SOCK", "HTTPS_PROXY", "DATABASE_URL")
    variables = {name: MARKS[mark] for name, mark in secrets.items()}
    variables |= {"WEB_USERINFO": quote(MARKS["userinfo-web"], safe="")}
    variables |= {"WEB_QUERY": quote(MARKS["query-web"], safe="")}
    return variables | dict.fromkeys(others, MARKS["unrelated"])


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweep]:
    """Drive a gateway through calls, refusals, crashes, a bad reload and every command, then leave it running."""
    folder = tmp_path_factory.mktemp("secrets")

    @asynccontextmanager
    async def running() -> AsyncIterator[Sweep]:
        scripted = McpServer("modern", "web")
        async with serving_http(scripted.script) as web:
            config = _config(folder, web)
            with serving(folder / "gateway", config, _environment()) as gateway:
                gateway.token = MARKS["admin-token"]
                sweep = Sweep(gateway)
                await asyncio.to_thread(_await, sweep, "first", "second", "web")
                await _drive(sweep)
                await asyncio.to_thread(_break, sweep, config)
                sweep.seen_by_web = [_whole(exchange.headers, exchange.target, exchange.body) for exchange in web.seen]
                yield sweep

    with asyncio.Runner() as runner:
        context = running()
        yield runner.run(context.__aenter__())
        runner.run(context.__aexit__(None, None, None))


def _whole(headers: dict[str, str], target: str, body: bytes) -> bytes:
    return b"\n".join([target.encode(), *(f"{name}: {value}".encode() for name, value in headers.items()), body])


def _await(sweep: Sweep, *names: str) -> None:
    sweep.gateway.await_servers(*names)
    eventually(
        lambda: all(sweep.gateway.status()["servers"][name].get("last_error") for name in ("crashing", "dead")),
        "both have failed",
    )


async def _drive(sweep: Sweep) -> None:
    """Call, be refused, and knock without a key."""
    eras: tuple[EraName, ...] = ("modern", "legacy")
    marked = {"text": MARKS["argument"], "data": MARKS["argument"]}
    for era in eras:
        async with (
            wire.http_client(sweep.gateway.url, era, MARKS["alice-key"]) as alice,
            wire.http_client(sweep.gateway.url, era, MARKS["bob-key"]) as bob,
        ):
            sweep.sessions += [client.session_id for client in (alice, bob) if client.session_id]
            for tool in ("first__echo", "second__echo", "web__echo"):
                assert (await wire.call(alice, tool, marked)).result["structuredContent"] == marked
            for tool in ("first__log", "first__progress", "first__progress", "first__error", "first__fail"):
                sweep.answer(tool, (await wire.call(alice, tool, marked)).message)
            for tool in ("first__echo", "no__such", "dead__echo"):
                sweep.answer(f"bob {tool}", (await wire.call(bob, tool, marked)).message)
            await alice.request("tools/call", {"name": HOSTILE, "arguments": {}, "_meta": {"progressToken": HOSTILE}})
            for method in ("prompts/get", "completion/complete", "nothing"):
                body = (
                    {"uri": f"file:///{MARKS['argument']}"} if method == "resources/read" else {**marked, "name": "x"}
                )
                if method != "resources/read":
                    sweep.answer(method, (await alice.request(method, body)).message)
    await _knock(sweep)
    async with wire.http_client(sweep.gateway.url, "modern", MARKS["alice-key"]) as alice:
        pid = (await wire.call(alice, "first__whoami")).result["structuredContent"]["pid"]
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            slow = group.create_task(wire.call(alice, "first__sleep", marked | {"seconds": 20}))
            while not any(s["in_flight"] for s in sweep.gateway.status()["servers"].values() if "in_flight" in s):
                await asyncio.sleep(0.01)
            os.kill(pid, signal.SIGKILL)
        sweep.answer("killed", slow.result().message)
        again = await wire.call(alice, "first__echo", marked)
        sweep.answer("again", again.result.get("_meta"))


async def _knock(sweep: Sweep) -> None:
    """Send credentials that are wrong, in the wrong place, or in what is no request at all."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    url = sweep.gateway.url.rpartition("/")[2]
    query = quote(MARKS["query-token"], safe="")
    mark, good = MARKS["stranger-key"], f"Authorization: Bearer {MARKS['alice-key']}"
    json_type = "Content-Type: application/json"
    heads = [
        (f"/{url}", f"Authorization: Bearer {mark}", body),
        (f"/{url}", f"Authorization: Basic {base64.b64encode(mark.encode()).decode()}", body),
        (f"/{url}", f"Authorization: Bearer {mark}\r\nAuthorization: Bearer {mark}", body),
        (f"/{url}?access_token={query}&api_key={query}", f"Cookie: {MARKS['cookie']}", body),
        (
            f"/{url}?access_token={query}",
            f"{good}\r\nCookie: s={MARKS['cookie']}\r\nX-Internal: {MARKS['cookie']}",
            body,
        ),
        (f"/{url}", f"{good}\r\nX-Bad: {MARKS['garbage']}\0\r\nHost: {MARKS['garbage']}", body),
        (f"/{url} {MARKS['garbage']}", good, body),
        (f"/{url}", f"{good}\r\n{json_type}", f'{{"{MARKS["garbage"]}": '.encode()),
        (f"/{url}", f"{good}\r\n{json_type}", json.dumps({"jsonrpc": "2.0", "id": [], "method": mark}).encode()),
        (f"/{url}", f"{good}\r\n{json_type}\r\nOrigin: http://{MARKS['garbage']}", body),
        (f"/{url}/{query}", good, body),
        (f"/{url}", f"{good}\r\n{json_type}\r\nMCP-Protocol-Version: {MARKS['garbage']}", body),
        (f"/{url}", f"{good}\r\n{json_type}\r\nMcp-Session-Id: {MARKS['garbage']}", body),
    ]
    for port in (sweep.gateway.port, sweep.gateway.admin_port):
        for target, head, data in heads:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            start = f"POST {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close"
            writer.write(f"{start}\r\n{head}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
            with suppress(ConnectionError):
                async with asyncio.timeout(20):
                    sweep.answer(f"{port} {target} {head.split(':')[0]}", await reader.read())
            writer.close()


def _break(sweep: Sweep, config: Json) -> None:
    """Reload what cannot be served, run every command, then end the gateway as a crash would and start it again."""
    gateway, good = sweep.gateway, sweep.gateway.file.read_text()
    for text in _broken(config):
        before = gateway.metric("mcp_gateway_config_reloads_total", result="failed")
        gateway.file.write_text(text)
        os.kill(gateway.pid, signal.SIGHUP)
        eventually(partial(_above, gateway, before), "a bad reload is counted")
        sweep.answer("status", gateway.status())
        for command in (("check",), ("check", "--json"), ("status",), ("snippet", "cursor"), ("serve",)):
            assert _command(sweep, command) in (1, 2)
    gateway.file.write_text(good)
    argument = json.dumps({"data": MARKS["argument"]})
    calls = [("call", f"first/{tool}", argument, "--as", "alice") for tool in ("log", "progress", "fail", "no")]
    every: tuple[tuple[str, ...], ...] = (*COMMANDS, *calls)
    for words in every:
        _command(sweep, words)
    sweep.processes = {pid: _process(pid) for pid in descendants(gateway.pid)}
    gateway.kill()
    gateway.start()
    _await(sweep, "first", "web")
    sweep.answer("status", gateway.status())
    sweep.answer("metrics", gateway.admin("/metrics")[1])


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("check",),
    ("check", "--live"),
    ("status",),
    ("status", "--json"),
    ("tools", "--as", "alice"),
    ("tools", "--as", "bob", "--json"),
    ("tools", "--as", "nobody"),
    ("keys", "new", "carol"),
    ("schema",),
    ("snippet", "cursor"),
    ("audit", "tail"),
    ("audit", "verify"),
)


def _broken(config: Json) -> list[str]:
    """Return configs that are wrong right where a secret stands."""
    secret = MARKS["broken-config"]
    address = quote(secret, safe="")
    changed: list[Json] = [
        {"clients": {"alice": {"key": secret, "surprise": secret}, "bob": {"key": secret}}},
        {"clients": {"alice": {"key": secret[:20], "key_sha256": [secret]}, "bob": {"expires": secret}}},
        {"servers": {"web": {"url": f"ftp://{address}@example.com"}, "first": {"command": "true", "env": [secret]}}},
        {"servers": {"web": {"url": f"http://{address}:x@h/?{address}", "headers": {"A b": f"{secret}\n"}}}},
        {"state": {"url": f"redis://:{address}@127.0.0.1", "sealing_keys": [secret[:20]]}},
        {"admin": {"metrics_token": secret[:12], "users": {"root": {"token_sha256": secret}}}},
    ]
    broken = [f'clients: {{alice: {{key: "{secret}\n', f"clients:\n  alice: {{key: {secret}}}\n   bob: 1\n"]
    return broken + [json.dumps({**config, **change}) for change in changed]


def _above(gateway: Gateway, before: float) -> bool:
    return gateway.metric("mcp_gateway_config_reloads_total", result="failed") > before


def _command(sweep: Sweep, words: tuple[str, ...]) -> int:
    """Run a command in this process, which is what a process of its own would print."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), patch.dict(os.environ, sweep.gateway.environment):
        code = main([*words, "-c", str(sweep.gateway.file)])
    sweep.printed[f"{len(sweep.printed)} {' '.join(words[:2])}"] = printed.getvalue().encode()
    assert printed.getvalue(), words
    return code


def _process(pid: int) -> tuple[bytes, bytes]:
    folder = Path(f"/proc/{pid}")
    try:
        return (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
    except OSError:
        return b"", b""


def test_no_secret_and_no_argument_is_in_anything_the_gateway_writes(swept: Sweep) -> None:
    """S46, S151, S153, S155: logs at debug level, the audit log and what is kept in the state folder."""
    written = {**swept.files("audit", "state"), "log": swept.gateway.log.read_bytes()}

    assert len(swept.gateway.records()) > 50
    assert leaks(written) == set()
    assert [name for name, data in written.items() for session in swept.sessions if session.encode() in data] == []


def test_no_secret_is_in_any_answer_or_on_any_terminal(swept: Sweep) -> None:
    """S17, S36, S151: error bodies, status, metrics, and every command with a good and a broken config."""
    assert leaks(swept.answers) == set()
    assert leaks(swept.printed) == set()
    for name, data in swept.answers.items():
        assert b"Traceback" not in data, name
        assert b"aiohttp/" not in data, name
        assert str(swept.gateway.folder).encode() not in data or "status" in name, name


def test_a_server_gets_its_own_secrets_and_nothing_else(swept: Sweep) -> None:
    """S46, S47, S49, S105: environment, argv and every byte that each server was sent."""
    owners = {b"first": "env-first", b"second": "env-second", b"crashing": "env-crashing"}
    named = {
        pid: next((name for name in owners if b"\0" + name + b"\0" in argv), b"")
        for pid, (_, argv) in swept.processes.items()
    }

    assert set(owners) - {b"crashing"} <= set(named.values())
    for pid, (environ, argv) in swept.processes.items():
        own = [owners[named[pid]]] if named[pid] else []
        assert leaks({"environ": environ}, *own) == set(), argv
        assert leaks({"argv": argv}) == set()
    for name in ("first", "second"):
        received = (swept.gateway.folder.parent / f"{name}.received").read_bytes()
        assert MARKS["argument"].encode() in received
        assert leaks({name: received}, "argument") == set()
    assert leaks({"web": b"\n".join(swept.seen_by_web)}, "argument", "header-web", "userinfo-web", "query-web") == set()


def test_every_log_line_is_one_whole_json_object_without_raw_control_characters(swept: Sweep) -> None:
    """S152: also at debug level, and with names that try to write lines of their own; commands print them no better."""
    text = swept.gateway.log.read_text()
    objects = [json.loads(line) for line in text.splitlines() if '"level"' in line or "forged" in line]

    assert len(objects) > 30
    assert all(item["event"] != "forged" for item in objects)
    for shown in [text, *(printed.decode() for printed in swept.printed.values())]:
        assert not set(shown) & set("\r\x1b\x07\x9b\u2028\u202e\u200b\0")
    for record in swept.gateway.records():
        assert len(json.dumps(record)) < 20_000
