"""Three gateway processes as one, with a real store, a real database and a plain balancer (S84, S88, S99).

Every request goes to the next gateway, so that whatever works only where it began does not work here.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import aiohttp
import pytest

from tests.kit import valkey, wire
from tests.kit.answering import answering
from tests.kit.approvals import awaited, decide
from tests.kit.cluster import Cluster, outcome
from tests.kit.gateway import Gateway, eventually
from tests.kit.peers import driver
from tests.kit.wire import EraName
from tests.scale.crowd import FORM, YES, Crowd, manner
from tests.scale.scene import ALICE, CURIOUS, KEYS, PLAIN, SERVERS, Scene, staged

Json: TypeAlias = dict[str, Any]

pytestmark = valkey.needed

ERAS: Final[tuple[EraName, ...]] = ("modern", "legacy")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with staged(tmp_path_factory.mktemp("scale")) as made:
        yield made


@pytest.fixture
def cluster(scene: Scene) -> Cluster:
    return scene.cluster


# Requests and sessions at any replica.


@pytest.mark.parametrize("era", ERAS)
async def test_lists_and_calls_of_one_client_are_served_by_all_replicas_alike(cluster: Cluster, era: EraName) -> None:
    before = Counter(cluster.balancer.served)
    async with answering(cluster.url, era, manner(KEYS["bot"])) as client:
        tools = await client.every("tools/list", "tools")
        assert len({tool["name"] for tool in tools}) == len(tools) > 30
        for number in range(6):
            assert (await client.call("plain__echo", {"n": number})).structured == {"n": number}
    served = Counter(cluster.balancer.served) - before
    assert set(served) == {0, 1, 2}


async def test_a_session_is_known_everywhere_to_its_owner_and_ends_everywhere(cluster: Cluster) -> None:
    """S88: another principal gets the answer of an unknown session, wherever it asks."""
    one, two, three = cluster.gateways
    async with wire.http_client(one.url, "legacy", KEYS["bot"]) as client:
        statuses = []
        async with aiohttp.ClientSession() as http:
            for gateway, key in ((two, "bot"), (three, "other"), (three, "bot")):
                head = {**client._head("", {}), "Authorization": f"Bearer {KEYS[key]}"}
                body = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}
                async with http.post(gateway.url, json=body, headers=head) as reply:
                    statuses.append(reply.status)
            async with http.delete(three.url, headers=client._head("", {})) as reply:
                assert reply.status == 204

            async def status(gateway: Gateway) -> int:
                body = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}
                async with http.post(gateway.url, json=body, headers=client._head("", {})) as reply:
                    return reply.status

            async with asyncio.timeout(5):
                while [await status(gateway) for gateway in cluster.gateways] != [404, 404, 404]:
                    await asyncio.sleep(0.02)
        client.session_id = ""
    assert statuses == [200, 404, 200]


async def test_a_cancellation_finds_its_call_at_another_replica(cluster: Cluster) -> None:
    one, two, _ = cluster.gateways
    async with wire.http_client(one.url, "legacy", KEYS["bot"]) as client, aiohttp.ClientSession() as http:
        sleeping = asyncio.get_running_loop().create_task(
            client.request("tools/call", {"name": "plain__sleep", "arguments": {"seconds": 30}}, "sleeper")
        )
        running = [record for record in one.records() if record["event"] == "call.start"]
        async with asyncio.timeout(5):
            while len([record for record in one.records() if record["event"] == "call.start"]) == len(running):
                await asyncio.sleep(0.02)
        body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "sleeper"}}
        async with http.post(two.url, json=body, headers=client._head("", {})) as reply:
            assert reply.status == 202
        async with asyncio.timeout(5):
            await sleeping
    [ended] = [each for each in one.records() if each["event"] == "call.end" and each["tool"]["name"] == "sleep"][-1:]
    assert ended["outcome"]["status"] == "cancelled"


@pytest.mark.parametrize("client", ["mcp1-legacy", "mcp2-modern", "ts2-legacy"])
def test_official_clients_notice_nothing_of_it(cluster: Cluster, client: str, tmp_path: Path) -> None:
    with driver(client, cluster.url, tmp_path / "client.log", KEYS["bot"]) as sdk:
        for number in range(6):
            assert sdk.ok("call", name="plain__echo", arguments={"n": number})["structuredContent"] == {"n": number}
        assert sdk.ok("tools")["tools"]


# What counts for all.


async def test_a_limit_counts_what_all_replicas_let_through(cluster: Cluster) -> None:
    """S84."""
    async with answering(cluster.url, "modern", manner(KEYS["paced"])) as client:
        ends = Counter([outcome((await client.call("plain__echo", {})).message) for _ in range(30)])
    assert ends == {"ok": 20, "rate_limited": 10}


async def test_a_yes_that_is_given_at_one_replica_wakes_the_call_at_another(cluster: Cluster) -> None:
    one, two, _ = cluster.gateways
    async with wire.http_client(one.url, "modern", KEYS["bot"]) as client, asyncio.TaskGroup() as group:
        running = group.create_task(wire.call(client, "plain__whoami", {"why": "approval"}))
        shown = await awaited(two, ALICE, arguments='{"why":"approval"}')
        assert await decide(two, "approve", shown["id"], ALICE) == 200
        answer = await running
    assert outcome(answer.message) == "ok"


async def test_who_signed_in_to_one_dashboard_acts_at_another_and_is_out_of_all_at_once(cluster: Cluster) -> None:
    one, two, _ = cluster.gateways

    async def asked(gateway: Gateway, path: str, secret: str = "", form: Json | None = None) -> tuple[int, str, str]:
        head = {
            "Cookie": f"mcp-gateway-{gateway.admin_port}={secret}",
            "Origin": f"http://127.0.0.1:{gateway.admin_port}",
        }
        url = f"http://127.0.0.1:{gateway.admin_port}/ui{path}"
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
            verb = "GET" if form is None else "POST"
            async with http.request(verb, url, headers=head, data=form, allow_redirects=False) as reply:
                cookie = reply.cookies.get(f"mcp-gateway-{gateway.admin_port}")
                return reply.status, await reply.text(), cookie.value if cookie is not None else ""

    status, _, secret = await asked(one, "/sign-in", form={"token": ALICE})
    assert (status, bool(secret)) == (303, True)
    status, page, _ = await asked(two, "/approvals", secret)
    assert status == 200
    [mark] = set(re.findall(r'name="csrf" value="([^"]+)"', page))
    assert (await asked(one, "/approvals/approve", secret, {"csrf": "another", "id": "x"}))[0] == 403
    assert (await asked(two, "/sign-out", secret, {"csrf": mark}))[0] == 303
    assert [(await asked(gateway, "/approvals", secret))[0] for gateway in cluster.gateways] == [303] * 3


# Questions.


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", CURIOUS)
async def test_an_answer_finds_its_call_wherever_it_arrives(cluster: Cluster, era: EraName, tool: str) -> None:
    async with answering(cluster.url, era, manner(KEYS["bot"])) as client:
        for _ in range(3):
            ended = await client.call(tool)
            assert outcome(ended.message) == "ok", ended.message
            assert '"accept"' in json.dumps(ended.result).replace("\\", "")
            assert len(ended.questions) == 1


async def test_questions_one_after_the_other_may_each_be_answered_elsewhere(cluster: Cluster) -> None:
    for era in ERAS:
        async with answering(cluster.url, era, manner(KEYS["bot"])) as client:
            ended = await client.call("legacy-http__twice")
            assert ended.structured == {"words": ["yes", "yes"]}


async def test_an_answer_that_is_sent_to_all_replicas_at_once_is_taken_once(cluster: Cluster, scene: Scene) -> None:
    """S99: each gets the same result, and the server ran the call once."""
    async with wire.http_client(cluster.gateways[0].url, "modern", KEYS["bot"]) as client:
        params: Json = {
            "name": "own__asks",
            "arguments": {},
            "_meta": {"io.modelcontextprotocol/clientCapabilities": FORM},
        }
        asked = (await client.request("tools/call", params)).result
        assert asked["resultType"] == "input_required"
    given = {"inputResponses": dict.fromkeys(asked["inputRequests"], YES), "requestState": asked["requestState"]}

    async def sent(gateway: Gateway) -> Json:
        async with wire.http_client(gateway.url, "modern", KEYS["bot"]) as client:
            return (await client.request("tools/call", {**params, **given})).result

    results = await asyncio.gather(*(sent(gateway) for gateway in cluster.gateways * 2))
    assert {json.dumps(result["content"]) for result in results} == {json.dumps(results[0]["content"])}
    assert '"accept"' in json.dumps(results[0]).replace("\\", "")
    eventually(lambda: cluster.unbalanced() == {}, "the call has one end")


async def test_clients_that_leave_at_any_moment_leave_calls_with_one_end(cluster: Cluster) -> None:
    """Whether their answers have reached the call by then, at this replica or at another, or not."""
    left = 0

    async def leave(seconds: float) -> None:
        nonlocal left
        async with answering(cluster.url, "modern", manner(KEYS["other"])) as client:
            for _ in range(20):
                try:
                    async with asyncio.timeout(random.uniform(0.0, seconds)):
                        await client.call(random.choice(("own__asks", "legacy-http__ask")), {})
                except TimeoutError:
                    left += 1

    await asyncio.gather(*(leave(0.03 * number) for number in range(1, 9)))
    assert left > 20
    # What nobody came back to ends with the patience of its server.
    eventually(lambda: cluster.unbalanced() == {}, f"every call has one end: {cluster.unbalanced()}", 20)


async def test_nothing_that_was_asked_or_answered_is_readable_in_the_store(cluster: Cluster) -> None:
    heard: list[bytes] = []
    reader, writer = await asyncio.open_connection("127.0.0.1", cluster.store.port)
    writer.write(b"PSUBSCRIBE *\r\n")
    await reader.readline()
    async with answering(cluster.url, "modern", manner(KEYS["bot"])) as client, asyncio.TaskGroup() as group:

        async def listen() -> None:
            while chunk := await reader.read(65536):
                heard.append(chunk)

        listening = group.create_task(listen())
        for _ in range(3):
            await client.call("own__asks", {"canary": "c4n4ry"})
        listening.cancel()
    writer.close()
    whole = b"".join(heard)
    assert b"replica:" in whole
    assert not [word for word in (b"c4n4ry", b"accept", b"elicitation", b"own") if word in whole]


# Replicas that come and go.


@pytest.mark.timeout(180)
async def test_a_replica_that_is_killed_under_load_takes_only_its_own_calls_along(cluster: Cluster) -> None:
    """In the middle of it one is killed and started again: the others answer everything, sessions live on."""
    victim = cluster.gateways[1]
    crowd = Crowd(cluster.url, KEYS["bot"], PLAIN, CURIOUS[:1])
    async with answering(victim.url, "legacy", manner(KEYS["bot"])) as orphan, asyncio.TaskGroup() as group:
        running = group.create_task(crowd.run(modern=6, legacy=0))
        plain = Crowd(cluster.url, KEYS["bot"], crowd.plain, stopped=crowd.stopped)
        also = group.create_task(plain.run(modern=0, legacy=4))
        await asyncio.sleep(1.0)
        failed = cluster.balancer.failed.total()
        await asyncio.to_thread(victim.kill)
        await asyncio.sleep(1.0)
        at_kill = len(crowd.broken + plain.broken)
        await asyncio.to_thread(victim.start)
        await asyncio.sleep(1.0)
        crowd.stopped.set()
        await asyncio.gather(running, also)
        orphan._url = cluster.gateways[2].url
        assert outcome((await orphan.call("plain__echo", {"n": 1})).message) == "ok"
        orphan._url = victim.url
        assert outcome((await orphan.call("plain__echo", {"n": 2})).message) == "ok"
    broken = crowd.broken + plain.broken
    assert len(broken) == at_kill <= cluster.balancer.failed.total() - failed <= 10, broken
    ends = crowd.ended + plain.ended
    allowed = {f"{era} {end}" for era in ERAS for end in ("ok", "unavailable", "unavailable may have run")}
    assert set(ends) <= allowed, ends
    assert ends["modern ok"] > 50
    assert ends["legacy ok"] > 50
    eventually(lambda: cluster.unbalanced() == {}, f"every call has one end: {cluster.unbalanced()}")
    # Each of the six that asked had one call at most under way.
    assert len(cluster.passed_on()) <= 6
    cluster.verify()


@pytest.mark.timeout(180)
async def test_a_rolling_restart_loses_nothing(cluster: Cluster) -> None:
    """Each gateway is told to stop and started anew, one after the other, under the calls of both eras."""
    crowd = Crowd(cluster.url, KEYS["bot"], PLAIN, CURIOUS)
    failed, passed_on = cluster.balancer.failed.total(), cluster.passed_on()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(crowd.run(modern=5, legacy=4))
        for gateway in cluster.gateways:
            gateway.terminate()
            assert await asyncio.to_thread(gateway.wait) == 0
            await asyncio.to_thread(gateway.start)
            await asyncio.to_thread(gateway.await_servers, *SERVERS)
        crowd.stopped.set()
        await running
    assert (crowd.broken, cluster.balancer.failed.total() - failed) == ([], 0)
    # A question that waits at a gateway ends with it, and who answers later is told so.
    refused = crowd.ended["modern unavailable may have run"]
    assert set(crowd.ended) <= {"modern ok", "legacy ok", "modern unavailable may have run"}, crowd.ended
    assert refused <= 3 * 5, crowd.ended
    assert crowd.ended["modern ok"] > 50
    assert crowd.ended["legacy ok"] > 50
    eventually(lambda: cluster.unbalanced() == {}, f"every call has one end: {cluster.unbalanced()}")
    assert cluster.passed_on() == passed_on
    cluster.verify()
