"""Clients of both eras who call through a balancer until told to stop, and remember how each call ended."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import aiohttp

from tests.kit.answering import AnsweringClient, Manner, answering
from tests.kit.cluster import outcome
from tests.kit.wire import EraName

Json: TypeAlias = dict[str, Any]

FORM: Final[Json] = {"elicitation": {"form": {}}}
YES: Final[Json] = {"action": "accept", "content": {"word": "yes"}}
ASKED_EVERY: Final = 4
"""Every so many calls are one whose server asks."""


async def says_yes(method: str, params: Json) -> Json:
    """Answer every form."""
    return YES


def manner(key: str, capabilities: Json | None = None) -> Manner:
    """Return how a client comes that answers every form."""
    return Manner(FORM if capabilities is None else capabilities, says_yes, key)


@dataclass(slots=True)
class Crowd:
    """Who calls what: ``plain`` is a tool that answers at once, ``asks`` are tools whose servers ask first."""

    url: str
    key: str
    plain: tuple[str, ...]
    asks: tuple[str, ...] = ()
    pause: float = 0.1
    ended: Counter[str] = field(default_factory=Counter)
    """Calls by era and how they ended."""
    broken: list[str] = field(default_factory=list)
    """Calls without an answer of the gateway."""
    longest: dict[str, float] = field(default_factory=dict)
    """Seconds of the longest call, by tool and how it ended."""
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def run(self, modern: int, legacy: int) -> None:
        """Call with so many clients of each era until stopped."""
        async with asyncio.TaskGroup() as group:
            for era, count in (("modern", modern), ("legacy", legacy)):
                for _ in range(count):
                    group.create_task(self._one("modern" if era == "modern" else "legacy"))

    async def _one(self, era: EraName) -> None:
        async with answering(self.url, era, manner(self.key)) as client:
            while not self.stopped.is_set():
                number = next(self._numbers)
                tool = self.plain[number % len(self.plain)]
                if self.asks and number % ASKED_EVERY == 0:
                    tool = self.asks[number // ASKED_EVERY % len(self.asks)]
                await self._call(client, era, tool, number)
                await asyncio.sleep(self.pause)

    async def _call(self, client: AnsweringClient, era: EraName, tool: str, number: int) -> None:
        began = time.monotonic()
        try:
            ended = await client.call(tool, {"n": number})
        except (aiohttp.ClientError, AssertionError, ExceptionGroup, TimeoutError) as error:
            self.broken.append(f"{era} {tool}: {error!r}")
            return
        if not ended.message:
            self.broken.append(f"{era} {tool}: {ended.status}")
            return
        end = outcome(ended.message)
        self.ended[f"{era} {end}"] += 1
        name = f"{era} {tool} {end}"
        self.longest[name] = max(time.monotonic() - began, self.longest.get(name, 0.0))
