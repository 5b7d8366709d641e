"""One client, server or disk in trouble, and everybody else beside it: nothing crosses over, nothing is lost."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from tests.kit import wire
from tests.kit.gateway import Gateway, Json, eventually, serving
from tests.kit.wire import EraName, HttpClient

SCRIPTED = Path(__file__).parents[1] / "kit" / "stdio_server.py"
KEYS: Final = {f"client-{number}": f"key-{number}-" + "k" * 40 for number in range(5)}
CLIENTS, CALLS = 50, 44


def scripted(*modes: str, **settings: object) -> Json:
    """Return the config of a scripted server."""
    return {"command": sys.executable, "args": ["-I", "-S", str(SCRIPTED), *modes], **settings}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A modern server, a legacy one that all principals share, and one that answers no call."""
    config: Json = {
        "servers": {
            "modern": scripted("slow=0.001", "--era", "modern"),
            "legacy": scripted("slow=0.001", "--era", "legacy", isolation="shared"),
            "stateful": scripted("slow=0", "--era", "legacy"),
            "hanging": scripted("slow=0", "silent-on-call"),
            "twice": scripted("slow=0", "duplicate"),
            "wrongid": scripted("slow=0", "wrongid", timeouts={"call": "1s"}),
        },
        "clients": {name: {"key": key} for name, key in KEYS.items()},
        "limits": {"requests": "1000000/minute", "in_flight": 1000},
    }
    with serving(tmp_path_factory.mktemp("isolation"), config) as running:
        running.await_servers(*config["servers"])
        yield running


@asynccontextmanager
async def clients(gateway: Gateway) -> AsyncIterator[list[tuple[HttpClient, EraName]]]:
    """Connect fifty clients of five principals, every other one legacy, over one pool of connections each."""
    keys = list(KEYS.values())
    connector = aiohttp.TCPConnector(limit=2 * CLIENTS)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=30)) as session:
        made: list[tuple[HttpClient, EraName]] = []
        for number in range(CLIENTS):
            era: EraName = "legacy" if number % 2 else "modern"
            made.append((HttpClient(session, gateway.url, era, keys[number % len(keys)]), era))
            await made[-1][0].open()
        yield made
        for client, _ in made:
            await client.close()


async def test_fifty_clients_with_the_same_ids_and_tokens_get_their_own_answers(gateway: Gateway) -> None:
    """S92, S94: 2,200 calls of both eras to servers of both eras, all with id 1 and token 1, some cancelled."""
    outcomes: Counter[str] = Counter()

    async def work(number: int, client: HttpClient, era: EraName) -> None:
        for count in range(CALLS):
            server = ("modern", "legacy")[count // 2 % 2]
            nonce = f"{number}-{count}"
            if count % 11 == 5:
                await _cancelled(client, era, server)
                outcomes["cancelled"] += 1
            elif count % 11 == 7:
                await _progress(client, server, steps=2 + number % 7)
                outcomes["progress"] += 1
            else:
                params = {"name": f"{server}__echo", "arguments": {"nonce": nonce}}
                answer = await client.request("tools/call", params, request_id="1")
                assert answer.message["id"] == "1"
                assert answer.result["structuredContent"] == {"nonce": nonce}
                outcomes["echoed"] += 1

    async with clients(gateway) as connected, asyncio.timeout(40), asyncio.TaskGroup() as group:
        for number, (client, era) in enumerate(connected):
            group.create_task(work(number, client, era))

    assert sum(outcomes.values()) == CLIENTS * CALLS >= 2_000
    assert outcomes["cancelled"] == outcomes["progress"] == 200
    eventually(lambda: gateway.metric("mcp_gateway_inflight_calls") == 0, "no place is leaked")
    for server in ("modern", "legacy"):
        assert gateway.metric("mcp_gateway_downstream_protocol_errors_total", server=server) == 0


async def _cancelled(client: HttpClient, era: EraName, server: str) -> None:
    """Start a long call and take it back the way of the era."""
    params = {"name": f"{server}__sleep", "arguments": {"seconds": 20}}
    call = asyncio.ensure_future(client.request("tools/call", params, request_id="1"))  # noqa: TID251 - cancelled here.
    await asyncio.sleep(0.01)
    if era == "modern":
        call.cancel()
        await asyncio.wait([call])
        return
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "1"}}
    for _ in range(100):
        await client.post(json.dumps(body), client.head)
        done, _pending = await asyncio.wait([call], timeout=0.05)
        if done:
            break
    assert call.result().message == {}


