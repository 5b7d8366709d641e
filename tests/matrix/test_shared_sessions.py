"""Two gateways on one Valkey: a legacy session works at both, whichever it began at."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit import valkey
from tests.kit.clients import LegacySession, Reply, ask, connect, modern
from tests.kit.extending import extended, with_headers
from tests.kit.field import scripted
from tests.kit.gateway import Gateway, Json, eventually, running_in, serving

pytestmark = valkey.needed

KEYS = {
    name: f"mcpgw_{name.ljust(8, '0')}_{name[0] * 43}"
    for name in ("alice", "bob", "carol", "dave", "erin", "frank", "grace")
}
CAPABILITIES: Json = {"elicitation": {}, "roots": {}}


@dataclass(frozen=True)
class Pair:
    """Two replicas and what they share; the servers of both work in ``home``."""

    first: Gateway
    second: Gateway
    store: valkey.Valkey
    home: Path

    def session(self, name: str = "alice") -> LegacySession:
        """Return a session that is to begin at the first one."""
        return LegacySession(self.first.port, [("Authorization", f"Bearer {KEYS[name]}")])

    def at(self, gateway: Gateway, session: LegacySession, name: str = "alice") -> LegacySession:
        """Return the same session as it is used at another one."""
        headers = [("Authorization", f"Bearer {KEYS[name]}")]
        return LegacySession(gateway.port, headers, session.version, id=session.id)

    def degraded(self) -> int:
        """Return how often a replica counted alone so far."""
        records = [*self.first.records(), *self.second.records()]
        return sum(record["event"] == "store.degraded" for record in records)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    home = folder / "home"
    home.mkdir()
    with valkey.running() as store:
        config: Json = {
            "servers": {
                "one": scripted("--era", "legacy", "--name", "one", asks=["elicitation"]),
                "docs": extended("docs", "legacy", cwd=str(home)),
            },
            "clients": {name: {"key": key} for name, key in KEYS.items()},
            "limits": {"requests": "150/hour"},
            "policies": [
                {
                    "name": "all",
                    "clients": ["*"],
                    "allow": ["any:*/**"],
                    "limits": [{"rate": "10/hour", "tools": ["one/echo"]}],
                },
                {
                    "name": "once",
                    "clients": ["bob", "carol", "dave"],
                    "allow": ["one/log"],
                    "duplicates": {"window": "60s", "action": "refuse"},
                },
            ],
            "state": {"dir": "state", "url": store.url, "sealing_keys": ["s" * 32]},
        }
        with serving(folder / "first", config) as first, serving(folder / "second", config) as second:
            first.await_servers("one", "docs")
            second.await_servers("one", "docs")
            yield Pair(first, second, store, home)


async def test_a_session_of_one_replica_works_at_the_other_with_what_its_client_declared(pair: Pair) -> None:
    mine = pair.session()
    assert (await mine.begin(CAPABILITIES)).status == 200
    there = pair.at(pair.second, mine)
    listed = (await there.ask("tools/list")).result["tools"]
    assert {"one__echo", "one__declared"} <= {tool["name"] for tool in listed}
    called = await there.ask("tools/call", {"name": "one__echo", "arguments": {"a": 1}})
    assert "isError" not in called.result
    # The server is told only of what it may ask, by the replica that never saw the handshake.
    declared = await there.ask("tools/call", {"name": "one__declared", "arguments": {}})
    assert json.loads(declared.result["content"][0]["text"]) == {"elicitation": {}}
    assert (await mine.ask("ping")).status == 200


async def test_a_changed_log_level_holds_everywhere_at_once(pair: Pair) -> None:
    mine = pair.session()
    await mine.begin()
    there = pair.at(pair.second, mine)
    for session, other, level, heard in ((mine, there, "error", 0), (there, mine, "debug", 1)):
        # The other one knows the session already, so that it has to hear of the change.
        assert (await other.ask("ping")).status == 200
        assert (await session.ask("logging/setLevel", {"level": level})).result == {}
        reply = await other.ask("tools/call", {"name": "one__log", "arguments": {"data": level}})
        notices = (
            [message for message in reply.events if message.get("method") == "notifications/message"]
            if (reply.headers["content-type"].startswith("text/event-stream"))
            else []
        )
        assert len(notices) == heard


async def test_its_end_at_one_replica_ends_streams_and_calls_at_the_other(pair: Pair) -> None:
    """S90: after DELETE, 404 everywhere."""
    mine = pair.session()
    await mine.begin()
    there = pair.at(pair.second, mine)
    async with connect(pair.first.port) as streaming, connect(pair.first.port) as calling:
        await streaming.send(mine.get())
        assert (await streaming.head())[0] == 200
        await calling.send(mine.request("tools/call", {"name": "one__sleep", "arguments": {"seconds": 60}}, "long"))
        eventually(lambda: pair.first.metric("mcp_gateway_inflight_calls", server="one") == 1, "it runs", 5)
        assert (await ask(pair.second.port, there.delete())).status == 204
        async with asyncio.timeout(5):
            assert [message async for message in streaming.messages()] == []
        eventually(lambda: pair.first.metric("mcp_gateway_inflight_calls", server="one") == 0, "it was stopped", 5)
    for session in (mine, there):
        assert (await session.ask("ping")).status == 404


async def test_another_principal_and_another_view_get_the_404_of_an_unknown_session(pair: Pair) -> None:
    """S88: also at a replica that learns of the session only then; audited where it was tried."""
    mine = pair.session()
    await mine.begin()
    unknown = LegacySession(pair.second.port, mine.headers, id="x" * 43)
    expected = await unknown.ask("ping")
    foreign = pair.at(pair.second, mine, "bob")
    for request in (foreign.request("ping"), foreign.get(), foreign.delete()):
        refused = await ask(pair.second.port, request)
        assert refused.status == 404
    assert (await foreign.ask("ping")).body == expected.body
    eventually(
        lambda: any(record["event"] == "security.session_mismatch" for record in pair.second.records()), "audited", 5
    )
    assert (await mine.ask("ping")).status == 200
    assert (await pair.at(pair.second, mine).ask("ping")).status == 200


async def test_what_was_subscribed_to_at_one_replica_is_told_on_the_stream_at_the_other(pair: Pair) -> None:
    mine = pair.session()
    await mine.begin()
    [resource] = (await mine.ask("resources/list")).result["resources"]
    there = pair.at(pair.second, mine)
    assert (await mine.ask("resources/subscribe", {"uri": resource["uri"]})).result == {}
    async with connect(pair.second.port) as connection:
        await connection.send(there.get())
        assert (await connection.head())[0] == 200
        # A server that is started again may serve another state.
        for pid in running_in(pair.home):
            os.kill(pid, signal.SIGKILL)
        heard = connection.messages()
        async with asyncio.timeout(20):
            while (message := await anext(heard))["method"] != "notifications/resources/updated":
                pass
        assert message["params"]["uri"] == resource["uri"]
    pair.first.await_servers("docs")
    pair.second.await_servers("docs")


async def test_the_rest_of_a_broken_stream_is_never_another_replicas_stream(pair: Pair) -> None:
    """An event id names the replica too: a call's stream is there or gone, a GET stream begins anew."""
    mine = pair.session()
    await mine.begin()
    there = pair.at(pair.second, mine)
    assert (await there.ask("ping")).status == 200
    async with connect(pair.first.port) as connection:
        await connection.send(mine.request("tools/call", {"name": "one__sleep", "arguments": {"seconds": 0.3}}))
        assert (await connection.head())[0] == 200
        chunk = await anext(connection.chunks())
    identifier = next(line[4:] for line in chunk.decode().splitlines() if line.startswith("id: "))
    again = there.get().replace(b"\r\n\r\n", f"\r\nLast-Event-ID: {identifier}\r\n\r\n".encode())
    assert (await ask(pair.second.port, again)).status == 400


