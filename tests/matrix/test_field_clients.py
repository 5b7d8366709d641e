"""Field faults of clients and of the gateway itself: limits, headers, sessions, records, the end."""

from __future__ import annotations

import asyncio
import base64
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import wire
from tests.kit.clients import LegacySession, ask, connect, modern, modern_headers, post
from tests.kit.field import field, scripted
from tests.kit.gateway import Gateway, Json, eventually, running_in, serving

KEYS = {"alice": "alice-" + "a" * 40, "bob": "bob-" + "b" * 40}
ALICE = ("Authorization", f"Bearer {KEYS['alice']}")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One gateway with two clients, small pages and servers of different speed."""
    folder = tmp_path_factory.mktemp("field")
    config = {
        "servers": {
            "first": field(folder / "first", "--era", "modern"),
            "late": scripted("slow=0.3"),
            "dying": scripted("exit-on-call=7"),
            "mute": scripted("silent-on-call", timeouts={"call": "500ms"}),
        },
        "clients": {name: {"key": key} for name, key in KEYS.items()},
        "policies": [
            {
                "name": "a",
                "clients": ["alice"],
                "allow": ["*/*"],
                "deny": ["first/changed"],
                "limits": [{"rate": "1/hour", "tools": ["first/get"]}],
            },
            {"name": "b", "clients": ["bob"], "allow": ["late/*"]},
        ],
        "naming": {"page_size": 3},
    }
    with serving(folder / "gateway", config) as running:
        running.await_servers("first", "late", "dying", "mute")
        yield running


def named(gateway: Gateway, event: str, **facts: object) -> list[Json]:
    """Return the audit records of an event whose outcome or decision has these members."""
    return [
        record
        for record in gateway.records()
        if record["event"] == event
        and facts.items() <= {**record.get("outcome", {}), **record.get("decision", {})}.items()
    ]


async def test_a_megabyte_and_a_half_passes_and_more_than_the_limit_is_413_with_a_message(gateway: Gateway) -> None:
    """G026: before it is parsed."""
    data = base64.b64encode(b"\x01" * 1_125_000).decode()
    request = modern("tools/call", {"name": "late__echo", "arguments": {"data": data}}, authorization=ALICE[1])
    assert (await ask(gateway.port, request)).result["structuredContent"] == {"data": data}

    reply = await ask(gateway.port, post(b"[" * (4 * 2**20 + 1), [ALICE]))
    assert reply.status == 413
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.message["jsonrpc"] == "2.0"
    assert reply.code < 0


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_walking_a_list_in_small_pages_ends_and_is_always_the_same(gateway: Gateway, era: wire.EraName) -> None:
    """G058, G061: every page differs, nothing is missing or doubled, a bad cursor is invalid."""
    walks = []
    async with wire.http_client(gateway.url, era, KEYS["alice"]) as client:
        for _ in range(5):
            names: list[str] = []
            cursors: list[str] = []
            params: Json = {}
            for _ in range(40):
                page = (await client.request("tools/list", params)).result
                assert 0 < len(page["tools"]) <= 3
                names += [tool["name"] for tool in page["tools"]]
                if "nextCursor" not in page:
                    break
                cursors.append(page["nextCursor"])
                params = {"cursor": page["nextCursor"]}
            walks.append(names)
            assert "nextCursor" not in page
            assert len(set(cursors)) == len(cursors)
        bad = await client.request("tools/list", {"cursor": cursors[0][:-2] + "xx"})

    assert all(walk == walks[0] for walk in walks)
    assert len(set(walks[0])) == len(walks[0]) > 40
    assert bad.error["code"] == -32602


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_without_an_id_never_runs_and_is_recorded(gateway: Gateway, era: str) -> None:
    """G066."""
    session = LegacySession(gateway.port, [ALICE])
    await session.begin()
    before = len(gateway.records())
    params: Json = {"name": "first__incr", "arguments": {}}
    if era == "modern":
        params["_meta"] = wire.modern_meta()
        message = {"jsonrpc": "2.0", "method": "tools/call", "params": params}
        reply = await ask(gateway.port, post(message, [*modern_headers("tools/call", params), ALICE]))
    else:
        reply = await ask(gateway.port, session.notification("tools/call", params))

    assert (reply.status, reply.code) == (400, -32600)
    eventually(lambda: len(gateway.records()) > before, "a record of it")
    assert not [record for record in gateway.records()[before:] if record["event"] == "call.start"]


CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first__incr","arguments":{}}}'
NO_MESSAGES = [
    (f" \n[{CALL}]", -32600),
    ("[]", -32600),
    *((CALL.replace('"id":1', f'"id":{wrong}'), -32600) for wrong in ("null", "1.5", "true", "[1]")),
    (CALL.replace('"name":', '"name":"late__whoami","name":'), -32700),
    (CALL.replace('"method":', '"method":"ping","method":'), -32700),
    (CALL.replace('"arguments":{}', '"arguments":{"a":{"b":1,"b":2}}'), -32700),
    ("[" * 200_000, -32700),
    *(
        (CALL.replace('"arguments":{}', f'"arguments":{{"n":{odd}}}'), -32700)
        for odd in ("1" * 5000, "NaN", "1e400", "Infinity")
    ),
    ("\ufeff" + CALL, -32700),
]


async def test_what_is_no_single_message_never_runs_and_is_recorded(gateway: Gateway) -> None:
    """G064, G065, G045, G078."""
    session = LegacySession(gateway.port, [ALICE])
    await session.begin()
    before = len(gateway.records())
    bodies = [(text.encode(), code) for text, code in NO_MESSAGES] + [(CALL.encode("utf-16"), -32700)]
    for body, code in bodies:
        reply = await ask(gateway.port, post(body, session.head()))
        assert (reply.status, reply.code, reply.message["id"]) == (400, code, None), body[:80]

    def reasons() -> set[str]:
        events = [record for record in gateway.records()[before:] if record["event"] == "security.bad_json"]
        return {record["security"]["reason"] for record in events}

    eventually(lambda: {"batch", "jsonrpc", "duplicate_key"} <= reasons(), "records of them")
    assert not [record for record in gateway.records()[before:] if record["event"].startswith("call.")]
    assert "isError" not in (await session.ask("tools/call", {"name": "late__whoami", "arguments": {}})).result


SENTINEL = "=?base64?" + base64.b64encode(b"first__incr").decode() + "?="


@pytest.mark.parametrize(
    ("names", "status"),
    [
        (["late__whoami"], 200),
        (["=?base64?" + base64.b64encode(b"late__whoami").decode() + "?="], 200),
        (["first__incr"], 400),
        ([SENTINEL], 400),
        (["LATE__WHOAMI"], 400),
        (["late__whoami", "late__whoami"], 400),
        (["late__whoami", "first__incr"], 400),
        (["=?base64?!!!?="], 400),
        ([""], 400),
        ([], 400),
    ],
)
async def test_the_name_in_the_header_must_be_the_one_in_the_body(
    gateway: Gateway, names: list[str], status: int
) -> None:
    """G067: and the refusal is recorded, charged to nobody's tool."""
    before = len(gateway.records())
    params: Json = {"name": "late__whoami", "arguments": {}, "_meta": wire.modern_meta()}
    head = [pair for pair in modern_headers("tools/call", params) if pair[0] != "mcp-name"]
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    reply = await ask(gateway.port, post(message, [*head, ALICE, *(("Mcp-Name", name) for name in names)]))

    assert reply.status == status
    if status == 400:
        if len(names) > 1:
            # A header that may stand once only is refused before anything else, and no tool is known yet.
            assert reply.code == -32600
            return
        assert reply.code == -32020
        eventually(lambda: len(gateway.records()) > before, "a record of it")
        assert {record["event"] for record in gateway.records()[before:]} <= {"security.header_mismatch", "list.served"}


