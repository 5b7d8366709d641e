"""Clients of both eras with the same ids, tokens and credentials, all asked at once; ``make soak`` does it longer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.bench.crossed import CLIENTS, Caller, Heard, cross, crossing
from tests.kit.answering import Ended, Json

ROUNDS = 20


@pytest.mark.timeout(120)
async def test_no_answer_question_or_progress_reaches_another_client(tmp_path: Path) -> None:
    """S94, S96, G063."""
    with crossing(tmp_path) as (gateway, keys):
        heard = await cross(gateway, keys, ROUNDS)

    assert heard.wrong == []
    assert heard.answers == heard.questions == CLIENTS * ROUNDS
    assert heard.at_once == CLIENTS
    assert heard.progress >= heard.answers


async def test_what_is_meant_for_another_client_would_be_noticed() -> None:
    heard = Heard()
    caller = Caller(1, heard, asyncio.Barrier(1))
    stranger: Json = {"nonce": "of another", "answer": "of another"}

    class Crossing:
        """An endpoint that gives everybody what belongs to somebody else."""

        async def request(self, method: str, params: Json | None = None, identifier: object = None) -> Ended:
            """Ask, tell and answer wrongly."""
            await caller.answer("elicitation/create", {"message": "of another"})
            progress = {"progressToken": "of another", "message": "of another"}
            notices = [{"method": "notifications/progress", "params": progress}]
            return Ended(200, {"result": {"structuredContent": stranger}}, notices, [("elicitation/create", {})])

    await caller.run(Crossing(), 1)

    assert [line.split(" of ")[0] for line in heard.wrong] == ["question", "progress", "answer"]
