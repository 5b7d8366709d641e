"""All servers together: routing, neighbours, reload and the end (G117, G128, S92, S127)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.config.servers import Server
from gateway.downstream import pool as pools
from gateway.downstream.guardian import Guardian
from gateway.downstream.health import State
from gateway.downstream.hooks import Hooks
from gateway.downstream.pool import Pool, PoolOptions
from gateway.downstream.transport import Reply, Transport
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Caller, Target
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.news import TaskNews
from gateway.model.outcome import Complete, Failure
from gateway.protocol.rawjson import Object, Value, decode_value
from gateway.protocol.versions import Era
from tests.kit.http_server import McpServer, serving
from tests.kit.processes import alive, eventually, guarded, scripted
from tests.kit.transport import (
    LEGACY,
    MODERN,
    WAIT,
    Client,
    Farm,
    Script,
    Sent,
    but,
    call,
    discover,
    initialize,
    members,
    never,
    reply,
    server,
)

ALL = frozenset(Kind)


class Told:
    """What the pool told its owner."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, object]] = []
        self._moved = asyncio.Event()
        self.hooks = Hooks(
            lambda name, kinds: self._note("change", name, kinds),
            lambda name, reason: self._note("down", name, reason),
            lambda name, uri: self._note("updated", name, uri),
        )

    def _note(self, kind: str, name: str, what: object) -> None:
        self.events.append((kind, name, what))
        self._moved.set()

    async def heard(self, kind: str, name: str, count: int = 1) -> object:
        async with asyncio.timeout(WAIT):
            while len(found := [what for told, of, what in self.events if (told, of) == (kind, name)]) < count:
                self._moved.clear()
                await self._moved.wait()
        return found[count - 1]


class Farms:
    """Scripted transports, each server from its own farm."""

    def __init__(self, **farms: Farm) -> None:
        self.farms = farms

    def __call__(self, name: str, config: Server) -> Transport:
        return self.farms[name](name, config)


@asynccontextmanager
async def scripted_pool(farms: Farms, told: Told | None = None, eras: Path | None = None) -> AsyncIterator[Pool]:
    made = Pool(PoolOptions(Guardian(), farms, eras, hooks=(told or Told()).hooks))
    try:
        yield made
    finally:
        await made.aclose()
    assert [farm.live for farm in farms.farms.values()] == [[]] * len(farms.farms)


@asynccontextmanager
async def real_pool(servers: Mapping[str, Server], told: Told | None = None) -> AsyncIterator[Pool]:
    async with guarded() as guardian:
        made = Pool(PoolOptions(guardian, hooks=(told or Told()).hooks))
        made.apply(servers)
        try:
            yield made
        finally:
            await made.aclose()


async def ask(pool: Pool, name: str, tool: str = "echo", **arguments: Value) -> object:
    target = Target(Kind.TOOL, name, tool)
    made = call(target=target, params={"name": tool, "arguments": arguments})
    return await asyncio.wait_for(pool.call(made, Exchange()), WAIT)


def structured(outcome: object) -> Value:
    assert isinstance(outcome, Complete), outcome
    return decode_value(outcome.result["structuredContent"])


async def test_calls_go_to_the_server_they_name() -> None:
    farms = Farms(a=Farm(MODERN), b=Farm(LEGACY))
    async with scripted_pool(farms) as pool:
        pool.apply({"a": server(), "b": server()})
        assert isinstance(await ask(pool, "a", n=1), Complete)
        assert isinstance(await ask(pool, "b", n=2), Complete)
        assert set(pool.status()) == {"a", "b"}
    assert farms.farms["a"].made[0].of("tools/call")[0].params["arguments"] == {"n": 1}
    assert farms.farms["b"].made[1].of("tools/call")[0].params["arguments"] == {"n": 2}


async def test_a_server_that_is_not_configured_is_unavailable() -> None:
    async with scripted_pool(Farms()) as pool:
        outcome = await ask(pool, "gone")
        assert isinstance(outcome, Failure)
        assert (outcome.reason, outcome.may_have_run) == (Reason.UNAVAILABLE, False)
        with pytest.raises(DownstreamError):
            await pool.page("gone", Kind.TOOL)
        assert pool.hello("gone") is None
        pool.unsubscribe("gone", "file:///a")


