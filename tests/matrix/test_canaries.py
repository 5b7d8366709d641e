"""A canary in every place where a secret can be, and a search of everything that anybody was told or that was written.

``test_security`` looks at keys, variables, headers and URLs; this at the rest: tokens of callers, OAuth towards
servers, secrets in files and in arguments, servers that repeat what they were given, approvals, pins and webhooks.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final
from unittest.mock import patch
from urllib.parse import quote

import pytest

from gateway.cli.main import main
from tests.kit import tokens, wire
from tests.kit.approvals import ask_admin
from tests.kit.echoing import HOW, Echoing
from tests.kit.gateway import Gateway, Json, eventually, free_port, serving
from tests.kit.http_server import Exchange, HttpServer
from tests.kit.http_server import serving as serving_http
from tests.kit.oauth import LOOPBACK, Protected, consent, protected
from tests.kit.secrets import found_in
from tests.kit.wire import EraName

pytestmark = pytest.mark.timeout(150)
"""One world does everything here; on a busy machine that takes longer than one test may."""

SCRIPTED: Final = Path(__file__).parents[1] / "kit" / "stdio_server.py"
LEAKY: Final = """
import os, runpy, sys
said = f"starting with {os.environ['TOKEN']} {os.environ['FILED']} {sys.argv}"
print(said, file=sys.stderr, flush=True)
print(said, flush=True)
if "dies" in sys.argv:
    sys.exit(f"cannot go on: {said}")
sys.argv[0] = SERVER
runpy.run_path(SERVER, run_name="__main__")
"""
"""A server that tells what it was given: on its standard error, and where only MCP may be."""

_PLACES: Final = (
    "key-alice",
    "key-stranger",
    "admin",
    "metrics",
    "sealing",
    "env",
    "env-file",
    "argv",
    "argv-flag",
    "header",
    "userinfo",
    "query",
    "webhook",
    "idp",
    "refresh",
    "client",
    "argument",
    "approval",
    "result",
    "signature",
)
MARKS: Final = {place: f"{place}-~/+{sha256(place.encode()).hexdigest()[:24]}" for place in _PLACES}
ERAS: Final[tuple[EraName, ...]] = ("modern", "legacy")
GITHUB: Final = "ghp_" + sha256(b"result").hexdigest()[:36]
"""Looks like what it is, so that the filter of results finds it."""

HELD: Final = {"gateway.yaml", "secrets"}
"""What a user wrote: the config, and the files that its ``${file:}`` name. Below ``state`` nothing is left out: tokens
of servers, approvals and keys of the gateway's own stand there sealed, or are not among these secrets."""


@dataclass
class Sweep:
    """A gateway that did all it can, and what everybody was told."""

    gateway: Gateway
    marks: dict[str, str] = field(default_factory=lambda: {**MARKS, "github": GITHUB})
    answers: dict[str, bytes] = field(default_factory=dict)
    printed: dict[str, bytes] = field(default_factory=dict)
    webhook: dict[str, bytes] = field(default_factory=dict)
    approver: Json = field(default_factory=dict)

    def answer(self, name: str, *data: object) -> None:
        """Keep what a client was told."""
        self.answers[f"{len(self.answers)} {name}"] = json.dumps(data).encode()

    def written(self) -> dict[str, bytes]:
        """Return every file below the gateway's folder but those that hold secrets by the user's own will."""
        files = [file for file in self.gateway.folder.rglob("*") if file.is_file()]
        inside = [(file, file.relative_to(self.gateway.folder)) for file in files]
        return {str(name): file.read_bytes() for file, name in inside if name.parts[0] not in HELD}


def _file(folder: Path, mark: str) -> str:
    file = folder / "gateway" / "secrets" / mark
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(MARKS[mark] + "\n")
    file.chmod(0o600)
    return f"${{file:secrets/{mark}}}"


def _leaky(folder: Path, *words: str) -> Json:
    script = folder / "leaky.py"
    script.write_text(LEAKY.replace("SERVER", repr(str(SCRIPTED))))
    arguments = ["-I", "-S", str(script), "slow=0", f"--token={MARKS['argv-flag']}", "--api-key", "${ARGV}", *words]
    return {
        "command": sys.executable,
        "args": arguments,
        "env": {"TOKEN": "${ENV}", "FILED": _file(folder, "env-file")},
    }


def _remote(port: int) -> Json:
    pair = f"user:{quote(MARKS['userinfo'], safe='')}"
    url = f"http://{pair}@127.0.0.1:{port}/mcp?key={quote(MARKS['query'], safe='')}"
    return {"url": url, "headers": {"X-Api-Key": "${HEADER}"}}


