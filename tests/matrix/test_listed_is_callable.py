"""What is listed is what can be called: random policies through the real endpoint, every method, both eras."""

from __future__ import annotations

import random
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import pytest

from gateway.auth.authenticate import Authenticator
from gateway.catalog.build import build
from gateway.config.policies import Policy
from gateway.config.root import LoadedConfig
from gateway.model.call import Call
from gateway.model.catalog import Definition, Kind
from gateway.model.outcome import Complete, Outcome
from gateway.pipeline.authorize import Authorize
from gateway.pipeline.interceptor import Chain, Passage
from gateway.pipeline.snapshot import Snapshot
from gateway.policy.engine import Engine
from gateway.protocol import rawjson
from gateway.telemetry.metrics import Metrics
from tests.kit import wire
from tests.kit.clients import connect, modern
from tests.kit.definitions import definition, listing, stdio, tool
from tests.kit.endpoint import ALICE, ALICE_KEY, OFFERED, FakeMoment, Site, keyed, serving
from tests.kit.wire import EraName, HttpClient

POLICIES: Final = 200
MUTATIONS: Final = 2_000
READS: rawjson.Value = {"readOnlyHint": True}
LISTS: Final[dict[str, tuple[Definition, ...]]] = {
    "db": (
        tool("read", annotations=READS),
        tool("drop"),
        tool("admin__read"),
        definition(Kind.PROMPT, "read"),
        definition(Kind.RESOURCE, "db://x/one"),
        definition(Kind.TEMPLATE, "db://x/{id}"),
    ),
    "db admin": (
        tool("read"),
        tool("Read2", annotations={"readOnlyHint": False}),
        definition(Kind.PROMPT, "drop"),
        definition(Kind.RESOURCE, "adm://y/z"),
        definition(Kind.TEMPLATE, "adm://y/{id}/z"),
    ),
}
SELECTORS: Final = (
    "db/read", "db/*", "db*/read", "db/d*", "*/*", "db admin/*", "*/r*d", "prompt:db/*", "prompt:*/drop",
    "resource:db/db://x/*", "resource:*/**", "resource:db admin/adm://y/z", "resource:db/db://x/{id}", "any:db/**",
    "any:*/**", "any:db admin/*", "*/admin__read", "db/read*",
)  # fmt: skip
CONDITIONS: Final = (
    "principal.id == 'key:alice'",
    "tool.annotations.readOnlyHint",
    "'staff' in principal.groups",
    "principal.claims.dept == 'x'",
    "view == ''",
    "tool.name.startsWith('r')",
)


@dataclass(slots=True)
class Reached:
    """The end of the chain: what a server would have been sent."""

    calls: list[Call] = field(default_factory=list)

    async def __call__(self, call: Call, passage: Passage) -> Outcome:
        self.calls.append(call)
        answers: dict[str, rawjson.Object] = {
            "prompts/get": {"messages": []},
            "resources/read": {"contents": []},
            "completion/complete": {"completion": {"values": []}},
            "tools/call": {"content": []},
        }
        return Complete({key: rawjson.raw(value) for key, value in answers.get(call.method, {}).items()})

    def take(self) -> list[tuple[str, str]]:
        """Return what was reached since the last time: servers and own names."""
        taken = [(call.target.server, call.target.name) for call in self.calls]
        self.calls.clear()
        return taken


def snapshot(policies: list[Policy], reached: Reached) -> FakeMoment:
    """Return a real snapshot of these policies over the lists above, for an endpoint that expects a scripted one."""
    settings = keyed(policies=policies)
    settings = settings.model_copy(update={"servers": {name: stdio() for name in LISTS}})
    loaded = LoadedConfig(config=settings, path=Path("gateway.yaml"), digest="00")
    listings = {name: listing(name, *items, era="modern", capabilities=OFFERED) for name, items in LISTS.items()}
    engine = Engine.build(loaded)
    made = Snapshot(
        loaded=loaded,
        catalog=build(settings.naming, settings.servers, listings),
        engine=engine,
        authenticator=Authenticator(loaded, lambda: datetime.now(UTC)),
        chain=Chain([Authorize(engine, Metrics())], reached),
    )
    return cast("FakeMoment", made)