async def test_dead_and_hanging_servers_do_not_touch_a_healthy_one() -> None:
    """G117, S126."""
    dead: Script = {"server/discover": lambda sent: exits(sent), "initialize": lambda sent: exits(sent)}
    hanging: Script = {"server/discover": never, "initialize": never}
    farms = Farms(a=Farm(MODERN), b=Farm(dead), c=Farm(hanging))
    told = Told()
    async with scripted_pool(farms, told) as pool:
        pool.apply({"c": server(), "b": server(), "a": server()})
        assert await told.heard("change", "a") == ALL
        await told.heard("down", "b")
        waiting = asyncio.get_running_loop().create_task(
            pool.call(call(target=Target(Kind.TOOL, "c", "t")), Exchange())
        )
        assert isinstance(await ask(pool, "a"), Complete)
        states = {name: status.state for name, status in pool.status().items()}
        assert states == {"a": State.UP, "b": State.FAILED, "c": State.STARTING}
        outcome = await ask(pool, "b")
        assert isinstance(outcome, Failure)
        assert outcome.retry_after_ms is not None
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def exits(sent: Sent) -> Reply:
    sent.transport.end("exited with code 1")
    return await never(sent)


async def test_a_reload_keeps_what_did_not_change() -> None:
    """G128."""
    farms = Farms(a=Farm(MODERN), b=Farm(MODERN), c=Farm(MODERN))
    told = Told()
    async with scripted_pool(farms, told) as pool:
        pool.apply({"a": server(), "b": server()})
        await told.heard("change", "a")
        await told.heard("change", "b")
        pool.apply({"b": server(args=["-v"]), "a": server(tools={"include": ["x"]}), "c": server()})
        await told.heard("change", "c")
        await told.heard("change", "b", 2)
        assert [len(farm.made) for farm in farms.farms.values()] == [1, 2, 1]
        assert not farms.farms["a"].made[0].closed
        await eventually(lambda: farms.farms["b"].made[0].closed)
        pool.apply({"c": server()})
        await eventually(lambda: farms.farms["a"].made[0].closed)
        assert list(pool.status()) == ["c"]


async def test_a_server_whose_files_are_others_is_opened_anew_though_its_config_is_the_same() -> None:
    farms = Farms(a=Farm(MODERN), b=Farm(MODERN))
    told = Told()
    async with scripted_pool(farms, told) as pool:
        pool.apply({"a": server(), "b": server()})
        await told.heard("change", "a")
        await told.heard("change", "b")
        pool.apply({"a": server(), "b": server()}, {"a"})
        await told.heard("change", "a", 2)
        assert [len(farm.made) for farm in farms.farms.values()] == [2, 1]


async def test_calls_in_flight_finish_on_the_server_they_started_on() -> None:
    go = asyncio.Event()

    async def slow(sent: Sent) -> Reply:
        await go.wait()
        return reply(content=[], structuredContent="old")

    new: Script = but(MODERN, {"tools/call": lambda sent: reply(content=[], structuredContent="new")})
    farms = Farms(a=Farm(but(MODERN, {"tools/call": slow}), new))
    told = Told()
    async with scripted_pool(farms, told) as pool:
        pool.apply({"a": server()})
        busy = asyncio.get_running_loop().create_task(pool.call(call(), Exchange()))
        await told.heard("change", "a")
        await farms.farms["a"].made[0].reached("tools/call")
        pool.apply({"a": server(args=["-v"])})
        assert structured(await ask(pool, "a")) == "new"
        assert not busy.done()
        go.set()
        assert structured(await busy) == "old"


