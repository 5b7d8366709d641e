"""List changes reach those who may see the server, once for many changes (contract: Change notifications)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Literal

from gateway.config.root import View
from gateway.endpoint.announcements import Announcements, Subscriber
from gateway.model.catalog import Kind
from gateway.model.principal import ANONYMOUS, Principal
from tests.kit.definitions import tool
from tests.kit.endpoint import NOTES, FakeMoment, FakeServices, config, moment

TOOLS, PROMPTS, RESOURCES = (f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources"))


class Heard:
    def __init__(self) -> None:
        self.methods: asyncio.Queue[str] = asyncio.Queue()

    def __call__(self, method: str) -> None:
        self.methods.put_nowait(method)

    async def next(self) -> str:
        async with asyncio.timeout(5):
            return await self.methods.get()

    async def nothing(self) -> bool:
        """Wait a good while longer than changes are held together."""
        await asyncio.sleep(0.15)
        return self.methods.empty()


def listening(services: FakeServices, *kinds: Kind) -> tuple[Announcements, Heard, Subscriber]:
    heard = Heard()
    announcements = Announcements(services)
    subscriber = Subscriber(ANONYMOUS, None, frozenset(kinds or Kind), heard)
    return announcements, heard, subscriber


async def test_many_changes_are_one_notification() -> None:
    """S94, T28."""
    services = FakeServices(moment())
    announcements, heard, subscriber = listening(services)
    announcements.subscribe(subscriber)
    for _ in range(1000):
        services.changed("notes", Kind.TOOL)
    assert await heard.next() == TOOLS
    assert await heard.nothing()
    services.changed("notes", Kind.PROMPT)
    assert await heard.next() == PROMPTS


async def test_resources_and_templates_are_one_list_to_hear_of() -> None:
    services = FakeServices(moment())
    announcements, heard, subscriber = listening(services)
    announcements.subscribe(subscriber)
    services.changed("notes", Kind.TEMPLATE, Kind.RESOURCE)
    assert await heard.next() == RESOURCES
    assert await heard.nothing()


async def test_a_change_of_a_hidden_server_is_not_heard_of() -> None:
    now = moment(lists={"notes": NOTES, "secret": (tool("s"),)})
    now.hides = lambda principal, target: target.server == "secret"
    services = FakeServices(now)
    announcements, heard, subscriber = listening(services)
    announcements.subscribe(subscriber)
    services.changed("secret", Kind.TOOL)
    assert await heard.nothing()


async def test_a_kind_nobody_asked_for_is_not_heard_of() -> None:
    services = FakeServices(moment())
    announcements, heard, subscriber = listening(services, Kind.PROMPT)
    announcements.subscribe(subscriber)
    services.changed("notes", Kind.TOOL)
    assert await heard.nothing()


async def test_a_server_whose_last_tool_went_is_heard_of_once() -> None:
    services = FakeServices(moment())
    announcements, heard, subscriber = listening(services)
    announcements.subscribe(subscriber)
    services.now = moment(lists={"notes": ()})
    services.changed("notes", Kind.TOOL)
    assert await heard.next() == TOOLS
    services.changed("notes", Kind.TOOL)
    assert await heard.nothing()


async def test_a_server_whose_first_tool_came_is_heard_of() -> None:
    services = FakeServices(moment(lists={"notes": ()}))
    announcements, heard, subscriber = listening(services)
    announcements.subscribe(subscriber)
    services.now = moment()
    services.changed("notes", Kind.TOOL)
    assert await heard.next() == TOOLS


async def test_a_reload_is_heard_of_where_it_changed_what_is_seen() -> None:
    """G056: and not where it did not."""
    services = FakeServices(moment())
    announcements, heard, subscriber = listening(services)
    announcements.subscribe(subscriber)
    services.now = moment()
    announcements.refresh(lambda principal: principal)
    assert await heard.nothing()
    services.now = moment()
    services.now.hides = lambda principal, target: target.kind is Kind.PROMPT
    announcements.refresh(lambda principal: None)
    assert await heard.next() == PROMPTS
    assert await heard.nothing()


async def test_an_ended_subscription_hears_nothing_not_even_what_was_due() -> None:
    services = FakeServices(moment())
    announcements, heard, subscriber = listening(services)
    unsubscribe = announcements.subscribe(subscriber)
    services.changed("notes", Kind.TOOL)
    unsubscribe()
    unsubscribe()
    assert (len(announcements), await heard.nothing()) == (0, True)


async def test_closing_ends_every_subscription() -> None:
    services = FakeServices(moment())
    announcements, heard, subscriber = listening(services)
    announcements.subscribe(subscriber)
    services.changed("notes", Kind.TOOL)
    announcements.close()
    assert services.listeners == []
    assert await heard.nothing()


async def test_a_view_in_search_mode_hears_of_its_tools_only_when_its_mode_changes() -> None:
    def moment_in(mode: Literal["list", "search"]) -> FakeMoment:
        include = ["notes/add", "notes/greet"]
        return moment(config(views={"desk": View(include=include, mode=mode)}))

    services = FakeServices(moment_in("search"))
    announcements, heard, subscriber = listening(services, Kind.TOOL, Kind.PROMPT)
    subscriber.view = "desk"
    announcements.subscribe(subscriber)
    services.changed("notes", Kind.TOOL, Kind.PROMPT)
    assert await heard.next() == PROMPTS
    assert await heard.nothing()
    services.reload(moment_in("list"))
    announcements.refresh(lambda principal: principal)
    assert await heard.next() == TOOLS
    assert await heard.nothing()


async def test_the_lists_of_one_principal_are_news_for_that_one_alone() -> None:
    """S101."""
    alice, bobby = (Principal(f"key:{name}", "key", name) for name in ("alice", "bobby"))
    now = replace(moment(), own=("crm",))
    services = FakeServices(now)
    announcements, hers, _ = listening(services, Kind.TOOL)
    his = Heard()
    for principal, heard in ((alice, hers), (bobby, his)):
        now.portraits[principal.id] = moment(config(), {"crm": (tool("t"),)})
        announcements.subscribe(Subscriber(principal, None, frozenset({Kind.TOOL}), heard))
    services.personal.changed("crm", alice.id, Kind.TOOL)
    assert await hers.next() == TOOLS
    services.personal.changed("crm", alice.id, Kind.PROMPT)
    services.personal.changed("other", alice.id, Kind.TOOL)
    assert await hers.nothing()
    now.portraits[bobby.id] = moment(config(), {"crm": (tool("t"), tool("u"))})
    services.personal.changed("crm", None, *Kind)
    assert await his.next() == TOOLS
    assert await his.nothing()
    assert await hers.nothing()


async def test_who_listens_is_followed_until_it_leaves() -> None:
    services = FakeServices(moment())
    announcements, _, subscriber = listening(services)
    unsubscribe = announcements.subscribe(subscriber)
    assert services.personal.followed == {ANONYMOUS.id: 1}
    unsubscribe()
    unsubscribe()
    assert services.personal.followed == {ANONYMOUS.id: 0}
    announcements.close()
    assert services.personal.listeners == []
