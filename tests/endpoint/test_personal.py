"""Requests are served from their principal's own catalog, and wait for it only where the answer depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from aiohttp import web

from gateway.endpoint.guards import Head
from gateway.endpoint.inbound import Inbound
from gateway.endpoint.personal import prepared
from gateway.model.principal import ANONYMOUS
from gateway.protocol.jsonrpc import Message, Notification, Request
from gateway.protocol.rawjson import Object
from tests.kit.definitions import listing, tool
from tests.kit.endpoint import FakeMoment, FakeServices, config, moment


def own(lists: Mapping[str, tuple[str, ...]] | None = None) -> FakeMoment:
    """Return everybody's moment, and by ``lists`` what an anonymous caller sees instead."""
    everybody = replace(moment(config()), own=("crm",))
    if lists is not None:
        named = {server: listing(server, *map(tool, names)) for server, names in lists.items()}
        everybody.portraits[ANONYMOUS.id] = replace(moment(config(), named), own=("crm",))
    return everybody


def inbound(now: FakeMoment) -> Inbound:
    return Inbound(cast("web.BaseRequest", SimpleNamespace()), Head("POST", "/mcp", {}), now, ANONYMOUS, None, "")


def request(method: str, **params: str) -> Request:
    return Request(1, method, cast("Object", params))


async def waits(now: FakeMoment, message: Message | None) -> str:
    """Return what a request does about lists: ``waits``, has them ``read`` beside, or ``nothing``."""
    services = FakeServices(now)
    served = await prepared(services, inbound(now), message)
    seen = now if served.moment is now else now.of(ANONYMOUS)
    assert served.moment is seen
    lists = services.personal
    return "waits" if lists.waited else "read" if lists.refreshed else "nothing"


async def test_nothing_is_asked_where_no_server_lists_by_who_asks() -> None:
    now = moment(config())
    assert await waits(now, request("tools/list")) == "nothing"


KNOWN = {"notes": ("add",), "crm": ("inbox",)}
MISSING = {"notes": ("add",)}


@pytest.mark.parametrize(
    ("lists", "message", "expected"),
    [
        (KNOWN, request("tools/list"), "waits"),
        (KNOWN, request("server/discover"), "waits"),
        (KNOWN, request("initialize"), "waits"),
        (KNOWN, request("tools/call", name="crm__inbox"), "read"),
        (KNOWN, request("tools/call", name="crm__other"), "waits"),
        (MISSING, request("tools/call", name="notes__add"), "read"),
        (MISSING, request("tools/call", name="crm__inbox"), "waits"),
        (KNOWN, request("resources/read", uri="note://1"), "read"),
        (MISSING, request("resources/read", uri="note://1"), "waits"),
        (KNOWN, request("tasks/get", taskId="t"), "read"),
        (KNOWN, request("com.example/thing"), "read"),
        (MISSING, request("ping"), "nothing"),
        (MISSING, Notification("notifications/initialized", {}), "nothing"),
        (KNOWN, None, "waits"),
    ],
)
async def test_a_request_waits_only_for_what_its_answer_depends_on(
    lists: dict[str, tuple[str, ...]], message: Message | None, expected: str
) -> None:
    """S188: one slow server delays no call of another one."""
    assert await waits(own(lists), message) == expected


async def test_what_was_read_meanwhile_counts_unless_the_config_is_another_one() -> None:
    now = own(KNOWN)
    newer = replace(own({"notes": ("add",), "crm": ("new",)}), loaded=now.loaded)
    services = FakeServices(newer)
    served = await prepared(services, inbound(now), request("tools/list"))
    assert served.moment is newer.of(ANONYMOUS)
    services = FakeServices(own({"crm": ("foreign",)}))
    served = await prepared(services, inbound(now), request("tools/list"))
    assert served.moment is now.of(ANONYMOUS)


async def test_what_a_principal_sees_is_made_once_for_a_request() -> None:
    """With many who all see something else it costs more than the rest of a request."""
    for message in (request("tools/call", name="crm__inbox"), request("tools/list")):
        now = own(KNOWN)
        await prepared(FakeServices(now), inbound(now), message)
        assert now.looked == [ANONYMOUS.id]
