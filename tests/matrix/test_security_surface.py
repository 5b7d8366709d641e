"""What strangers, clients with few rights and floods of nonsense get from a whole gateway: nothing they should not."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator
from itertools import product
from typing import Final

import pytest

from tests.kit import wire
from tests.kit.gateway import Gateway, serving
from tests.kit.peers import notes
from tests.kit.wire import EraName, HttpClient, Json, every

ALICE, BOB = "alice-" + "a" * 40, "bob-" + "b" * 40
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
LIST: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

OPEN_ROUTES: Final[set[tuple[str, str]]] = set()
"""(method, path) that answer a stranger on the endpoint's port: none."""

METHODS = ("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "PROPFIND")
PATHS = (
    "/",
    "/mcp",
    "/mcp/",
    "/mcp/analysts",
    "/mcp/nothing",
    "/mcp/metrics",
    "/healthz",
    "/readyz",
    "/metrics",
    "/status",
    "/tools",
    "/call",
    "/reload",
    "/sse",
    "/messages",
    "/mcp_message",
    "/admin",
    "/debug/pprof",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-authorization-server",
    "//mcp",
    "/mcp/../status",
    "/mcp/%2e%2e/status",
    "/mcp%2f..%2fstatus",
    "/MCP",
)

TRUSTED_ELSEWHERE = (
    "x-internal",
    "x-internal-request",
    "x-internal-auth",
    "x-internal-token",
    "x-admin",
    "x-admin-user",
    "x-auth-user",
    "x-authenticated",
    "x-authenticated-user",
    "x-authenticated-userid",
    "x-auth-request-user",
    "x-auth-request-email",
    "x-auth-token",
    "x-access-token",
    "x-api-key",
    "api-key",
    "x-user",
    "x-user-id",
    "x-user-roles",
    "x-remote-user",
    "remote-user",
    "x-webauth-user",
    "x-forwarded-user",
    "x-forwarded-email",
    "x-forwarded-groups",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-prefix",
    "x-forwarded-client-cert",
    "forwarded",
    "x-real-ip",
    "x-client-ip",
    "x-client-id",
    "true-client-ip",
    "cf-connecting-ip",
    "x-cluster-client-ip",
    "x-original-url",
    "x-rewrite-url",
    "x-original-host",
    "x-host",
    "x-http-method-override",
    "x-method-override",
    "x-principal",
    "x-scope",
    "x-scopes",
    "x-groups",
    "x-role",
    "x-tenant",
    "x-tenant-id",
    "x-contextforge-user",
    "x-contextforge-admin",
    "x-contextforge-server-id",
    "mcp-init-host",
    "mcp-session-owner",
    "router-key",
    "x-mcp-authorized",
    "x-mcp-servername",
    "x-mcp-toolname",
    "x-goog-authenticated-user-email",
    "x-ms-client-principal",
    "proxy-authorization",
    "x-envoy-internal",
    "x-b3-debug",
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Two notes servers; alice may use the first, bob sees one tool of the second."""
    folder = tmp_path_factory.mktemp("surface")
    config = {
        "servers": {name: notes(folder, name).config for name in ("first", "second")},
        "clients": {"alice": {"key": "${ALICE_KEY}"}, "bob": {"key": "${BOB_KEY}"}},
        "policies": [
            {"name": "alice", "clients": ["alice"], "allow": ["any:first/**"], "deny": ["*/delete_*"]},
            {"name": "bob", "clients": ["bob"], "allow": ["second/list_notes"]},
        ],
        "limits": {"requests": "1000000/minute"},
        "auth": {"throttle": {"failures": "100000/minute"}},
    }
    with serving(folder / "gateway", config, {"ALICE_KEY": ALICE, "BOB_KEY": BOB}) as running:
        running.await_servers("first", "second")
        yield running


async def _raw(port: int, head: str, body: bytes = b"") -> tuple[int, bytes]:
    """Send one request as it stands and return status and everything that came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [head, f"Host: localhost:{port}", "Connection: close", f"Content-Length: {len(body)}"]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    async with asyncio.timeout(20):
        data = await reader.read()
    writer.close()
    return int(data.split(b" ", 2)[1]), data


async def test_no_route_answers_a_stranger(gateway: Gateway) -> None:
    """S31, S173, S176: the admin listener's routes are not there, and everything else asks for a key."""
    body = json.dumps(LIST).encode()
    answered = set()
    for method, path in product(METHODS, PATHS):
        status, _ = await _raw(gateway.port, f"{method} {path} HTTP/1.1\r\nContent-Type: application/json", body)
        if status not in (400, 401, 403, 404, 405):
            answered.add((method, path, status))
        if path.startswith("/mcp/") and path.isascii() and "." not in path and "%" not in path:
            assert status == 401, (method, path)

    assert {(method, path) for method, path, _ in answered} == OPEN_ROUTES, answered


async def test_acts_of_the_admin_listener_need_its_own_credential(gateway: Gateway) -> None:
    """S174, S175: neither no key nor a client's moves anything."""
    for key, path in product(("", f"\r\nAuthorization: Bearer {ALICE}"), ("/call", "/reload")):
        head = f"POST {path} HTTP/1.1\r\nContent-Type: application/json{key}"
        status, _ = await _raw(gateway.admin_port, head, b'{"as":"alice","target":"first/whoami","command":"id"}')
        assert status == 401, (path, key)
    for path in ("/spawn", "/servers", "/config", "/test", "/debug"):
        assert (await _raw(gateway.admin_port, f"POST {path} HTTP/1.1"))[0] == 404


async def test_no_header_grants_anything_or_changes_who_is_seen(gateway: Gateway) -> None:
    """S20: without a key 401, with bob's only what bob may, and the audit log knows the real address."""
    body = json.dumps({**LIST, "method": "tools/call", "params": {"name": "first__whoami"}}).encode()
    version = "MCP-Protocol-Version: 2025-11-25\r\nContent-Type: application/json"
    values = ("127.0.0.1", "10.9.8.7", "alice", "true", "admin", ALICE)
    for number, name in enumerate(TRUSTED_ELSEWHERE):
        value = values[number % len(values)]
        assert (await _raw(gateway.port, f"POST /mcp HTTP/1.1\r\n{version}\r\n{name}: {value}", body))[0] == 401, name
    async with wire.http_client(gateway.url, "legacy", BOB) as bob:
        head = {"Authorization": f"Bearer {BOB}", "Mcp-Session-Id": bob.session_id, "Content-Type": "application/json"}
        head |= {name: ALICE if "key" in name else "alice" for name in TRUSTED_ELSEWHERE}
        head |= {"X-Forwarded-For": "10.9.8.7", "X-Real-IP": "10.9.8.7", "Forwarded": "for=10.9.8.7"}
        status, text = await bob.post(body.decode(), head)

    assert len(TRUSTED_ELSEWHERE) >= 60
    assert (status, json.loads(text)["error"]["message"]) == (200, "Unknown tool: first__whoami")
    assert "10.9.8.7" not in json.dumps(gateway.records())


async def _names(client: HttpClient, method: str, key: str) -> list[str]:
    field = {"resources": "uri", "resourceTemplates": "uriTemplate"}.get(key, "name")
    return [str(item[field]) for item in await every(client, method, key)]


@ERAS
async def test_what_is_listed_is_callable_and_nothing_else_is(gateway: Gateway, era: EraName) -> None:
    """S57, S59: over tools, prompts, resources, templates, completion and subscriptions of everybody."""
    async with wire.http_client(gateway.url, era, ALICE) as alice, wire.http_client(gateway.url, era, BOB) as bob:
        lists = [("tools/list", "tools"), ("prompts/list", "prompts"), ("resources/list", "resources")]
        listed = {who: {key: set(await _names(who, method, key)) for method, key in lists} for who in (alice, bob)}
        everything: dict[str, set[str]] = {key: listed[alice][key] | listed[bob][key] for _, key in lists}
        everything["tools"] |= {f"{s}__{t}" for s in ("first", "second") for t in ("delete_note", "add_note", "whoami")}
        everything["prompts"] |= {"first__summarize", "second__summarize"}
        everything["resources"] |= {f"{s}+note://n{n}" for s in ("first", "second") for n in (1, 2)}
        for who, (key, names) in product((alice, bob), everything.items()):
            for name in sorted(names):
                seen = name in listed[who][key] or (key == "resources" and who is alice and name.startswith("first+"))
                for method, params in _uses(key, name, era):
                    answer = await who.request(method, params)
                    said = answer.error["message"] if "error" in answer.message else ""
                    hidden = said == "Resource not found" or said in (
                        f"Unknown tool: {name}",
                        f"Unknown prompt: {name}",
                    )
                    assert hidden is not seen, (method, name, answer.message)


def _uses(key: str, name: str, era: EraName) -> list[tuple[str, Json]]:
    """Return every request that can name a thing of this kind."""
    argument = {"name": "tag", "value": ""}
    match key:
        case "tools":
            return [("tools/call", {"name": name, "arguments": {}})]
        case "prompts":
            ref = {"type": "ref/prompt", "name": name}
            complete: tuple[str, Json] = ("completion/complete", {"ref": ref, "argument": argument})
            return [("prompts/get", {"name": name, "arguments": {"tag": "x"}}), complete]
        case _:
            ref = {"type": "ref/resource", "uri": name}
            uses: list[tuple[str, Json]] = [("completion/complete", {"ref": ref, "argument": argument})]
            uses.append(("resources/read", {"uri": name}))
            return uses + ([("resources/subscribe", {"uri": name})] if era == "legacy" else [])


async def test_a_subscription_acknowledges_only_what_is_visible(gateway: Gateway) -> None:
    """S59: bob hears of nothing that alice may read."""
    uris = ["first+note://n1", "note://n1", "second+note://n1", "nowhere://n1"]
    filters = {"resourceSubscriptions": uris, "toolsListChanged": True}
    meta = wire.modern_meta()
    body = json.dumps(
        {**LIST, "method": "subscriptions/listen", "params": {"_meta": meta, "notifications": filters}}
    ).encode()
    seen = {}
    for key in (ALICE, BOB):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        head = ["POST /mcp HTTP/1.1", f"Host: localhost:{gateway.port}", f"Authorization: Bearer {key}"]
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}", "Accept: text/event-stream"]
        head += [f"MCP-Protocol-Version: {wire.MODERN}", "Mcp-Method: subscriptions/listen"]
        writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        async with asyncio.timeout(20):
            data = await reader.readuntil(b"acknowledged")
            data += await reader.readuntil(b"\n\n")
        seen[key] = {uri for uri in uris if f'"{uri}"'.encode() in data}
        writer.close()

    assert seen == {ALICE: {"first+note://n1", "note://n1"}, BOB: set()}


@ERAS
async def test_unknown_and_hidden_names_differ_in_no_byte(gateway: Gateway, era: EraName) -> None:
    """S60: status, headers and body are the same but for the echoed name."""
    async with wire.http_client(gateway.url, era, BOB) as bob:
        session = {"Mcp-Session-Id": bob.session_id} if era == "legacy" else {}
        answers: dict[str, set[bytes]] = {}
        for _ in range(5):
            for name in ("first__whoami", "first__whoamj", "second__whoami", "no__such_tool"):
                head, body = _call_of(gateway, name, era, session)
                _, data = await _raw(gateway.port, head, body)
                plain = re.sub(rb"Date: [^\r]*\r\n|Content-Length: \d+\r\n", b"", data).replace(name.encode(), b"NAME")
                answers.setdefault(name, set()).add(plain)

    assert len(set.union(*answers.values())) == 1


def _call_of(gateway: Gateway, name: str, era: EraName, session: dict[str, str]) -> tuple[str, bytes]:
    params: Json = {"name": name, "arguments": {}}
    head = {"Authorization": f"Bearer {BOB}", "Content-Type": "application/json", **session}
    head["MCP-Protocol-Version"] = wire.MODERN if era == "modern" else wire.LEGACY
    if era == "modern":
        params["_meta"] = wire.modern_meta()
        head |= {"Mcp-Method": "tools/call", "Mcp-Name": name}
    body = json.dumps({**LIST, "method": "tools/call", "params": params}).encode()
    return "\r\n".join(["POST /mcp HTTP/1.1", *(f"{key}: {value}" for key, value in head.items())]), body


async def test_ten_thousand_made_up_names_make_no_series(gateway: Gateway) -> None:
    """S178, S83: names of tools, prompts, methods and versions, and headers of strangers, are no labels."""

    def series() -> set[str]:
        lines = gateway.admin("/metrics")[1].splitlines()
        return {line.rpartition(" ")[0] for line in lines if line and not line.startswith("#")}

    head = {"Authorization": f"Bearer {BOB}", "Content-Type": "application/json"}
    async with wire.http_client(gateway.url, "legacy", BOB) as bob:
        told = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": wire.INFO}
        assert (await bob.request("initialize", told)).result["protocolVersion"] == "2025-03-26"

        async def storm(first: int, last: int) -> None:
            for number in range(first, last, 50):
                status, text = await bob.post(_array(number), head | {"Mcp-Session-Id": bob.session_id})
                assert (status, text.count('"error"')) == (200, 50)
            for number in range(first, last, 100):
                name = f"x{number}-{os.urandom(4).hex()}"
                strange = {"User-Agent": name, "MCP-Protocol-Version": name, "Mcp-Session-Id": name}
                await bob.post(json.dumps({**LIST, "method": name}), head | strange)
                await bob.post("{}", head | {"Authorization": f"Bearer {name}"})

        await storm(0, 100)
        before = series()
        await storm(100, 10_100)

    # The storm itself is worth an alert.
    alert = {'mcp_gateway_alerts_total{kind="rate"}', 'mcp_gateway_audit_records_total{event="alert.raised"}'}
    assert series() - before <= alert


def _array(first: int) -> str:
    """Return fifty requests of names, methods and resources that do not exist."""
    names = [f"no{number}__{os.urandom(4).hex()}" for number in range(first, first + 50)]
    methods = ("tools/call", "prompts/get", "resources/read", "no/such")
    return json.dumps(
        [
            {**LIST, "id": name, "method": methods[at % 4], "params": {"name": name, "uri": f"{name}:x"}}
            for at, name in enumerate(names)
        ]
    )
