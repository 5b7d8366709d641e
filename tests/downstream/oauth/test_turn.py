"""Turns: one replica at a time, given on, taken over from who is gone, and refused where nobody can tell."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.downstream.oauth import turn as turns
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.turn import turn
from gateway.downstream.oauth.vault import MemoryVault, SealedVault
from gateway.state.documents import ABSENT
from gateway.state.folder import FolderDocuments
from gateway.state.sealing import Sealer

CONTEXT = ("a", "token", "")


def vault(folder: Path) -> SealedVault:
    return SealedVault(FolderDocuments(folder, shared=True), Sealer([b"k" * 32]))


async def test_one_has_its_turn_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PAUSE", 0.01)
    inside, most = 0, 0

    async def work(who: SealedVault) -> None:
        nonlocal inside, most
        async with turn(who, *CONTEXT):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.02)
            inside -= 1

    async with asyncio.timeout(5):
        await asyncio.gather(*(work(vault(tmp_path)) for _ in range(4)))
    assert most == 1
    assert FolderDocuments(tmp_path).names("credentials/") == []


async def test_a_turn_that_was_left_behind_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = vault(tmp_path)
    is_ours, version = gone.begin_turn(ABSENT, *CONTEXT)
    assert is_ours
    monkeypatch.setattr(turns, "PAUSE", 0.01)
    monkeypatch.setattr(turns, "LONGEST", 0.05)
    async with asyncio.timeout(5), turn(vault(tmp_path), *CONTEXT):
        # Who comes back finds that it is not its own turn any more, and ends nobody else's.
        gone.end_turn(version, *CONTEXT)
        assert vault(tmp_path).begin_turn(ABSENT, *CONTEXT)[0] is False
    assert vault(tmp_path).begin_turn(ABSENT, *CONTEXT)[0] is True


async def test_other_contexts_do_not_wait(tmp_path: Path) -> None:
    async with asyncio.timeout(5), turn(vault(tmp_path), *CONTEXT), turn(vault(tmp_path), "a", "token", "key:alice"):
        pass


async def test_nobody_renews_while_the_shared_place_is_away(tmp_path: Path) -> None:
    own = vault(tmp_path / "gone")
    with pytest.raises(NoToken, match="cannot be reached"):
        async with turn(own, *CONTEXT):
            raise AssertionError


async def test_who_shares_nothing_waits_for_nobody(tmp_path: Path) -> None:
    alone = SealedVault(FolderDocuments(tmp_path), Sealer([b"k" * 32]))
    async with asyncio.timeout(5), turn(alone, *CONTEXT), turn(alone, *CONTEXT), turn(MemoryVault(), *CONTEXT):
        assert FolderDocuments(tmp_path).names("") == []