def client_of(site: Site, era: EraName) -> AbstractAsyncContextManager[HttpClient]:
    """Return a client of alice's."""
    return wire.http_client(f"http://127.0.0.1:{site.port}/mcp", era, ALICE_KEY)


def random_policies(dice: random.Random) -> list[Policy]:
    """Return one to three policies; conditions look at no arguments."""

    def rules(most: int) -> list[object]:
        found: list[object] = []
        for _ in range(dice.randint(0, most)):
            selector = dice.choice(SELECTORS)
            plain = dice.random() < 0.6
            found.append(selector if plain else {"tools": selector, "when": dice.choice(CONDITIONS)})
        return found

    return [
        Policy.model_validate(
            {
                "name": f"p{number}",
                "clients": [dice.choice(("alice", "*", "*", "bob", "anonymous"))],
                "allow": rules(4),
                "deny": rules(2),
                "mode": dice.choice(("enforce", "enforce", "enforce", "shadow")),
            }
        )
        for number in range(dice.randint(1, 3))
    ]


async def lists(client: HttpClient) -> dict[Kind, set[str]]:
    """Return every list by what clients see."""
    return {
        Kind.TOOL: {each["name"] for each in await wire.every(client, "tools/list", "tools")},
        Kind.PROMPT: {each["name"] for each in await wire.every(client, "prompts/list", "prompts")},
        Kind.RESOURCE: {each["uri"] for each in await wire.every(client, "resources/list", "resources")},
        Kind.TEMPLATE: {
            each["uriTemplate"] for each in await wire.every(client, "resources/templates/list", "resourceTemplates")
        },
    }


def attempts(now: FakeMoment, era: EraName) -> Iterator[tuple[Kind, str, str, dict[str, Any]]]:
    """Yield every way to reach each thing: its kind and name as clients see it, method and params."""
    argument = {"name": "id", "value": ""}
    for route in now.catalog.routes:
        name, shown = route.name, route.exposed
        match route.kind:
            case Kind.TOOL:
                yield route.kind, shown, "tools/call", {"name": shown, "arguments": {}}
            case Kind.PROMPT:
                yield route.kind, shown, "prompts/get", {"name": shown}
                ref = {"type": "ref/prompt", "name": shown}
                yield route.kind, shown, "completion/complete", {"ref": ref, "argument": argument}
            case Kind.RESOURCE:
                yield route.kind, name, "resources/read", {"uri": name}
                yield route.kind, name, "resources/read", {"uri": f"{route.server}+{name}"}
                if era == "legacy":
                    yield route.kind, name, "resources/subscribe", {"uri": name}
            case Kind.TEMPLATE:
                ref = {"type": "ref/resource", "uri": name}
                yield route.kind, name, "completion/complete", {"ref": ref, "argument": argument}


