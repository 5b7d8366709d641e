"""Changes of resources reach those who subscribed and may read them, under the name they used."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.endpoint.updates import MAX_PARTS, Updates, Watcher
from gateway.model.catalog import Kind
from gateway.model.principal import ANONYMOUS, Principal
from tests.kit.definitions import definition
from tests.kit.endpoint import NOTES, FakeServices, config, moment


class Heard:
    def __init__(self) -> None:
        self.uris: list[str] = []
        self.any = asyncio.Event()

    def __call__(self, uri: str) -> None:
        self.uris.append(uri)
        self.any.set()

    async def wait(self) -> list[str]:
        async with asyncio.timeout(5):
            await self.any.wait()
        return self.uris


def watching(services: FakeServices, *uris: str) -> tuple[Updates, Heard, Watcher]:
    heard = Heard()
    return Updates(services), heard, Watcher(ANONYMOUS, None, set(uris), heard)


async def test_many_updates_of_one_resource_are_one_notification() -> None:
    services = FakeServices(moment())
    updates, heard, watcher = watching(services, "note://one", "notes+note://2")
    updates.subscribe(watcher)
    for _ in range(1000):
        for uri in ("note://one", "note://2", "note://3"):
            services.resource_changed("notes", uri)
    assert await heard.wait() == ["note://one", "notes+note://2"]
    updates.close()


async def test_an_update_of_another_server_with_the_same_uri_is_not_meant() -> None:
    now = moment(lists={"notes": NOTES, "other": (definition(Kind.RESOURCE, "note://one"),)})
    services = FakeServices(now)
    updates, heard, watcher = watching(services, "note://one", "other+note://one")
    updates.subscribe(watcher)
    services.resource_changed("notes", "note://one")
    services.resource_changed("other", "note://one")
    assert await heard.wait() == ["other+note://one"]


async def test_what_is_no_longer_visible_is_not_told() -> None:
    services = FakeServices(moment())
    updates, heard, watcher = watching(services, "note://one", "note://2")
    updates.subscribe(watcher)
    services.now.hides = lambda principal, target: target.name == "note://one"
    services.resource_changed("notes", "note://one")
    services.resource_changed("notes", "note://2")
    assert await heard.wait() == ["note://2"]


async def test_a_part_of_what_was_subscribed_to_is_told_by_its_own_name() -> None:
    """Schema, ResourceUpdatedNotification."""
    services = FakeServices(moment())
    updates, heard, watcher = watching(services, "note://dir", "notes+note://box/")
    updates.subscribe(watcher)
    for uri in ("note://dir/a#x", "note://box/b", "note://directory", "note://box"):
        services.resource_changed("notes", uri)
    assert await heard.wait() == ["note://dir/a#x", "notes+note://box/b"]
    updates.close()


async def test_a_part_that_is_not_visible_is_not_told() -> None:
    services = FakeServices(moment())
    updates, heard, watcher = watching(services, "note://dir")
    updates.subscribe(watcher)
    services.now.hides = lambda principal, target: target.name == "note://dir/secret"
    services.resource_changed("notes", "note://dir/secret")
    services.resource_changed("notes", "note://dir/open")
    assert await heard.wait() == ["note://dir/open"]
    updates.close()


async def test_too_many_parts_at_once_are_the_whole() -> None:
    services = FakeServices(moment())
    updates, heard, watcher = watching(services, "note://dir")
    updates.subscribe(watcher)
    for number in range(10 * MAX_PARTS):
        services.resource_changed("notes", f"note://dir/{number}")
    assert await heard.wait() == [*(f"note://dir/{number}" for number in range(MAX_PARTS)), "note://dir"]
    updates.close()


async def test_an_ended_subscription_hears_nothing_not_even_what_was_due() -> None:
    services = FakeServices(moment())
    updates, heard, watcher = watching(services, "note://one")
    other = Heard()
    unsubscribe = updates.subscribe(watcher)
    updates.subscribe(Watcher(ANONYMOUS, None, {"note://one"}, other))
    services.resource_changed("notes", "note://one")
    unsubscribe()
    assert await other.wait() == ["note://one"]
    assert heard.uris == []
    services.resource_changed("notes", "note://one")
    updates.close()
    assert services.updated == []


async def test_an_update_is_heard_by_those_whose_own_lists_have_the_resource() -> None:
    """S101."""
    alice = Principal("key:alice", "key", "alice")
    now = replace(moment(), own=("crm",))
    now.portraits[alice.id] = moment(config(), {"crm": (definition(Kind.RESOURCE, "crm://inbox"),)})
    services = FakeServices(now)
    updates, hers, watcher = watching(services, "crm://inbox")
    others = Heard()
    updates.subscribe(replace(watcher, principal=alice))
    updates.subscribe(Watcher(ANONYMOUS, None, {"crm://inbox", "note://one"}, others))
    services.resource_changed("crm", "crm://inbox")
    services.resource_changed("notes", "note://one")
    assert await hers.wait() == ["crm://inbox"]
    assert await others.wait() == ["note://one"]


async def test_only_for_those_who_asked_for_it_is_looked_at_what_they_see() -> None:
    """Of many whose lists are their own each look takes a while."""
    services = FakeServices(moment())
    updates, heard, watcher = watching(services, "note://one")
    updates.subscribe(watcher)
    for number in range(100):
        updates.subscribe(replace(watcher, principal=Principal(f"key:{number}", "key", ""), uris={"note://other"}))
    services.resource_changed("notes", "note://one/part")
    assert await heard.wait() == ["note://one/part"]
    assert services.now.looked == [ANONYMOUS.id]
    updates.close()
