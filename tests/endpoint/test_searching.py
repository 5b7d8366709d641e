from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.config.root import View
from gateway.endpoint.build import Asked, UnknownTarget
from gateway.endpoint.searching import DESCRIPTION, answer
from gateway.model.call import Caller
from gateway.model.principal import Principal
from gateway.protocol.jsonrpc import Request
from gateway.protocol.meta import RequestMeta
from gateway.protocol.rawjson import raw_bytes
from gateway.protocol.versions import Era
from tests.kit.definitions import tool
from tests.kit.endpoint import FakeMoment, config
from tests.kit.endpoint import moment as moment_of

LONG = "words " * 200
BOT = Principal("key:bot", "key", "bot")


def asked(view: str | None = "desk", era: Era = Era.MODERN) -> Asked:
    return Asked(BOT, Caller(era, "2026-07-28", view=view), RequestMeta())


def moment() -> FakeMoment:
    names = ["notes/add", "notes/long"]
    settings = config(views={"desk": View(include=names, mode="search"), "all": View(include=names)})
    tools = (tool("add", description="Adds.", title="Add it"), tool("long", description=LONG))
    return moment_of(settings, {"notes": tools})


def request(called: str, **arguments: Any) -> Request:
    return Request(1, "tools/call", {"name": called, "arguments": arguments})


async def members(called: str, **arguments: Any) -> dict[str, Any]:
    found = await answer(moment(), request(called, **arguments), asked())
    assert found is not None
    return {key: json.loads(raw_bytes(item)) for key, item in found.members.items()}


async def test_hits_are_short() -> None:
    found = await members("search_tools", query="words")
    (hit,) = found["structuredContent"]["tools"]
    assert hit["name"] == "notes__long"
    assert len(hit["description"]) == DESCRIPTION
    assert hit["description"].endswith("…")
    (hit,) = (await members("search_tools", query="add"))["structuredContent"]["tools"]
    assert hit == {"name": "notes__add", "server": "notes", "title": "Add it", "description": "Adds."}


async def test_the_log_gets_a_list_of_as_many_items() -> None:
    found = await answer(moment(), request("search_tools", query="add words"), asked())
    assert found is not None
    assert (found.draft.method, found.items) == ("tools/list", 2)


@pytest.mark.parametrize(("view", "name"), [(None, "search_tools"), ("all", "search_tools"), ("desk", "notes__add")])
async def test_everything_else_is_not_answered_here(view: str | None, name: str) -> None:
    assert await answer(moment(), request(name, query="x"), asked(view)) is None
    assert await answer(moment(), Request(1, "prompts/get", {"name": "search_tools"}), asked(view)) is None


async def test_only_a_modern_answer_has_a_type() -> None:
    for era in Era:
        found = await answer(moment(), request("search_tools", query="add"), asked(era=era))
        assert found is not None
        assert ("resultType" in found.members) is (era is Era.MODERN)


async def test_a_tool_that_is_not_there_is_not_described() -> None:
    with pytest.raises(UnknownTarget, match="Unknown tool: notes__nothing"):
        await answer(moment(), request("describe_tool", name="notes__nothing"), asked())
