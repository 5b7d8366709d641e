"""Servers that list by who asks (``catalog: principal``): everybody sees and calls its own, and nobody else's."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.kit import clients, pinning, stdio_server, wire
from tests.kit.gateway import Gateway, eventually, serving
from tests.kit.oauth import consent
from tests.kit.personal import Json, Personal, config, gateway, key_of, personal, tool
from tests.kit.wire import EraName

ERAS: tuple[EraName, ...] = ("modern", "legacy")
SCRIPTED = [sys.executable, "-I", "-S", str(Path(stdio_server.__file__))]
OFF: Json = {"pin": {"mode": "off"}}


async def names(running: Gateway, key: str, era: EraName = "modern") -> list[str]:
    """Return the tools that a caller is listed."""
    async with wire.http_client(running.url, era, key) as client:
        return [each["name"] for each in await wire.every(client, "tools/list", "tools")]


async def called(running: Gateway, key: str, name: str, era: EraName = "modern") -> wire.Answer:
    async with wire.http_client(running.url, era, key) as client:
        return await wire.call(client, name)


async def as_principal(running: Gateway, server: Personal, name: str) -> Json:
    """Return what ``tools --as`` says."""
    principal = quote(f"sub:{server.idp.url}/{name}", safe="")
    found: Json = json.loads((await asyncio.to_thread(running.admin, f"/tools?as={principal}"))[1])
    return found


@asynccontextmanager
async def listening(running: Gateway, key: str) -> AsyncIterator[AsyncIterator[Json]]:
    """Open a legacy session and its stream for a block; yields what comes on it."""
    session = clients.LegacySession(running.port, [("Authorization", f"Bearer {key}")])
    await session.begin()
    async with clients.connect(running.port) as stream:
        await stream.send(session.get())
        await stream.head()
        yield stream.messages()


@pytest.mark.parametrize("behind", ERAS)
async def test_two_principals_see_and_call_their_own_tools_alone(tmp_path: Path, behind: EraName) -> None:
    """S75, S101, S129: names of others, of the gateway's own list and of nobody are all the same to who asks."""
    shared, hers, his = tool("search"), tool("payroll"), tool("tickets")
    lists = {"alice": [shared, hers], "bobby": [shared, his], "own": [tool("admin")]}
    async with personal(behind, **lists) as server:
        settings = {**config(server, pin={"mode": "warn"}), "views": {"desk": {"include": ["*/*"], "mode": "search"}}}
        settings["naming"] = {"page_size": 1}
        async with gateway(tmp_path, settings) as running:
            alice, bobby = key_of(server, "alice"), key_of(server, "bobby")
            for era in ERAS:
                assert await names(running, alice, era) == ["crm__search", "crm__payroll"]
                assert await names(running, bobby, era) == ["crm__search", "crm__tickets"]
                assert (await called(running, alice, "crm__payroll", era)).result["structuredContent"] == {}
                refused = [await called(running, bobby, f"crm__{name}", era) for name in ("payroll", "admin", "none")]
                assert len({(answer.status, answer.error["code"]) for answer in refused}) == 1
                texts = [answer.error["message"] for answer in refused]
                assert texts == [f"Unknown tool: crm__{name}" for name in ("payroll", "admin", "none")]
            async with wire.http_client(f"{running.url}/desk", "modern", bobby) as client:
                hits = (await wire.call(client, "search_tools", {"query": "payroll tickets admin search"})).result
                assert "crm__tickets" in str(hits["content"])
                assert "payroll" not in str(hits["content"])
                assert "admin" not in str(hits["content"])
            async with wire.http_client(running.url, "modern", alice) as client:
                first = (await client.request("tools/list", {})).result
                assert first["cacheScope"] == "private"
            async with wire.http_client(running.url, "modern", bobby) as client:
                stolen = await client.request("tools/list", {"cursor": first["nextCursor"]})
                assert stolen.error["code"] == -32602
            seen = await as_principal(running, server, "alice")
            assert [each["tool"] for each in seen["tools"]] == ["crm/search", "crm/payroll"]
            unseen = await as_principal(running, server, "carol")
            assert (unseen["tools"], unseen["hidden"]) == (
                [],
                [{"tool": "crm/*", "why": "its own lists: not read yet"}],
            )
            status = (await asyncio.to_thread(running.status))["servers"]["crm"]
            assert status["own_lists"] == {"known": 2, "failing": 0}
    assert server.lists.called == [("alice", "payroll")] * 2


