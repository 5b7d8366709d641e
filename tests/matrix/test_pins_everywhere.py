"""One character anywhere: in every text, number and name of a tool, a prompt or a template, and that one alone."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit import wire
from tests.kit.gateway import Json, serving
from tests.kit.pinning import Definitions, await_state, pins, tool, twenty
from tests.kit.wire import Client, EraName

KEY: Final = "k" * 40
TURNS: Final = 12
RICH: Final[Json] = {
    "title": "Seven",
    "annotations": {"readOnlyHint": True, "title": "Seven"},
    "icons": [{"src": "https://s.example/icon.png", "sizes": ["48x48"]}],
    "outputSchema": {"type": "object", "properties": {"n": {"type": "number", "maximum": 10}}},
    "_meta": {"s.example/team": {"owner": "ops", "level": 3}},
    "x-unknown": [1, {"deep": ["text"]}],
}
PROMPT: Final[Json] = {
    "name": "p",
    "title": "Prompt",
    "description": "Says it.",
    "arguments": [{"name": "a", "description": "what", "required": True}],
    "_meta": {"s.example/team": "ops"},
}
TEMPLATE: Final[Json] = {
    "uriTemplate": "note://all/{id}",
    "name": "notes",
    "description": "All notes.",
    "mimeType": "text/plain",
    "annotations": {"audience": ["user"], "priority": 0.5},
}
WHERE: Final = {"tools": 7, "prompts": 0, "resourceTemplates": 0}
IDENTITY: Final = ("name", "uriTemplate")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything that is no container."""
    match value:
        case dict():
            for key, item in value.items():
                yield from leaves(item, (*path, key))
        case list():
            for at, item in enumerate(value):
                yield from leaves(item, (*path, at))
        case _:
            yield path


def change(value: Any, path: tuple[Any, ...], dice: random.Random) -> None:
    """Change one character of what stands at a path."""
    for step in path[:-1]:
        value = value[step]
    before = value[path[-1]]
    match before:
        case bool():
            value[path[-1]] = not before
        case str():
            at = dice.randrange(len(before))
            value[path[-1]] = before[:at] + ("x" if before[at] != "x" else "y") + before[at + 1 :]
        case _:
            value[path[-1]] = before + 1


async def seen(client: Client) -> dict[str, list[str]]:
    """Return what a client is shown of each kind."""
    return {
        "tools": [each["name"] for each in await wire.every(client, "tools/list", "tools")],
        "prompts": [each["name"] for each in await wire.every(client, "prompts/list", "prompts")],
        "resourceTemplates": [
            each["uriTemplate"] for each in await wire.every(client, "resources/templates/list", "resourceTemplates")
        ],
    }


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_one_character_anywhere_hides_and_blocks_that_one_alone(era: EraName, tmp_path: Path) -> None:
    """S138, G110: nothing in a definition is too small, too deep or too little known to count."""
    dice = random.Random(f"one character {era}")
    tools = twenty()
    tools[7] = tool("t7", **RICH)
    members: Json = {"prompts": [PROMPT], "resourceTemplates": [TEMPLATE]}
    defined = Definitions(tmp_path / "s.json", tools, **members)
    config = {"servers": {"s": defined.server("--era", era)}, "clients": {"bot": {"key": KEY}}}
    original = copy.deepcopy(defined.body)
    places = [(kind, path) for kind, at in WHERE.items() for path in leaves(original[kind][at])]
    places = [(kind, path) for kind, path in places if path[0] not in IDENTITY]
    with serving(tmp_path / "gateway", config) as gateway:
        gateway.await_servers("s")
        await_state(gateway, "s", "recorded")
        async with wire.http_client(gateway.url, era, KEY) as client:
            everything = await seen(client)
            for kind, path in dice.sample(places, TURNS):
                defined.body = copy.deepcopy(original)
                change(defined.body[kind][WHERE[kind]], path, dice)
                defined.write()
                await_state(gateway, "s", "changed")
                lost = everything[kind][WHERE[kind]]
                assert len(pins(gateway, "s")["differences"]) == 1, path
                expected = everything | {kind: [each for each in everything[kind] if each != lost]}
                assert await seen(client) == expected, path
                match kind:
                    case "tools":
                        answer = await wire.call(client, lost)
                    case "prompts":
                        answer = await client.request("prompts/get", {"name": lost})
                    case _:
                        answer = await client.request("resources/read", {"uri": "note://all/1"})
                assert answer.error["code"] in (-32602, -32002), path
                assert "isError" not in (await wire.call(client, "s__t8")).result
                defined.body = copy.deepcopy(original)
                defined.write()
                await_state(gateway, "s", "recorded")
                assert await seen(client) == everything