def _config(folder: Path, remotes: dict[str, HttpServer], wiki: Protected, crm: Protected, hook: int) -> Json:
    own = {"client_id": "me", "client_secret": "${CLIENT}"}
    exchange = {"token_exchange": {**own, "issuer": crm.idp.url}}
    policy: Json = {
        "name": "all",
        "clients": ["*"],
        "allow": ["any:*/**"],
        "deny": [{"tools": "old/log", "when": "args.data != ''"}],
        "approve": [{"tools": "first/fail", "by": ["root"], "hold": "0s", "timeout": "10m"}],
        "duplicates": {"window": "5m", "action": "flag"},
    }
    return {
        "admin": {
            "users": {"root": {"token_sha256": sha256(MARKS["admin"].encode()).hexdigest(), "roles": ROLES}},
            "metrics_token": "${METRICS}",
        },
        "naming": {"page_size": 3},
        "servers": {
            "first": {**_leaky(folder), "asks": ["elicitation"], "results": {"secrets": "redact"}},
            "old": {**_leaky(folder, "--era", "legacy"), "asks": ["elicitation"], "pin": {"mode": "tofu"}},
            "dying": _leaky(folder, "dies"),
            **{name: _remote(server.port) for name, server in remotes.items()},
            "wiki": {"url": wiki.url, "allow_networks": LOOPBACK, "auth": {"authorization_code": {}}},
            "crm": {"url": crm.url, "allow_networks": LOOPBACK, "auth": exchange},
        },
        "clients": {"alice": {"key": _file(folder, "key-alice")}},
        "auth": {"jwt": {"issuer": crm.idp.url, "audience": tokens.AUDIENCE, "jwks_url": f"{crm.idp.url}/jwks"}},
        "policies": [policy],
        "alerts": {
            "sensitive": ["first/*"],
            "to": [f"http://127.0.0.1:{hook}/hook?token={quote(MARKS['webhook'], safe='')}"],
        },
        "state": {"dir": "state", "sealing_keys": ["${SEALING}"]},
        "telemetry": {"log_level": "debug"},
    }


ROLES: Final = ["view", "approve", "pins", "reload"]
_VARIABLES: Final = {
    "ENV": "env",
    "ARGV": "argv",
    "HEADER": "header",
    "METRICS": "metrics",
    "SEALING": "sealing",
    "CLIENT": "client",
    "MCP_GATEWAY_ADMIN_TOKEN": "admin",
}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweep]:
    """Drive a gateway, then leave it running."""
    with asyncio.Runner() as runner:
        context = _running(tmp_path_factory.mktemp("canaries"))
        yield runner.run(context.__aenter__())
        runner.run(context.__aexit__(None, None, None))


@asynccontextmanager
async def _running(folder: Path) -> AsyncIterator[Sweep]:
    heard: list[bytes] = []

    async def hook(exchange: Exchange) -> None:
        heard.append(exchange.body)
        await exchange.answer(204)

    async with AsyncExitStack() as stack:
        servers = {
            "web": Echoing("modern"),
            "webold": Echoing("legacy"),
            "broken": Echoing("modern", broken=True),
            "brokenold": Echoing("legacy", broken=True),
        }
        remotes = {name: await stack.enter_async_context(serving_http(each.script)) for name, each in servers.items()}
        wiki, crm = [await stack.enter_async_context(protected()) for _ in range(2)]
        for each in (wiki, crm):
            each.idp.mark = MARKS["idp"]
            each.idp.issues = {"expires_in": 3600, "refresh_token": MARKS["refresh"]}
        receiver = await stack.enter_async_context(serving_http(hook))
        variables = {name: MARKS[mark] for name, mark in _VARIABLES.items()} | {"PYTHONFAULTHANDLER": "1"}
        port = free_port()
        url = f"http://127.0.0.1:{port}/mcp"
        config = {
            **_config(folder, remotes, wiki, crm, receiver.port),
            # Browsers are sent back to the address that clients know.
            "listen": {"port": port, "public_url": url},
        }
        context = serving(folder / "gateway", config, variables)
        gateway = await asyncio.to_thread(context.__enter__)
        gateway.port, gateway.url = port, url
        stack.push_async_callback(asyncio.to_thread, context.__exit__, None, None, None)
        gateway.token = MARKS["admin"]
        sweep = Sweep(gateway)
        await _drive(sweep, wiki, crm)
        await asyncio.to_thread(_operate, sweep)
        await asyncio.to_thread(_crash, sweep)
        sweep.webhook = {str(number): body for number, body in enumerate(heard)}
        yield sweep