async def subscribed(site: Site, now: FakeMoment) -> set[str]:
    """Return the resources of which a modern subscription may tell."""
    wanted = [route.name for route in now.catalog.by_kind[Kind.RESOURCE]]
    authorization = ALICE[0][1]
    params = {"notifications": {"resourceSubscriptions": wanted}}
    async with connect(site.port) as connection:
        await connection.send(modern("subscriptions/listen", params, 1, authorization=authorization))
        await connection.head()
        messages = connection.messages()
        acknowledged = await anext(messages)
        return set(acknowledged["params"]["notifications"].get("resourceSubscriptions", []))


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_for_random_policies_what_is_listed_is_what_can_be_reached(era: EraName) -> None:
    """S57, S59, S70, G068, G070, G076: one decision on every way, and the lists say what it is."""
    dice = random.Random(f"policies {era}")
    reached = Reached()
    some = everything = 0
    async with serving(snapshot([], reached)) as site, client_of(site, era) as client:
        for number in range(POLICIES // 2):
            policies = random_policies(dice)
            now = snapshot(policies, reached)
            site.services.now = now
            listed = await lists(client)
            if era == "modern":
                assert await subscribed(site, now) == listed[Kind.RESOURCE]
                reached.take()
            for kind, name, method, params in attempts(now, era):
                reached.take()
                answer = await client.request(method, params)
                passed = "result" in answer.message and "refusal" not in str(answer.message)
                assert passed == (name in listed[kind]), (number, method, params, answer.message)
                if method != "resources/subscribe":
                    assert bool(reached.take()) == passed
                some += passed
                everything += 1
    # Policies that allow all or nothing would prove nothing.
    assert 0.2 < some / everything < 0.8


_LOOKALIKES: Final = str.maketrans("aeopcxd", "аеорсхԁ")
_FULLWIDTH: Final = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
_ODD: Final = (" ", "\t", "\n", "\u00a0", "\ufeff", "\u200b", "\u202e", "\x00", "+", "%00", "\U000e0041", "\u0301")
_CHANGES: Final[tuple[Callable[[str, random.Random], str], ...]] = (
    lambda name, dice: name.swapcase(),
    lambda name, dice: name[:1].swapcase() + name[1:],
    lambda name, dice: name.translate(_LOOKALIKES),
    lambda name, dice: name.translate(_FULLWIDTH),
    lambda name, dice: urllib.parse.quote(name.replace("_", "%5F"), safe="%"),
    lambda name, dice: "".join(f"%{byte:02x}" for byte in name.encode()),
    lambda name, dice: name.replace("_", "%5f", 1) if "_" in name else f"%{ord(name[0]):02X}{name[1:]}",
    lambda name, dice: dice.choice(_ODD) + name,
    lambda name, dice: name + dice.choice(_ODD),
    lambda name, dice: name[: (at := dice.randrange(1, len(name)))] + dice.choice(_ODD) + name[at:],
    lambda name, dice: unicodedata.normalize("NFD", name.replace("a", "á")),
    lambda name, dice: name + name[-1],
    lambda name, dice: name[:-1],
    lambda name, dice: name[1:],
    lambda name, dice: name.replace("__", dice.choice(("_", "___", "/", ".", ":", "__db__", "")), 1),
    lambda name, dice: (
        f"{dice.choice(('db', 'db-admin', 'db admin', 'DB', 'mcp', '..'))}{dice.choice(('__', '/', '.'))}{name}"
    ),
    lambda name, dice: name.partition("__")[2],
    lambda name, dice: "".join(dice.sample(name, len(name))),
)


def mutations(names: list[str], count: int) -> Iterator[str]:
    """Yield names that look like real ones and are none."""
    dice = random.Random("names")
    seen = set(names)
    for number in range(count * 20):
        name = _CHANGES[number % len(_CHANGES)](dice.choice(names), dice)
        for _ in range(dice.randint(0, 1)):
            if len(name) > 1:
                name = dice.choice(_CHANGES)(name, dice)
        if name not in seen:
            seen.add(name)
            yield name
        if len(seen) == count + len(names):
            return
    raise AssertionError("too few different names")


async def test_names_that_look_like_a_name_admit_nothing() -> None:
    """S59, S62, S63, S66, G069, G071, G072: names are compared exactly, and all that are not one are answered alike."""
    reached = Reached()
    now = snapshot([Policy.model_validate({"name": "p", "clients": ["*"], "allow": ["any:*/**"]})], reached)
    tools = [route.exposed for route in now.catalog.by_kind[Kind.TOOL]]
    async with serving(now) as site, client_of(site, "modern") as new, client_of(site, "legacy") as old:
        for number, name in enumerate(mutations(tools, MUTATIONS)):
            client, method = (new, old)[number % 2], ("tools/call", "prompts/get")[number % 7 == 0]
            answer = await client.request(method, {"name": name})
            kind = method[: method.index("s/")]
            assert answer.error["code"] == -32602
            assert answer.error["message"].startswith(f"Unknown {kind}: "), (name, answer.message)
        assert reached.take() == []
        assert len(site.services.refused) == MUTATIONS


async def test_a_selector_reads_no_further_than_the_server_it_names() -> None:
    """S65, S66, G071: neither an exposed name nor a namespace is ever matched."""
    reached = Reached()
    for selector, expected in (
        ("db/*", {"db__read", "db__drop", "db__admin__read"}),
        ("db__*/*", set()),
        ("db-admin/*", set()),
        ("db admin/*", {"db-admin__read", "db-admin__Read2"}),
        ("db/db__read", set()),
        ("*/read", {"db__read", "db-admin__read"}),
        ("DB/*", set()),
    ):
        now = snapshot([Policy.model_validate({"name": "p", "clients": ["alice"], "allow": [selector]})], reached)
        async with serving(now) as site, client_of(site, "modern") as client:
            assert (await lists(client))[Kind.TOOL] == expected, selector
