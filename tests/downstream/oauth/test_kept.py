"""A token that cannot be kept at once is kept as soon as that works, and nobody spends its predecessor meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.downstream.oauth import kept
from gateway.downstream.oauth.kept import Kept, Owed
from gateway.downstream.oauth.token import Token
from gateway.downstream.oauth.vault import MemoryVault
from gateway.protocol.rawjson import Object
from gateway.tasks import TaskSet
from tests.kit.processes import eventually

OLD, NEW, OTHER = (Token(access, "https://idp", "https://mcp") for access in ("old", "new", "other"))


class Failing(MemoryVault):
    """Takes nothing while it is away."""

    away = True
    tries = 0

    def store(self, value: Object, *context: str) -> bool:
        self.tries += 1
        return not self.away and super().store(value, *context)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "AGAIN", 0.01)
    monkeypatch.setattr(kept, "LONGEST", 0.02)


async def test_it_is_tried_until_it_works_and_told_then() -> None:
    vault, tasks, told = Failing(), TaskSet(lambda name, error: None), asyncio.Event()
    place = Kept(vault, tasks, "a", "")

    async def then() -> None:
        told.set()

    assert await place.save(NEW) is False
    place.save_soon(Owed(NEW, lambda: True, then=then), 0.01)
    await eventually(lambda: vault.tries >= 4)
    assert (place.is_behind, told.is_set()) == (True, False)
    vault.away = False
    async with asyncio.timeout(5):
        await told.wait()
    assert await place.load() == NEW
    await eventually(lambda: not place.is_behind)
    await tasks.aclose()


@pytest.mark.parametrize("why", ["another is kept", "another is here"])
async def test_what_is_newer_stays(why: str) -> None:
    vault, tasks = Failing(), TaskSet(lambda name, error: None)
    place = Kept(vault, tasks, "a", "")
    vault.away = False
    await place.save(OLD)
    vault.away = True
    place.save_soon(Owed(NEW, lambda: why != "another is here", lambda found: found != OLD))
    if why == "another is kept":
        await eventually(lambda: vault.tries >= 3)
        MemoryVault.store(vault, OTHER.as_object(), "a", "token", "")
    await eventually(lambda: not place.is_behind)
    assert await place.load() == (OTHER if why == "another is kept" else OLD)
    await tasks.aclose()


async def test_one_that_is_cut_off_is_not_waited_for(tmp_path: Path) -> None:
    tasks = TaskSet(lambda name, error: None)
    place = Kept(Failing(), tasks, "a", "")
    place.save_soon(Owed(NEW, lambda: True))
    await tasks.aclose()
    assert not place.is_behind