async def _progress(client: HttpClient, server: str, steps: int) -> None:
    params: Json = {"name": f"{server}__progress", "arguments": {"steps": steps}, "_meta": {"progressToken": 1}}
    answer = await client.request("tools/call", params, request_id="1")
    told = [notice["params"] for notice in answer.notices]

    assert answer.result["content"] == [{"type": "text", "text": "done"}]
    assert {item["progressToken"] for item in told} == {1}
    assert told[-1]["progress"] == steps - 1
    assert [item["progress"] for item in told] == sorted({item["progress"] for item in told})


async def test_answers_to_nothing_that_was_asked_are_dropped_and_counted(gateway: Gateway) -> None:
    """S93: a second answer, and one whose id is a string where a number was asked, reach nobody."""
    async with wire.http_client(gateway.url, "modern", KEYS["client-0"]) as client:
        for number in range(20):
            answer = await wire.call(client, "twice__echo", {"n": number})
            assert answer.result["structuredContent"] == {"n": number}
        assert _refusal((await wire.call(client, "wrongid__echo")).result) == "timeout"

    for server in ("twice", "wrongid"):
        assert gateway.metric("mcp_gateway_downstream_protocol_errors_total", server=server, kind="unknown_id") > 0


async def test_what_one_principal_does_to_a_stateful_server_no_other_sees(gateway: Gateway) -> None:
    """S101: a legacy server has one process per principal by default, shared by the clients of that principal."""
    pids: dict[str, set[int]] = {name: set() for name in KEYS}
    for name, key in list(KEYS.items())[:2] * 2:
        async with wire.http_client(gateway.url, "modern", key) as client:
            pids[name].add((await wire.call(client, "stateful__whoami")).result["structuredContent"]["pid"])
    first, second = list(pids.values())[:2]

    assert (len(first), len(second)) == (1, 1)
    assert first != second


async def test_a_hundred_calls_to_a_server_that_hangs_delay_nobody(gateway: Gateway) -> None:
    """S126: those within its bound wait, the rest are refused at once, and others answer as ever."""
    names = list(KEYS.values())
    async with wire.http_client(gateway.url, "modern", names[0]) as stuck, asyncio.TaskGroup() as group:
        calls = [group.create_task(wire.call(stuck, "hanging__echo")) for _ in range(100)]
        while gateway.metric("mcp_gateway_inflight_calls", server="hanging") < 64:
            await asyncio.sleep(0.02)
        async with wire.http_client(gateway.url, "modern", names[1]) as other, asyncio.timeout(20):
            for server in ("modern", "legacy") * 10:
                assert (await wire.call(other, f"{server}__echo", {"n": 1})).result["structuredContent"] == {"n": 1}
            assert (await other.request("tools/list")).result["tools"]
        assert not any(
            call.done() and not call.cancelled() and "result" in call.result().message for call in calls[:64]
        )
        for call in calls:
            call.cancel()
    eventually(lambda: gateway.metric("mcp_gateway_inflight_calls", server="hanging") == 0, "places are given back")


def _audit_config() -> Json:
    return {"servers": {"scripted": scripted("slow=0")}}


def _refusal(result: Json) -> str:
    return str(result.get("_meta", {}).get("dev.mcp-gateway/refusal", {}).get("reason", ""))


@contextmanager
def _trouble(gateway: Gateway, kind: str) -> Iterator[None]:
    """Take the audit log's disk away for a block."""
    aside = gateway.folder / "aside"
    if kind == "full":
        resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        yield
        resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return
    gateway.audit.rename(aside)
    if kind == "replaced":
        gateway.audit.write_text("no directory")
    yield
    gateway.audit.unlink(missing_ok=True)
    aside.rename(gateway.audit)