async def _drive(sweep: Sweep, wiki: Protected, crm: Protected) -> None:
    gateway, marks = sweep.gateway, sweep.marks
    await asyncio.to_thread(gateway.await_servers, "first", "old", "web", "webold", "crm")
    await asyncio.to_thread(eventually, lambda: _server(gateway, "wiki").get("consent_url"), "wiki waits for consent")
    page = await consent(_server(gateway, "wiki")["consent_url"])
    sweep.answer("consent", *page)
    marks["oauth-state"] = wiki.idp.states[0]
    marks["verifier"] = next(form["code_verifier"] for form in wiki.idp.forms if "code_verifier" in form)
    await asyncio.to_thread(gateway.await_servers, "wiki")
    token = tokens.token({"iss": crm.idp.url, "sub": "bobby", "jti": MARKS["signature"]})
    marks["jwt"], marks["jwt-signature"] = token, token.rpartition(".")[2]
    for era in ERAS:
        for who, key in (("alice", MARKS["key-alice"]), ("bobby", token)):
            async with wire.http_client(gateway.url, era, key) as client:
                await _call(sweep, client, f"{who} {era}")
    for key in (MARKS["key-stranger"], token[:-4] + "AAAA", f"{token}x", f"eyJ{MARKS['signature']}"):
        head = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        async with wire.http_client(gateway.url, "modern") as client:
            sweep.answer("stranger", *await client.post('{"jsonrpc":"2.0","id":1,"method":"tools/list"}', head))


def _server(gateway: Gateway, name: str) -> Json:
    found: Json = gateway.status()["servers"][name]
    return found


async def _call(sweep: Sweep, client: wire.HttpClient, who: str) -> None:
    """Do what a client can do, and keep all it is told but what it said or asked for itself."""
    if client.session_id:
        sweep.marks[f"session {who}"] = client.session_id
    marked = {"text": MARKS["argument"], "data": MARKS["argument"], "who": who}
    for server in ("first", "old", "web", "webold", "wiki", "crm"):
        # What comes back is the argument, which the client knows.
        await wire.call(client, f"{server}__echo", marked)
    for tool in ("first__progress", "old__log", "old__error", "old__fail", "dying__echo", "no__such", "broken__echo"):
        sweep.answer(f"{who} {tool}", (await wire.call(client, tool, marked)).message)
    for server in ("web", "webold"):
        for how in HOW:
            answer = await wire.call(client, f"{server}__echo", {**marked, "how": how})
            sweep.answer(f"{who} {server} {how}", answer.status, answer.message)
            # What works in between keeps the gateway from leaving the server alone for a while.
            assert "isError" not in (await wire.call(client, f"{server}__echo", marked)).result, how
    refused = await wire.call(client, "first__fail", {"text": MARKS["approval"], "who": who})
    sweep.answer(f"{who} approval", refused.message)
    assert refused.refusal["reason"] == "approval_required"
    filtered = await wire.call(client, "first__echo", {"text": GITHUB, "who": who})
    sweep.answer(f"{who} filtered", filtered.message)
    assert "redacted" in filtered.result["content"][0]["text"]
    meta = {} if client.session_id else wire.modern_meta({"elicitation": {"form": {}}})
    asked = await client.request("tools/call", {"name": "first__ask", "arguments": {"who": who}, "_meta": meta})
    if "requestState" in asked.result:
        sweep.marks[f"requestState {who}"] = asked.result["requestState"]
        again = {"name": "first__ask", "arguments": {"who": "another"}, "requestState": asked.result["requestState"]}
        sweep.answer(f"{who} state", (await client.request("tools/call", {**again, "_meta": meta})).message)
    listed = (await client.request("tools/list", {})).result
    sweep.marks[f"cursor {who}"] = listed.pop("nextCursor")
    sweep.answer(f"{who} list", listed)
    sweep.answer(f"{who} cursor", (await client.request("tools/list", {"cursor": "x" + MARKS["argument"]})).message)


COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    ("status",),
    ("status", "--json"),
    ("check",),
    ("check", "--live", "--json"),
    ("tools", "--as", "alice", "--json"),
    ("pins", "show", "--json"),
    ("pins", "show", "old"),
    ("pins", "show", "web"),
    ("audit", "tail", "--json"),
    ("audit", "query", "--json"),
    ("audit", "query", "--outcome", "tool_error"),
    ("audit", "export", "--format", "ocsf"),
    ("audit", "export", "--format", "cef"),
    ("audit", "verify"),
    ("call", "web/echo", json.dumps({"how": "error"}), "--as", "alice"),
    ("call", "web/echo", json.dumps({"how": "html"}), "--as", "alice"),
    ("call", "first/fail", json.dumps({"text": MARKS["approval"]}), "--as", "alice"),
    ("policy", "explain", "alice", "first/echo"),
    ("snippet", "cursor"),
    ("schema",),
)


def _operate(sweep: Sweep) -> None:
    """Look at it as operators do: every command, the admin listener, a decision, another config."""
    gateway = sweep.gateway
    for path in ("/status", "/metrics", "/healthz", "/readyz", "/nothing"):
        sweep.answer(path, *gateway.admin(path))
    code, sweep.approver = ask_admin(gateway, "/approvals", token=MARKS["admin"])
    assert code == 200
    first, second = [row["id"] for row in sweep.approver["approvals"][:2]]
    for command in (*COMMANDS, ("approvals", "approve", first, "--json"), ("approvals", "deny", second, "--json")):
        _command(sweep, command)
    changed = json.loads(gateway.file.read_text())
    changed["servers"]["web"]["headers"] |= {"X-More": MARKS["header"]}
    changed["servers"]["old"]["args"] += [MARKS["argv"]]
    gateway.reload(changed)
    eventually(lambda: _server(gateway, "old").get("pin") == "quarantined", "the other arguments are noticed")
    for words in (("pins", "show", "--json"), ("pins", "show", "old"), ("status",), ("check",)):
        _command(sweep, words)


def _command(sweep: Sweep, words: tuple[str, ...]) -> None:
    """Run a command in this process, which is what a process of its own would print."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), patch.dict(os.environ, sweep.gateway.environment):
        code = main([*words, "-c", str(sweep.gateway.file)])
    sweep.printed[f"{len(sweep.printed)} {' '.join(words[:3])}"] = printed.getvalue().encode()
    assert code in (0, 1), (words, printed.getvalue())


def _crash(sweep: Sweep) -> None:
    """Let it dump what it does when it ends, and come back."""
    gateway = sweep.gateway
    os.kill(gateway.pid, signal.SIGABRT)
    assert gateway.wait() == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in gateway.log.read_text()
    gateway.start()
    sweep.answer("/status again", gateway.status())


def test_no_secret_is_in_anything_that_is_written(swept: Sweep) -> None:
    """S46, S151, S153, S155: logs at debug level, records, pins, kept lists, tokens, approvals and crash output."""
    written = swept.written()
    assert {"gateway.log", "state/pins.json"} <= set(written)
    assert any(name.startswith("state/credentials/") for name in written)
    assert found_in(written, swept.marks) == set()
    for name in written:
        mode = stat.S_IMODE((swept.gateway.folder / name).stat().st_mode)
        assert name == "gateway.log" or name.endswith("public.pem") or mode == 0o600, name


def test_no_secret_is_in_any_answer_to_a_client(swept: Sweep) -> None:
    """S36, S151: whatever servers repeat of what they were given, and whatever is wrong with a credential."""
    assert found_in(swept.answers, swept.marks) == set()
    for server in ("web", "webold"):
        for how in ("error", "tool"):
            repeated = [data for name, data in swept.answers.items() if name.endswith(f" {server} {how}")]
            assert len(repeated) == 4
            assert all(data.count(b"***") >= 3 for data in repeated), repeated
    folder = str(swept.gateway.folder).encode()
    assert [name for name, data in swept.answers.items() if folder in data and "/status" not in name] == []


def test_no_secret_is_in_what_operators_and_webhooks_are_told(swept: Sweep) -> None:
    """S151: arguments of calls that wait are shown to approvers, and to nobody else."""
    to_approvers = {name for name in swept.printed if " approvals " in name}
    printed = {name: data for name, data in swept.printed.items() if name not in to_approvers}
    assert len(to_approvers) == 2
    assert found_in(printed, swept.marks) == set()
    assert len(swept.webhook) >= 4
    assert found_in(swept.webhook, swept.marks) == set()
    told = {"list": json.dumps(swept.approver).encode()} | {name: swept.printed[name] for name in to_approvers}
    assert {name for name, _ in found_in(told, swept.marks)} == {"approval"}