async def test_lists_that_do_not_come_delay_nobody_and_are_told_of_when_they_do(tmp_path: Path) -> None:
    """S188, G117: one principal's account hangs, another's is broken; the rest is complete, and so is everybody's."""
    async with personal(alice=[tool("a")], bobby=[tool("b")], carol=[tool("c")]) as server:
        server.lists.slow["alice"] = gate = asyncio.Event()
        server.lists.broken.add("carol")
        settings = config(server, **OFF, timeouts={"probe": "1s"})
        settings["servers"]["notes"] = {"command": SCRIPTED[0], "args": SCRIPTED[1:]}
        async with gateway(tmp_path, settings) as running:
            await asyncio.to_thread(running.await_servers, "notes")
            alice, bobby, carol = (key_of(server, name) for name in ("alice", "bobby", "carol"))
            async with wire.http_client(running.url, "modern", alice) as client:
                listed = (await client.request("tools/list", {})).result
                assert "notes__echo" in [each["name"] for each in listed["tools"]]
                assert not any(each["name"].startswith("crm__") for each in listed["tools"])
                assert listed["ttlMs"] == 0
                echoed = await wire.call(client, "notes__echo", {"n": 1})
                assert not echoed.result.get("isError")
            assert "crm__b" in await names(running, bobby)
            assert "notes__echo" in await names(running, carol)
            why = {each["tool"]: each["why"] for each in (await as_principal(running, server, "carol"))["hidden"]}
            assert "its own lists" in why["crm/*"]
            async with listening(running, alice) as messages:
                gate.set()
                assert (await anext(messages))["method"] == "notifications/tools/list_changed"
            assert "crm__a" in await names(running, alice)
    assert server.lists.listed.count("alice") == 1


async def test_the_last_complete_lists_are_served_while_new_ones_cannot_be_had(tmp_path: Path) -> None:
    async with personal(alice=[tool("a")], own=[]) as server:
        async with gateway(tmp_path, config(server, **OFF)) as running:
            await asyncio.to_thread(running.await_servers, "crm")
            await asyncio.to_thread(eventually, lambda: server.lists.listeners, "the gateway listens")
            alice = key_of(server, "alice")
            assert await names(running, alice) == ["crm__a"]
            server.lists.broken.add("alice")
            await server.lists.change()
            await asyncio.to_thread(eventually, lambda: server.lists.listed.count("") > 1, "the gateway lists again")
            assert await names(running, alice) == ["crm__a"]
            assert "error -32603" in (await as_principal(running, server, "alice"))["hidden"][0]["why"]
        assert server.lists.listed.count("alice") == 2


async def test_a_servers_word_reaches_those_who_wait_and_another_config_forgets_everything(tmp_path: Path) -> None:
    """G056, G135."""
    async with personal(alice=[tool("a")], bobby=[tool("b")], own=[]) as server:
        settings = config(server, **OFF)
        async with gateway(tmp_path, settings) as running:
            await asyncio.to_thread(running.await_servers, "crm")
            await asyncio.to_thread(eventually, lambda: server.lists.listeners, "the gateway listens")
            alice, bobby = key_of(server, "alice"), key_of(server, "bobby")
            assert await names(running, bobby) == ["crm__b"]
            async with listening(running, alice) as messages:
                assert await names(running, alice) == ["crm__a"]
                server.lists.lists["alice"] = [tool("a"), tool("new")]
                server.lists.lists["bobby"] = []
                await server.lists.change()
                assert (await anext(messages))["method"] == "notifications/tools/list_changed"
            assert await names(running, alice) == ["crm__a", "crm__new"]
            # Nobody waited for bobby's: they are read when he asks.
            assert server.lists.listed.count("bobby") == 1
            assert await names(running, bobby) == []
            server.lists.lists["alice"] = [tool("other")]
            settings["servers"]["crm"]["headers"] = {"X-Version": "2"}
            await asyncio.to_thread(running.reload, settings)
            assert await names(running, alice) == ["crm__other"]


async def test_pins_hold_single_forms_back_and_an_approval_adds_one(tmp_path: Path) -> None:
    """S139, S142: what one principal is listed first is the pin; other forms and names wait for an operator."""
    one, other = tool("search", "Finds customers."), tool("search", "Finds tickets.")
    lists = {"alice": [one], "bobby": [other, tool("tickets")], "own": [one]}
    async with personal("modern", **lists) as server, gateway(tmp_path, config(server)) as running:
        await asyncio.to_thread(running.await_servers, "crm")
        alice, bobby = key_of(server, "alice"), key_of(server, "bobby")
        assert await names(running, alice) == ["crm__search"]
        assert await names(running, bobby) == []
        assert (await called(running, bobby, "crm__search")).error["code"] == -32602
        shown = (await asyncio.to_thread(pinning.pins, running, "crm"))["differences"]
        assert [(each["aspect"], each["held"]) for each in shown] == [("definition", True), ("new_definition", True)]
        assert shown[0]["item"].startswith("tool:search#")
        changed = {"pointer": "/description", "before": "Finds customers.", "after": "Finds tickets."}
        assert shown[0]["diff"] == [changed]
        cli = await asyncio.to_thread(running.cli, "pins", "show", "crm")
        assert f"crm/{shown[0]['shown']}: definition, held back" in cli.stdout
        assert await asyncio.to_thread(pinning.decide, running, "approve", "crm/search") == 200
        assert await names(running, bobby) == ["crm__search"]
        assert await names(running, alice) == ["crm__search"]
        for key in (alice, bobby):
            assert not (await called(running, key, "crm__search")).result.get("isError")
        item = f"crm/{shown[1]['item']}"
        assert await asyncio.to_thread(pinning.decide, running, "reject", item) == 200
        assert await names(running, bobby) == ["crm__search"]
        assert await asyncio.to_thread(pinning.decide, running, "approve", item) == 200
        assert await names(running, bobby) == ["crm__search", "crm__tickets"]
        assert (await asyncio.to_thread(pinning.pins, running, "crm"))["state"] == "recorded"
        kept = json.loads((tmp_path / "state" / "pins.json").read_text())["servers"]["crm"]["definitions"]
        told = pinning.events(running, "pin.mismatch", server="crm")
    assert {name: len(forms) for name, forms in kept.items()} == {"tool:search": 2, "tool:tickets": 1}
    assert {record["pin"]["connection"] for record in told if "#" in record["pin"]["name"]} == {"principal"}


