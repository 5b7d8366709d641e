"""Questions of one call by key, and what stands in for an answer that nobody gives; see also test_parking."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.downstream.dialect import Events
from gateway.downstream.questions import MAX_OPEN, Questions, Roots, declined, told
from gateway.downstream.transport import Answer
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Object, Value
from tests.kit.transport import FakeTransport
from tests.kit.transport import peer as peer_of

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
YES: Object = {"action": "accept"}


async def test_each_question_has_a_key_of_its_own_and_an_answer_reaches_its_own_question() -> None:
    made = Questions(Roots())
    first, second = made.put(ELICIT, {"message": rawjson.raw("?")}), made.put(SAMPLE, {})
    assert first is not None
    assert second is not None
    assert [rawjson.peek(each) for each in made.requests.values()] == [
        {"method": ELICIT, "params": {"message": "?"}},
        {"method": SAMPLE},
    ]
    one, two = sorted(made.keys)
    made.answer({one}, {one: YES, two: YES})
    assert first.result() == {"action": rawjson.raw("accept")}
    assert (second.done(), sorted(made.keys)) == (False, [two])
    made.answer({two}, {two: 7})
    assert not second.done()
    made.answer({two}, {two: None})
    assert isinstance(second.result(), ErrorObject)


async def test_a_clients_own_error_is_the_answer() -> None:
    made, no = Questions(Roots()), ErrorObject(-1, "User rejected sampling request", rawjson.raw({"k": 1}))
    refused, answered = made.put(SAMPLE, {}), made.put(ELICIT, {})
    assert refused is not None
    assert answered is not None
    one, two = sorted(made.keys)
    made.answer(made.keys, {one: None, two: YES}, {one: no})
    assert refused.result() is no
    assert answered.result() == {"action": rawjson.raw("accept")}


async def test_a_question_whose_server_has_gone_takes_its_answer_all_the_same() -> None:
    made = Questions(Roots())
    later = made.put(ELICIT, {})
    assert later is not None
    later.cancel()
    made.answer(made.keys, dict.fromkeys(made.keys, YES))
    assert len(made) == 0


async def test_roots_are_learned_from_answers_and_given_where_nobody_can_be_asked() -> None:
    roots = Roots()
    assert declined(ROOTS, roots) == {"roots": rawjson.raw([])}
    made = Questions(roots)
    made.put(ROOTS, {})
    known: Object = {"roots": [{"uri": "file:///home"}]}
    made.answer(made.keys, dict.fromkeys(made.keys, known))
    assert declined(ROOTS, roots) == {"roots": rawjson.raw(known["roots"])}


async def test_there_are_only_so_many_and_all_can_be_dropped() -> None:
    made = Questions(Roots())
    given = [made.put(ELICIT, {}) for _ in range(MAX_OPEN + 1)]
    assert given[-1] is None
    made.drop()
    assert len(made) == 0
    assert all(each.cancelled() for each in given if isinstance(each, asyncio.Future))


async def test_a_question_that_is_not_wanted_any_more_is_taken_back_by_its_key() -> None:
    taken: list[str] = []
    made = Questions(Roots(), taken.append)
    first, second = made.put(ELICIT, {}), made.put(SAMPLE, {})
    assert first is not None
    assert second is not None
    one, two = sorted(made.keys)
    first.cancel()
    await asyncio.sleep(0)
    assert (taken, list(made.keys)) == ([one], [two])
    made.answer({two}, {two: YES})
    await asyncio.sleep(0)
    assert taken == [one]


async def test_questions_that_are_dropped_are_taken_back_once() -> None:
    taken: list[str] = []
    made = Questions(Roots(), taken.append)
    later = made.put(ELICIT, {})
    made.drop()
    await asyncio.sleep(0)
    assert later is not None
    assert (later.cancelled(), len(taken), len(made)) == (True, 1, 0)


async def test_what_a_server_says_of_its_questions_is_taken_and_nothing_else() -> None:
    pages: list[str] = []
    transport = FakeTransport({})
    peer = replace(peer_of(transport), events=Events(elicited=pages.append))
    later: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    transport.owed.deliver("q", later, lambda answer: None)
    odds: list[Value] = [None, 1.5, ["q"], {}]
    for odd in odds:
        assert told(peer, "notifications/cancelled", {"requestId": rawjson.raw(odd)})
    assert not later.cancelled()
    assert told(peer, "notifications/cancelled", {"requestId": rawjson.raw("q")})
    assert later.cancelled()
    assert told(peer, "notifications/elicitation/complete", {"elicitationId": rawjson.raw("p")})
    assert told(peer, "notifications/elicitation/complete", {})
    assert pages == ["p"]
    assert not told(peer, "notifications/tools/list_changed", {})