async def test_every_refusal_has_one_record_with_its_own_reason(gateway: Gateway) -> None:
    """G105, G109: who, what by both names, where, and how it ended."""
    async with wire.http_client(gateway.url, "modern", KEYS["alice"]) as client, asyncio.TaskGroup() as group:
        assert not (await wire.call(client, "first__get")).result.get("isError")
        begun = len(gateway.records())
        for name, reason in (("dying__echo", "unavailable"), ("mute__echo", "timeout"), ("first__get", "rate_limited")):
            assert (await wire.call(client, name)).refusal["reason"] == reason
        assert (await wire.call(client, "first__changed")).error["code"] == -32602
        gone = group.create_task(wire.call(client, "late__sleep", {"seconds": 30}))
        while gateway.metric("mcp_gateway_inflight_calls", server="late") < 1:
            await asyncio.sleep(0.01)
        gone.cancel()
    session = LegacySession(gateway.port, [ALICE])
    await session.begin()
    await ask(gateway.port, post([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], session.head()))
    await ask(gateway.port, post({}, [("Authorization", "Bearer wrong")]))
    await ask(
        gateway.port, modern("tools/call", {"name": "first__get"}, authorization=ALICE[1], mcp_name="first__incr")
    )

    def told() -> list[str]:
        ends = [record for record in gateway.records()[begun:] if record["event"] in ("call.end", "call.denied")]
        others = [
            record["event"]
            for record in gateway.records()[begun:]
            if record["event"].startswith(("auth.", "security."))
        ]
        return [*(record["outcome"]["error_type"] for record in ends), *others]

    eventually(lambda: "auth.failed" in told() and "security.header_mismatch" in told(), "the last of them")
    reasons = told()
    for reason in (
        "unavailable",
        "timeout",
        "rate_limited",
        "unknown_name",
        "cancelled",
        "auth.failed",
        "security.header_mismatch",
    ):
        assert reasons.count(reason) == 1, (reason, reasons)
    end = next(
        record for record in gateway.records()[begun:] if record["event"] == "call.end" and record["server"] == "dying"
    )
    assert end["tool"]["name"] == "echo"
    assert end["tool"]["exposed"] == "dying__echo"
    assert end["principal"]["id"] == "key:alice"
    assert end["outcome"]["dur_us"] > 0