async def _until(gateway: Gateway, client: HttpClient, *, refused: bool) -> None:
    async with asyncio.timeout(20):
        while (_refusal((await wire.call(client, "scripted__echo")).result) == "audit_unavailable") is not refused:
            await asyncio.sleep(0.02)
    assert gateway.admin("/readyz") == ((503, "audit_unavailable\n") if refused else (200, "ready\n"))


async def test_without_an_audit_log_no_call_is_made_and_both_come_back_by_themselves(tmp_path: Path) -> None:
    """S158: a directory moved away or replaced, and a disk that is full, under a running gateway."""
    received = tmp_path / "received"
    config = {"servers": {"scripted": scripted("slow=0", f"record={received}")}}
    with serving(tmp_path / "gateway", config) as gateway:
        gateway.await_servers("scripted")
        async with wire.http_client(gateway.url, "modern") as client:
            for kind in ("moved", "replaced", "full"):
                await _until(gateway, client, refused=False)
                with _trouble(gateway, kind):
                    await _until(gateway, client, refused=True)
                    for tool in ("echo", "change", "fail"):
                        result = (await wire.call(client, f"scripted__{tool}", {"unrecorded": True})).result
                        assert _refusal(result) == "audit_unavailable", kind
                await _until(gateway, client, refused=False)
        events = Counter(record["event"] for record in gateway.records())

    assert events["audit.gap"] == 3
    assert b"unrecorded" not in received.read_bytes()
    verified = gateway.cli("audit", "verify", gateway.audit)
    assert verified.returncode == 0, verified.stdout


async def test_calls_that_a_crash_cut_off_are_closed_as_orphans_at_the_next_start(tmp_path: Path) -> None:
    """S162, S163: by the id of each, once, in a chain that still verifies."""
    with serving(tmp_path / "gateway", _audit_config()) as gateway:
        gateway.await_servers("scripted")
        async with wire.http_client(gateway.url, "modern") as client, asyncio.TaskGroup() as group:
            calls = [group.create_task(_lost(client)) for _ in range(3)]
            while gateway.metric("mcp_gateway_inflight_calls", server="scripted") < 3:
                await asyncio.sleep(0.01)
            gateway.kill()
        assert all(call.result() for call in calls)
        gateway.start()
        records = gateway.records()
        started = [record["call_id"] for record in records if record["event"] == "call.start"]
        orphaned = [record["call_id"] for record in records if record["event"] == "call.orphaned"]

        assert len(started) == 3
        assert sorted(orphaned) == sorted(started)
    assert gateway.cli("audit", "verify", gateway.audit).returncode == 0


async def _lost(client: HttpClient) -> bool:
    try:
        await wire.call(client, "scripted__sleep", {"seconds": 20})
    except aiohttp.ClientError:
        return True
    return False


async def test_a_thousand_wrong_keys_are_throttled_and_lock_nobody_out(tmp_path: Path) -> None:
    """S35, S154: 20 a minute are told so, the rest to wait; good keys pass; the log is not filled."""
    config = {**_audit_config(), "clients": {"ann": {"key": "${ANN_KEY}"}}}
    key = "ann-" + "a" * 40
    with serving(tmp_path / "gateway", config, {"ANN_KEY": key}) as gateway:
        gateway.await_servers("scripted")
        head = {"Content-Type": "application/json", "MCP-Protocol-Version": "2025-11-25"}
        async with wire.http_client(gateway.url, "modern", key) as ann:
            seen: Counter[int] = Counter()
            for number in range(1000):
                status, _ = await ann.post("{}", head | {"Authorization": f"Bearer wrong-{number}"})
                seen[status] += 1
                if number % 250 == 249:
                    assert (await wire.call(ann, "scripted__echo", {"n": 1})).result["structuredContent"] == {"n": 1}
        failures = [record for record in gateway.records() if record["event"] == "auth.failed"]

    assert seen.keys() == {401, 429}
    assert 20 <= seen[401] <= 25
    assert 1 <= len(failures) <= 3
