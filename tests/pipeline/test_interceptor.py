"""Steps run in their order, each around the ones after it."""

from __future__ import annotations

from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Outcome
from gateway.pipeline.interceptor import CallNext, Chain, Passage
from tests.kit.calls import OK, Next, call


class Noting:
    def __init__(self, name: str, notes: list[str], answer: Outcome | None = None) -> None:
        self.name = name
        self._notes = notes
        self._answer = answer

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        self._notes.append(f"{self.name} in")
        outcome = self._answer or await call_next(call, passage)
        self._notes.append(f"{self.name} out")
        return outcome


async def test_the_first_step_is_the_outermost() -> None:
    notes: list[str] = []
    chain = Chain([Noting("one", notes), Noting("two", notes)], Next())
    assert await chain.run(call(), Exchange()) is OK
    assert notes == ["one in", "two in", "two out", "one out"]


async def test_a_step_that_answers_itself_keeps_the_rest_from_running() -> None:
    notes: list[str] = []
    end = Next()
    await Chain([Noting("one", notes, OK), Noting("two", notes)], end).run(call(), Exchange())
    assert notes == ["one in", "one out"]
    assert end.calls == []


async def test_every_call_gets_a_passage_of_its_own() -> None:
    seen: list[Passage] = []

    async def end(call: Call, passage: Passage) -> Outcome:
        seen.append(passage)
        return OK

    chain = Chain([], end)
    first, second = Exchange(), Exchange()
    await chain.run(call(), first)
    await chain.run(call(), second)
    assert [way.exchange for way in seen] == [first, second]