async def test_limits_and_duplicates_are_counted_together(pair: Pair) -> None:
    """S84: ten calls an hour are ten calls, whichever replica gets them."""
    for name in ("bob", "carol", "dave"):
        before = pair.degraded()
        refused, second = await _counted(pair, name)
        # On a machine that stands still for a moment a replica may take the store for gone, and count alone.
        if pair.degraded() == before:
            break
    assert refused == 6
    assert second.refusal["reason"] == "duplicate"


async def _counted(pair: Pair, name: str) -> tuple[int, Reply]:
    """Call at both replicas in turn; return how many calls were refused, and the answer to one that came twice."""
    mine = pair.session(name)
    await mine.begin()
    there = pair.at(pair.second, mine, name)
    refused = 0
    for number in range(16):
        session = (mine, there)[number % 2]
        reply = await session.ask("tools/call", {"name": "one__echo", "arguments": {"n": number}})
        refused += bool(reply.result.get("isError"))
    first = await mine.ask("tools/call", {"name": "one__log", "arguments": {"data": "same"}})
    assert "isError" not in first.result
    return refused, await there.ask("tools/call", {"name": "one__log", "arguments": {"data": "same"}})


async def test_requests_of_a_principal_are_counted_together(pair: Pair) -> None:
    """S83, S84: whatever is sent, wherever."""
    for name in ("erin", "frank", "grace"):
        before = pair.degraded()
        request = with_headers(modern("tools/list"), [("Authorization", f"Bearer {KEYS[name]}")])
        statuses = []
        for _ in range(8):
            ports = (pair.first.port, pair.second.port) * 10
            statuses += [reply.status for reply in await asyncio.gather(*(ask(port, request) for port in ports))]
        if pair.degraded() == before:
            break
    assert (statuses.count(200), statuses.count(429)) == (150, 10)


async def test_without_the_store_sessions_go_on_where_they_are_known(pair: Pair) -> None:
    """S85: known sessions are served, unknown ones begin anew; both replicas say that they are degraded."""
    mine = pair.session()
    await mine.begin()
    pair.store.stop()
    for gateway in (pair.first, pair.second):
        eventually(lambda: gateway.metric("mcp_gateway_ratelimit_degraded") == 1, "degraded", 5)  # noqa: B023
        assert gateway.admin("/readyz") == (200, "ready\nstore_degraded\n")
        assert gateway.status()["store"]["state"] == "degraded"
    assert (await mine.ask("ping")).status == 200
    assert (await pair.at(pair.second, mine).ask("ping")).status == 404
    fresh = LegacySession(pair.second.port, mine.headers)
    assert (await fresh.begin()).status == 200
    assert (await fresh.ask("tools/list")).status == 200
    pair.store.start()
    for gateway in (pair.first, pair.second):
        eventually(lambda: gateway.metric("mcp_gateway_ratelimit_degraded") == 0, "recovered", 5)  # noqa: B023
        assert gateway.admin("/readyz") == (200, "ready\n")
        events = [record["event"] for record in gateway.records()]
        assert events.count("store.degraded") == events.count("store.recovered") > 0
    later = pair.session()
    await later.begin()
    assert (await pair.at(pair.second, later).ask("ping")).status == 200