async def test_closing_ends_everything_and_calls_in_flight() -> None:
    farms = Farms(a=Farm(but(MODERN, {"tools/call": never})))
    async with scripted_pool(farms) as pool:
        pool.apply({"a": server()})
        busy = asyncio.get_running_loop().create_task(pool.call(call(), Exchange()))
        while not farms.farms["a"].made:
            await asyncio.sleep(0.001)
        await farms.farms["a"].made[0].reached("tools/call")
        await pool.aclose()
        outcome = await asyncio.wait_for(busy, WAIT)
        assert isinstance(outcome, Failure)
        assert outcome.reason is Reason.UNAVAILABLE


async def test_closing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "CLOSE_TIMEOUT", 0.05)
    farm = Farm(MODERN)
    told = Told()
    async with scripted_pool(Farms(a=farm), told) as pool:
        pool.apply({"a": server()})
        await told.heard("change", "a")
        stuck, close = asyncio.Event(), farm.made[0].aclose

        async def hang() -> None:
            await close()
            await stuck.wait()

        farm.made[0].aclose = hang  # type: ignore[method-assign]  # reason: a transport that does not end.
        await asyncio.wait_for(pool.aclose(), WAIT)


async def test_the_era_of_a_server_outlives_a_restart(tmp_path: Path) -> None:
    for greeting in (["server/discover", "initialize"], ["initialize"]):
        farms, told = Farms(a=Farm({"initialize": initialize})), Told()
        async with scripted_pool(farms, told, tmp_path / "eras.json") as pool:
            pool.apply({"a": server()})
            await told.heard("change", "a")
        assert farms.farms["a"].made[0].methods() == greeting


async def test_sessions_end_on_every_server() -> None:
    farms = Farms(a=Farm(LEGACY), b=Farm(LEGACY))
    async with scripted_pool(farms) as pool:
        pool.apply({"a": server(isolation="session"), "b": server(isolation="session")})
        caller = Caller(Era.LEGACY, "2025-11-25", session="s1")
        for name in ("a", "b"):
            made = call(caller=caller, target=Target(Kind.TOOL, name, "echo"))
            assert isinstance(await pool.call(made, Exchange()), Complete)
        await pool.end_session("s1")
        async with asyncio.timeout(WAIT):
            while any(len(farm.live) > 1 for farm in farms.farms.values()):
                await asyncio.sleep(0.001)


async def test_tasks_are_watched_at_their_server_and_its_word_is_heard_until_nobody_listens() -> None:
    def runs(sent: Sent) -> Reply:
        greeting = discover(sent)
        assert greeting.result is not None
        return Reply({**greeting.result, **members(capabilities={"extensions": {"io.modelcontextprotocol/tasks": {}}})})

    farms, told, heard = Farms(a=Farm(but(MODERN, {"server/discover": runs}))), Told(), list[TaskNews]()
    async with scripted_pool(farms, told) as pool:
        pool.apply({"a": server()})
        await told.heard("change", "a")
        end = pool.task_news(heard.append)
        pool.watch_task("a", "t-1")
        await pool.subscribed(["a"])
        transport = farms.farms["a"].made[0]
        sent = await transport.reached("subscriptions/listen")
        assert sent.params["notifications"] == {"taskIds": ["t-1"]}
        state: Object = {
            "taskId": "t-1",
            "status": "working",
            "_meta": {"io.modelcontextprotocol/subscriptionId": sent.id},
        }
        transport.say("notifications/tasks", **state)
        assert [(news.server, news.task, news.instance) for news in heard] == [("a", "t-1", transport.instance)]
        end()
        transport.say("notifications/tasks", **state)
        assert len(heard) == 1
        pool.unwatch_task("a", "t-1")
        pool.apply({})
        pool.unwatch_task("a", "t-1")
        pool.unwatch_task("gone", "t-1")
        with pytest.raises(DownstreamError):
            pool.watch_task("gone", "t-1")


