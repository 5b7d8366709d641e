"""Many clients at once under the same ids and progress tokens, all of them asked at the same moment: nothing crosses.

Clients come in pairs of a modern and a legacy one that share a credential, so that not even a principal tells them
apart. Every call carries a number that its question, its progress and its result must carry too. In the first half
nobody answers before everybody is asked; in the second everybody calls whom they like and answers at once.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from tests.bench import rig
from tests.kit.answering import Ended, Manner, answering
from tests.kit.gateway import Gateway, Json, serving
from tests.matrix.cells import ERAS, EVERYTHING, KINDS, configs, listening_peers

CLIENTS: Final = 50
PROGRESS: Final = "notifications/progress"
SERVERS: Final = tuple(f"{era}-{transport}" for era, transport in KINDS)
TOKEN: Final = "the same for all"
PATIENCE: Final = 30.0


@dataclass(slots=True)
class Heard:
    """What came, and what came to the wrong client. ``at_once`` is the most questions that were open together."""

    answers: int = 0
    questions: int = 0
    progress: int = 0
    at_once: int = 0
    wrong: list[str] = field(default_factory=list)
    _open: int = 0

    def asked(self) -> None:
        """Count a question that is open now."""
        self.questions += 1
        self._open += 1
        self.at_once = max(self.at_once, self._open)

    def answered(self) -> None:
        """Count it as answered."""
        self._open -= 1

    def __str__(self) -> str:
        return (
            f"{self.answers} answers, {self.questions} questions (up to {self.at_once} open at once), "
            f"{self.progress} reports of progress, {len(self.wrong)} wrong"
        )


class Asks(Protocol):
    """What a caller needs of a client."""

    async def request(self, method: str, params: Json | None = None, identifier: object = None) -> Ended:
        """Send a request and answer what is asked until its own answer is there."""


class Caller:
    """One client: what it expects now, and what it hears instead."""

    def __init__(self, number: int, heard: Heard, together: asyncio.Barrier) -> None:
        self.number = number
        self.nonce = ""
        self._heard = heard
        self._together = together
        self._waits = True
        self._random = random.Random(number)

    @property
    def word(self) -> str:
        """The answer to this client's question, which nobody else would give."""
        return f"answer of {self.number} to {self.nonce}"

    async def answer(self, method: str, params: Json) -> Json:
        """Answer in an order of its own, in the first half once every client has been asked."""
        self._expect("question", params.get("message"), self.nonce)
        self._heard.asked()
        if self._waits:
            async with asyncio.timeout(PATIENCE):
                await self._together.wait()
        for _ in range(self._random.randrange(8)):
            await asyncio.sleep(0)
        self._heard.answered()
        return {"action": "accept", "content": {"word": self.word}}

    async def run(self, client: Asks, rounds: int) -> None:
        """Call each server in turn, then any."""
        for turn in range(rounds):
            self._waits = turn * 2 < rounds
            server = SERVERS[(self.number + turn) % len(SERVERS)] if self._waits else self._random.choice(SERVERS)
            self.nonce = f"{self.number}-{turn}-{self._random.getrandbits(32):08x}"
            params = {"name": f"{server}__crossed", "arguments": {"nonce": self.nonce}}
            ended = await client.request("tools/call", params | {"_meta": {"progressToken": TOKEN}}, turn + 1)
            for told in ended.told(PROGRESS):
                self._heard.progress += 1
                self._expect("progress", (told["progressToken"], told["message"]), (TOKEN, self.nonce))
            wanted = {"nonce": self.nonce, "answer": self.word}
            self._expect("answer", ended.message.get("result", {}).get("structuredContent"), wanted)
            self._expect("questions", len(ended.questions), 1)
            self._heard.answers += 1

    def _expect(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            self._heard.wrong.append(f"{what} of client {self.number}: {found!r} instead of {wanted!r}")


async def cross(gateway: Gateway, keys: list[str], rounds: int) -> Heard:
    """Let ``CLIENTS`` clients call so many times each."""
    heard, together = Heard(), asyncio.Barrier(CLIENTS)
    async with AsyncExitStack() as stack:
        callers = []
        for number in range(CLIENTS):
            caller = Caller(number, heard, together)
            manner = Manner(EVERYTHING, caller.answer, keys[number // 2])
            client = await stack.enter_async_context(answering(gateway.url, ERAS[number % 2], manner))
            callers.append((caller, client))
        async with asyncio.TaskGroup() as group:
            for caller, client in callers:
                group.create_task(caller.run(client, rounds))
    return heard


@contextmanager
def crossing(folder: Path) -> Iterator[tuple[Gateway, list[str]]]:
    """Serve all four kinds of servers to as many principals as there are pairs; yields their keys too."""
    keys = {f"pair-{number}": os.urandom(24).hex() for number in range(CLIENTS // 2)}
    with listening_peers(folder) as peers:
        config = {
            "servers": configs(folder, peers, asks=["elicitation"], max_instances=CLIENTS),
            "clients": {name: {"key": key} for name, key in keys.items()},
            "policies": [{"name": "all", "clients": [*keys], "allow": ["*/*"]}],
            "limits": rig.MANY,
        }
        peers.listening()
        with serving(folder / "gateway", config) as gateway:
            gateway.await_servers(*SERVERS)
            yield gateway, [*keys.values()]


def crossed(folder: Path, calls: int) -> list[str]:
    """Run it whole; returns everything that went wrong."""
    with crossing(folder) as (gateway, keys):
        began = time.monotonic()
        heard = asyncio.run(cross(gateway, keys, calls // CLIENTS))
        rig.show(f"{heard} in {time.monotonic() - began:.1f} s")
    problems = [*heard.wrong[:20], *rig.audit_problems(gateway), *rig.stderr_problems(gateway)]
    if heard.at_once != CLIENTS:
        problems.append(f"only {heard.at_once} questions were open at once")
    return problems
