"""Subscriptions of modern clients through a real gateway (2026-07-28 basic/patterns/subscriptions)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from tests.kit.clients import connect, modern
from tests.kit.extending import extended, talker
from tests.kit.field import scripted
from tests.kit.gateway import eventually, running_in, serving
from tests.kit.wire import EraName

KEY = "io.modelcontextprotocol/subscriptionId"
CHANGED = "notifications/tools/list_changed"


async def test_a_subscription_hears_what_it_asked_for_under_its_own_id_also_after_its_server_came_back(
    tmp_path: Path,
) -> None:
    """G138: acknowledged first, nothing but tools, the client's id with its type; a new process is listened to."""
    config = {"servers": {"new": scripted("--era", "modern")}}
    with serving(tmp_path, config) as gateway:
        gateway.await_servers("new")
        client = await talker(gateway.port, "modern")
        async with connect(gateway.port) as connection:
            wanted = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": []}}
            await connection.send(modern("subscriptions/listen", wanted, "L1"))
            assert (await connection.head())[0] == 200
            heard = connection.messages()
            first = await anext(heard)
            assert first["method"] == "notifications/subscriptions/acknowledged"
            assert first["params"]["notifications"] == {"toolsListChanged": True}
            assert first["params"]["_meta"] == {KEY: "L1"}
            for _ in range(2):
                await client.call("new__change")
                assert await anext(heard) == {"jsonrpc": "2.0", "method": CHANGED, "params": {"_meta": {KEY: "L1"}}}
            before = gateway.status()["servers"]["new"]["restarts"]
            os.kill(json.loads((await client.call("new__whoami")).result["content"][0]["text"])["pid"], signal.SIGKILL)
            eventually(lambda: gateway.status()["servers"]["new"]["restarts"] > before, "it is started again", 10)
            gateway.await_servers("new")
            # The new process lists less, which is a change too.
            assert (await anext(heard))["method"] == CHANGED
            await client.call("new__change")
            assert (await anext(heard))["params"]["_meta"] == {KEY: "L1"}


@pytest.mark.parametrize(("client", "server"), [("modern", "legacy"), ("legacy", "modern")])
async def test_a_resource_of_a_server_that_was_started_again_counts_as_changed(
    tmp_path: Path, client: EraName, server: str
) -> None:
    """The client does not see that there is another process, which may serve another state."""
    home = tmp_path / "home"
    home.mkdir()
    with serving(tmp_path, {"servers": {"one": extended("one", server, cwd=str(home))}}) as gateway:
        gateway.await_servers("one")
        talking = await talker(gateway.port, client)
        [resource] = (await talking.ask("resources/list")).result["resources"]
        uri = resource["uri"]
        async with connect(gateway.port) as connection:
            if talking.session is not None:
                await talking.ask("resources/subscribe", {"uri": uri})
                await connection.send(talking.session.get())
            else:
                wanted = {"notifications": {"resourceSubscriptions": [uri]}}
                await connection.send(talking.request("subscriptions/listen", wanted))
            assert (await connection.head())[0] == 200
            heard = connection.messages()
            if client == "modern":
                assert (await anext(heard))["params"]["notifications"] == wanted["notifications"]
            for pid in running_in(home):
                os.kill(pid, signal.SIGKILL)
            async with asyncio.timeout(20):
                updated = await anext(heard)
                while updated["method"] != "notifications/resources/updated":
                    updated = await anext(heard)
            assert updated["params"]["uri"] == uri