async def test_subscriptions_reach_their_server_and_come_back_with_its_name() -> None:
    farms, told = Farms(a=Farm(MODERN)), Told()
    async with scripted_pool(farms, told) as pool:
        pool.apply({"a": server()})
        await told.heard("change", "a")
        pool.subscribe("a", "file:///x")
        transport = farms.farms["a"].made[0]
        async with asyncio.timeout(WAIT):
            while "resourceSubscriptions" not in str(transport.of("subscriptions/listen")[-1:]):
                await asyncio.sleep(0.001)
        sent = transport.of("subscriptions/listen")[-1]
        identifier: dict[str, Value] = {"io.modelcontextprotocol/subscriptionId": sent.id}
        async with asyncio.timeout(WAIT):
            while not sent.taken:
                await asyncio.sleep(0.001)
        transport.say("notifications/resources/updated", _meta=identifier, uri="file:///x")
        assert await told.heard("updated", "a") == "file:///x"
        await pool.subscribed(["a", "gone"])
        pool.unsubscribe("a", "file:///x")


async def test_subscriptions_outlive_a_changed_and_a_removed_server() -> None:
    script = but(LEGACY, {"resources/subscribe": lambda sent: reply(), "resources/unsubscribe": lambda s: reply()})
    farms, told = Farms(a=Farm(script)), Told()
    async with scripted_pool(farms, told) as pool:
        pool.apply({"a": server(isolation="shared")})
        await told.heard("change", "a")
        pool.subscribe("a", "file:///x")
        pool.subscribe("a", "file:///y")
        await pool.subscribed(["a"])
        pool.apply({"a": server(isolation="shared", queue=1)})
        async with asyncio.timeout(WAIT):
            while len(farms.farms["a"].made) < 2 or len(farms.farms["a"].made[1].of("resources/subscribe")) < 2:
                await asyncio.sleep(0.001)
        pool.apply({})
        pool.unsubscribe("a", "file:///y")
        pool.apply({"a": server(isolation="shared")})
        async with asyncio.timeout(WAIT):
            while len(farms.farms["a"].made) < 3 or not farms.farms["a"].made[2].of("resources/subscribe"):
                await asyncio.sleep(0.001)
        await pool.subscribed(["a"])
        asked = farms.farms["a"].made[2].of("resources/subscribe")
        assert [sent.params["uri"] for sent in asked] == ["file:///x"]


# Real processes and sockets from here on.


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_real_process_of_either_era_lists_serves_and_tells_of_changes(era: str) -> None:
    told = Told()
    async with real_pool({"a": scripted("--era", era, "slow=0", isolation="shared")}, told) as pool:
        assert await told.heard("change", "a") == ALL
        hello = pool.hello("a")
        assert hello is not None
        assert hello.era.value == era
        assert any(b'"echo"' in bytes(memoryview(item)) for item in (await pool.page("a", Kind.TOOL)).items)
        assert structured(await ask(pool, "a", n=1)) == {"n": 1}
        client = Client()
        made = call("progress", params={"name": "progress", "arguments": {"steps": 3}}, progress_token="mine")
        assert isinstance(await pool.call(made, client.exchange()), Complete)
        assert [said["progressToken"] for _, said in client.heard] == ["mine"] * 3
        assert isinstance(await ask(pool, "a", "change"), Complete)
        assert await told.heard("change", "a", 2) == frozenset({Kind.TOOL})


async def test_fifty_clients_with_equal_ids_and_tokens_never_meet() -> None:
    """S92, S94."""
    async with real_pool({"a": scripted("--era", "modern", "slow=0", isolation="shared", queue=1000)}) as pool:

        async def client(number: int) -> None:
            for turn in range(20):
                nonce: dict[str, Value] = {"nonce": f"{number}-{turn}"}
                made = call(rpc_id=1, progress_token=1, params={"name": "echo", "arguments": nonce})
                assert structured(await pool.call(made, Exchange())) == nonce

        await asyncio.wait_for(asyncio.gather(*(client(number) for number in range(50))), 40)