async def test_sessions_that_are_never_ended_are_bounded_and_leave_nothing(tmp_path: Path) -> None:
    """G037: hundreds of handshakes, processes of their own for some, memory as before."""
    config = {
        "servers": {"own": field(tmp_path / "own", isolation="session", max_instances=4)},
        "limits": {"sessions": 20},
    }
    with serving(tmp_path / "gateway", config) as gateway:
        gateway.await_servers("own")
        catalog = running_in(tmp_path / "own")

        async def handshakes(count: int) -> LegacySession:
            for _ in range(count):
                session = LegacySession(gateway.port)
                assert (await session.begin()).status == 200
            return session

        for _ in range(6):
            session = await handshakes(1)
            assert "isError" not in (await session.ask("tools/call", {"name": "own__incr", "arguments": {}})).result
        assert len(running_in(tmp_path / "own") - catalog) == 4
        await handshakes(100)
        before = memory(gateway.pid)
        await handshakes(300)

        assert gateway.metric("mcp_gateway_sessions") == 20
        assert memory(gateway.pid) - before < 10 * 2**20
        eventually(lambda: running_in(tmp_path / "own") == catalog, "the processes of ended sessions are gone", 10)
        last = await handshakes(1)
        assert "isError" not in (await last.ask("tools/call", {"name": "own__incr", "arguments": {}})).result
        assert (await ask(gateway.port, last.delete())).status == 204
        eventually(lambda: running_in(tmp_path / "own") == catalog, "the process of the session is gone", 10)


def memory(pid: int) -> int:
    """Return the bytes a process has in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def test_without_a_record_there_is_no_call_and_the_log_recovers_by_itself(tmp_path: Path) -> None:
    """G107: the disk takes no more, then takes it again."""
    with serving(
        tmp_path / "gateway", {"servers": {"counter": field(tmp_path / "counter", "--era", "modern")}}
    ) as gateway:
        gateway.await_servers("counter")
        async with wire.http_client(gateway.url, "modern") as client:
            assert (await wire.call(client, "counter__incr")).result["content"][0]["text"] == "1"
            resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
            try:
                refused = await wire.call(client, "counter__incr")
                assert refused.refusal["reason"] == "audit_unavailable"
                eventually(lambda: gateway.admin("/readyz")[0] == 503, "not ready")
                assert gateway.metric("mcp_gateway_audit_write_errors_total") > 0
            finally:
                resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            async with asyncio.timeout(10):
                while (answer := await wire.call(client, "counter__incr")).result.get("isError"):
                    await asyncio.sleep(0.1)

        assert answer.result["content"][0]["text"] == "2"
        assert gateway.admin("/readyz")[0] == 200
    verified = gateway.cli("audit", "verify", gateway.audit)
    assert verified.returncode == 0, verified.stdout


async def test_a_reload_leaves_calls_in_flight_and_a_stop_does_not_wait_for_open_streams(tmp_path: Path) -> None:
    """G128, G029: streams end cleanly, and the whole is over in a few seconds."""
    servers: Json = {"kept": scripted("--era", "modern")}
    with serving(tmp_path / "gateway", {"servers": servers}) as gateway:
        gateway.await_servers("kept")
        session = LegacySession(gateway.port)
        await session.begin()
        async with (
            wire.http_client(gateway.url, "modern") as client,
            connect(gateway.port) as stream,
            asyncio.TaskGroup() as group,
        ):
            before = (await wire.call(client, "kept__whoami")).result["structuredContent"]["pid"]
            slow = group.create_task(wire.call(client, "kept__sleep", {"seconds": 1}))
            while gateway.metric("mcp_gateway_inflight_calls", server="kept") < 1:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(gateway.reload, {"servers": servers | {"more": scripted()}})
            assert (await slow).result["content"][0]["text"] == "slept"
            assert (await wire.call(client, "kept__whoami")).result["structuredContent"]["pid"] == before

            await stream.send(session.get())
            assert (await stream.head())[0] == 200
            gateway.terminate()
            async with asyncio.timeout(5):
                # A stream that is cut off instead of ended fails to be read.
                assert b"" not in [chunk async for chunk in stream.chunks()]
            assert await asyncio.to_thread(gateway.wait) == 0