async def test_a_process_says_of_its_principal_alone_that_its_list_has_changed(tmp_path: Path) -> None:
    """S101: a legacy server whose tools change with what was called, one process for each principal."""
    keys = {name: name[0] * 40 for name in ("alice", "bobby")}
    settings = {
        "servers": {
            "dev": {"command": SCRIPTED[0], "args": [*SCRIPTED[1:], "--era", "legacy"], "catalog": "principal", **OFF}
        },
        "clients": {name: {"key": key} for name, key in keys.items()},
        "policies": [{"name": "all", "clients": ["*"], "allow": ["*/*"]}],
    }
    with serving(tmp_path, settings) as running:
        running.await_servers("dev")
        async with listening(running, keys["alice"]) as hers, listening(running, keys["bobby"]) as his:
            assert "dev__extra0" not in await names(running, keys["alice"])
            assert "dev__extra0" not in await names(running, keys["bobby"], "legacy")
            await called(running, keys["alice"], "dev__change")
            assert (await anext(hers))["method"] == "notifications/tools/list_changed"
            assert "dev__extra0" in await names(running, keys["alice"])
            assert "dev__extra0" not in await names(running, keys["bobby"], "legacy")
            assert (await called(running, keys["bobby"], "dev__extra0")).error["code"] == -32602
            await called(running, keys["bobby"], "dev__change", "legacy")
            assert (await anext(his))["method"] == "notifications/tools/list_changed"
            assert "dev__extra0" in await names(running, keys["bobby"], "legacy")


async def test_who_has_not_signed_in_is_listed_the_tool_to_do_so_and_its_own_tools_after_that(tmp_path: Path) -> None:
    """S46: an account each, and none for the gateway: its own connection is never up, and nobody misses it."""
    keys = {name: name[0] * 40 for name in ("alice", "bobby")}
    people: Json = {"elicitation": {"url": {}, "form": {}}}
    async with personal(alice=[tool("inbox")]) as server:
        server.owners["access-1"] = "alice"
        settings = config(server, auth={"authorization_code": {"per": "principal"}})
        settings = {**settings, "auth": {}, "listen": {}, "clients": {name: {"key": key} for name, key in keys.items()}}
        async with gateway(tmp_path, settings) as running:
            params = {"name": "crm__sign_in", "arguments": {}, "_meta": wire.modern_meta(people)}
            head = f"Bearer {keys['alice']}"

            async def step(**answers: object) -> Json:
                request = clients.modern("tools/call", {**params, **answers}, authorization=head)
                return (await clients.ask(running.port, request)).result

            async with listening(running, keys["alice"]) as messages:
                assert await names(running, keys["alice"]) == ["crm__sign_in"]
                asked = await step()
                page = (await consent(asked["inputRequests"]["sign-in"]["params"]["url"]))[1]
                accepted: Json = {"sign-in": {"action": "accept"}}
                asked = await step(inputResponses=accepted, requestState=asked["requestState"])
                code = page.partition("<strong>")[2].partition("</strong>")[0]
                accepted = {"confirmation": {"action": "accept", "content": {"confirmation": code}}}
                done = await step(inputResponses=accepted, requestState=asked["requestState"])
                assert "Signed in to crm" in done["content"][0]["text"]
                assert (await anext(messages))["method"] == "notifications/tools/list_changed"
            assert await names(running, keys["alice"]) == ["crm__inbox"]
            assert not (await called(running, keys["alice"], "crm__inbox")).result.get("isError")
            assert (await called(running, keys["alice"], "crm__sign_in")).error["code"] == -32602
            assert await names(running, keys["bobby"], "legacy") == ["crm__sign_in"]
            assert (await called(running, keys["bobby"], "crm__inbox")).error["code"] == -32602
            seen = json.loads((await asyncio.to_thread(running.admin, "/tools?as=bobby"))[1])
            assert "has signed in to it" in seen["hidden"][0]["why"]
    assert server.lists.called == [("alice", "inbox")]