async def test_a_killed_process_fails_its_calls_and_the_next_call_finds_another() -> None:
    """S114, G011."""
    async with real_pool({"a": scripted("--era", "legacy", "slow=0")}) as pool:
        before = structured(await ask(pool, "a", "whoami"))
        assert isinstance(before, dict)
        pid = before["pid"]
        assert isinstance(pid, int)
        exchanges = [Exchange() for _ in range(50)]
        made = call("sleep", params={"name": "sleep", "arguments": {"seconds": 60}})
        calls = [asyncio.get_running_loop().create_task(pool.call(made, exchange)) for exchange in exchanges]
        await eventually(lambda: all(exchange.dispatched for exchange in exchanges))
        os.kill(pid, signal.SIGKILL)
        outcomes = await asyncio.wait_for(asyncio.gather(*calls), WAIT)
        for outcome in outcomes:
            assert isinstance(outcome, Failure)
            assert (outcome.reason, outcome.may_have_run) == (Reason.UNAVAILABLE, True)
        after = structured(await ask(pool, "a", "whoami"))
        assert isinstance(after, dict)
        assert after["pid"] != pid


async def test_no_process_outlives_the_pool() -> None:
    pids: list[int] = []
    async with real_pool({"a": scripted("--era", "legacy", "slow=0"), "b": scripted("slow=0")}) as pool:
        for name in ("a", "b"):
            who = structured(await ask(pool, name, "whoami"))
            assert isinstance(who, dict)
            assert isinstance(who["pid"], int)
            pids.append(who["pid"])
    await eventually(lambda: not any(alive(pid) for pid in pids))


async def test_a_process_that_crashes_at_start_is_named_with_its_last_words() -> None:
    told = Told()
    async with real_pool({"a": scripted("crash")}, told) as pool:
        assert "cannot start: no key" in str(await told.heard("down", "a"))
        assert pool.status()["a"].state is State.FAILED


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("streams", [False, True])
async def test_a_real_http_server_of_either_era_serves_and_tells_of_changes(era: str, streams: bool) -> None:
    told, peer = Told(), McpServer(era=era, streams=streams)
    async with serving(peer.script) as http, real_pool({"a": server(url=http.url, isolation="shared")}, told) as pool:
        await told.heard("change", "a")
        client = Client()
        made = call(progress_token=7, params={"name": "echo", "arguments": {"n": 1}})
        assert structured(await pool.call(made, client.exchange())) == {"n": 1}
        assert len(client.heard) == (1 if streams else 0)
        await eventually(lambda: peer.listeners)
        await peer.change()
        assert await told.heard("change", "a", 2) == frozenset({Kind.TOOL})
        assert len((await pool.page("a", Kind.TOOL)).items) == 2
    post = next(seen for seen in http.seen if seen.method == "POST" and seen.message["method"] == "tools/call")
    version = {"modern": "2026-07-28", "legacy": "2025-11-25"}[era]
    assert post.headers["mcp-protocol-version"] == version
    assert ("mcp-session-id" in post.headers) == (era == "legacy")
    assert (post.headers.get("mcp-name") == "echo") == (era == "modern")


async def test_an_ended_http_session_is_replaced_for_all_and_deleted_at_the_end() -> None:
    """G031, G032."""
    peer = McpServer(era="legacy")
    async with serving(peer.script) as http, real_pool({"a": server(url=http.url)}) as pool:
        assert structured(await ask(pool, "a", n=0)) == {"n": 0}
        old = set(peer.sessions)
        peer.ended |= old
        outcomes = await asyncio.gather(*(ask(pool, "a", n=number) for number in range(20)))
        assert [structured(outcome) for outcome in outcomes] == [{"n": number} for number in range(20)]
        assert len(peer.calls) == 21
    assert len(peer.sessions) <= 4
    assert set(peer.sessions) <= peer.ended


async def test_an_http_server_that_comes_later_is_found() -> None:
    """G118."""
    told, peer = Told(), McpServer()
    async with serving(peer.script) as http:
        port = http.port
    async with real_pool({"a": server(url=f"http://127.0.0.1:{port}/mcp")}, told) as pool:
        await told.heard("down", "a")
        outcome = await ask(pool, "a")
        assert isinstance(outcome, Failure)
        assert (outcome.reason, outcome.may_have_run) == (Reason.UNAVAILABLE, False)
        assert "127.0.0.1" not in outcome.text
