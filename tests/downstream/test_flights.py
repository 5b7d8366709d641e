"""Deadlines and the addresses of notifications (S94, G015, G052, G054)."""

from __future__ import annotations

import asyncio

import pytest

from gateway.downstream.flights import Flights
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Caller
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era
from tests.kit.transport import Client, call, members

PROGRESS, LOG = "notifications/progress", "notifications/message"


def flights(violations: list[str], seconds: float = 5.0, longest: float = 5.0, *, by_request: bool = False) -> Flights:
    return Flights("a", seconds, longest, by_request, violations.append)


async def test_two_calls_with_the_same_client_token_hear_only_their_own_progress() -> None:
    violations: list[str] = []
    one, two, board = Client(), Client(), flights(violations)
    async with (
        board.fly(call(progress_token=1), one.exchange()) as first,
        board.fly(call(progress_token=1), two.exchange()) as second,
    ):
        assert first.token != second.token
        board.notification(PROGRESS, members(progressToken=first.token, progress=1, message="half"))
        board.notification(PROGRESS, members(progressToken=second.token, progress=7))
        board.notification(PROGRESS, members(progressToken=1, progress=2))
        board.notification(PROGRESS, members(progressToken="other", progress=2))
    assert one.heard == [(PROGRESS, {"progressToken": 1, "progress": 1, "message": "half"})]
    assert two.heard == [(PROGRESS, {"progressToken": 1, "progress": 7})]
    assert violations == ["bad_progress", "bad_progress"]


@pytest.mark.parametrize("token", ["t", 0, "", 7])
async def test_the_clients_token_comes_back_in_value_and_type(token: int | str) -> None:
    client, board = Client(), flights([])
    async with board.fly(call(progress_token=token), client.exchange()) as flight:
        board.notification(PROGRESS, members(progressToken=flight.token, progress=0.5))
    assert client.heard[0][1]["progressToken"] == token
    assert type(client.heard[0][1]["progressToken"]) is type(token)


async def test_progress_after_the_answer_is_dropped() -> None:
    violations: list[str] = []
    client, board = Client(), flights(violations)
    async with board.fly(call(progress_token=1), client.exchange()) as flight:
        pass
    board.notification(PROGRESS, members(progressToken=flight.token, progress=1))
    assert client.heard == []
    assert violations == ["bad_progress"]
    assert len(board) == 0


async def test_progress_behind_the_answer_is_dropped_although_the_caller_has_not_read_it_yet() -> None:
    """G054: both came in one piece; a call that is sent once more may report again."""
    violations: list[str] = []
    client, board = Client(), flights(violations)
    async with board.fly(call(progress_token=1), client.exchange()) as flight:
        flight.mark_sent()
        flight.mark_answered()
        board.notification(PROGRESS, members(progressToken=flight.token, progress=1))
        assert (client.heard, violations) == ([], ["bad_progress"])
        flight.mark_sent()
        board.notification(PROGRESS, members(progressToken=flight.token, progress=2))
    assert [said["progress"] for _, said in client.heard] == [2]


async def test_progress_that_shrinks_or_is_no_number_is_counted_and_dropped() -> None:
    violations: list[str] = []
    client, board = Client(), flights(violations)
    async with board.fly(call(progress_token=1), client.exchange()) as flight:
        for value in (2, 1, "3", True, None):
            board.notification(PROGRESS, members(progressToken=flight.token, progress=value))
        board.notification(PROGRESS, members(progressToken=flight.token))
    assert [said["progress"] for _, said in client.heard] == [2]
    assert violations == ["bad_progress", *["bad_progress"] * 4]


async def test_progress_on_the_stream_of_another_call_is_dropped() -> None:
    violations: list[str] = []
    one, two, board = Client(), Client(), flights(violations)
    async with (
        board.fly(call(progress_token=1), one.exchange()) as first,
        board.fly(call(progress_token=2), two.exchange()) as second,
    ):
        board.notification(PROGRESS, members(progressToken=first.token, progress=1), second)
    assert one.heard == two.heard == []
    assert violations == ["bad_progress"]


async def test_a_call_that_asked_for_no_progress_has_no_token() -> None:
    async with flights([]).fly(call(), Client().exchange()) as flight:
        assert flight.token is None


async def test_reserved_meta_of_notifications_stays_on_the_servers_hop() -> None:
    client, board = Client(), flights([])
    own = {"io.modelcontextprotocol/subscriptionId": 1, "com.example/x": 2}
    async with board.fly(call(progress_token=1), client.exchange()) as flight:
        board.notification(PROGRESS, members(progressToken=flight.token, progress=1, _meta=dict(own)))
    assert client.heard[0][1]["_meta"] == {"com.example/x": 2}


async def wait_out(board: Flights, *, sent: bool = False) -> None:
    async with board.fly(call(), Client().exchange()) as flight:
        if sent:
            flight.mark_sent()
            assert flight.exchange.dispatched
        await asyncio.Event().wait()


async def test_a_call_without_an_answer_ends_at_its_deadline() -> None:
    with pytest.raises(DownstreamError, match='server "a" did not answer in time') as caught:
        await wait_out(flights([], 0.05))
    assert caught.value.reason is Reason.TIMEOUT
    assert not caught.value.may_have_run


async def test_a_deadline_says_that_the_call_may_have_run_once_it_was_sent() -> None:
    with pytest.raises(DownstreamError) as caught:
        await wait_out(flights([], 0.05), sent=True)
    assert caught.value.may_have_run


async def test_progress_extends_the_deadline_but_not_beyond_the_longest() -> None:
    loop = asyncio.get_running_loop()
    board = flights([], seconds=50, longest=100)
    async with board.fly(call(progress_token=1), Client().exchange()) as flight:
        first = flight.timer.when()
        assert first is not None
        assert first < flight.latest
        while loop.time() == first - 50:
            await asyncio.sleep(0)
        board.notification(PROGRESS, members(progressToken=flight.token, progress=1))
        second = flight.timer.when()
        assert second is not None
        assert first < second < flight.latest
        board.notification(PROGRESS, members(progressToken=flight.token, progress=1))
        assert flight.timer.when() == second
        flight.latest = second + 1e-9
        board.notification(PROGRESS, members(progressToken=flight.token, progress=2))
        assert flight.timer.when() == flight.latest


async def test_a_timeout_inside_a_call_is_not_taken_for_its_deadline() -> None:
    with pytest.raises(TimeoutError):
        async with flights([]).fly(call(), Client().exchange()):
            raise TimeoutError


@pytest.mark.parametrize(
    ("asked", "level", "heard"),
    [("info", "debug", 0), ("info", "info", 1), ("info", "error", 1), (None, "error", 0), ("info", "loud", 0)],
)
async def test_log_messages_reach_a_call_that_asked_at_or_above_its_level(
    asked: str | None, level: str, heard: int
) -> None:
    client, board = Client(), flights([])
    async with board.fly(call(log_level=asked), client.exchange()):
        board.notification(LOG, members(level=level, data="x"))
    assert len(client.heard) == heard


async def test_a_log_message_that_could_be_for_two_calls_is_for_none() -> None:
    violations: list[str] = []
    one, two, board = Client(), Client(), flights(violations)
    async with board.fly(call(log_level="debug"), one.exchange()), board.fly(call(), two.exchange()):
        board.notification(LOG, members(level="error", data="x"))
    board.notification(LOG, members(level="error", data="x"))
    assert one.heard == two.heard == []
    assert violations == ["unattributed_log", "unattributed_log"]


async def test_where_logs_are_per_request_the_only_call_that_asked_gets_them() -> None:
    one, two, board = Client(), Client(), flights([], by_request=True)
    async with board.fly(call(log_level="debug"), one.exchange()), board.fly(call(), two.exchange()):
        board.notification(LOG, members(level="error", data="x"))
    assert len(one.heard) == 1
    assert two.heard == []


async def test_a_flood_of_log_messages_is_cut() -> None:
    client, board = Client(), flights([])
    async with board.fly(call(log_level="debug"), client.exchange()):
        for _ in range(10_000):
            board.notification(LOG, members(level="error", data="x"))
    assert 50 <= len(client.heard) < 1000


async def test_other_notifications_are_left_to_the_dialect() -> None:
    assert not flights([]).notification("notifications/tools/list_changed", {})


async def test_waiting_for_people_stops_the_clock_of_the_call() -> None:
    loop, board = asyncio.get_running_loop(), flights([], seconds=2.0, longest=3.0)
    async with board.fly(call(), Client().exchange()) as flight:
        latest = flight.latest
        flight.hold(600.0)
        assert (flight.timer.when() or 0) > loop.time() + 500
        flight.held_at = loop.time() - 100
        flight.go_on()
        assert flight.latest == pytest.approx(latest + 100, abs=1)
        assert flight.timer.when() == pytest.approx(loop.time() + 2, abs=1)


async def test_progress_does_not_shorten_the_wait_for_people() -> None:
    loop, board = asyncio.get_running_loop(), flights([])
    async with board.fly(call(progress_token=1), Client().exchange()) as flight:
        flight.hold(600.0)
        board.notification(PROGRESS, members(progressToken=flight.token, progress=1))
        assert (flight.timer.when() or 0) > loop.time() + 500


async def test_a_call_nobody_answers_for_ends_and_says_so() -> None:
    async def unanswered() -> None:
        async with flights([]).fly(call(), Client().exchange()) as flight:
            flight.mark_sent()
            flight.hold(0.01)
            await asyncio.Event().wait()

    with pytest.raises(DownstreamError, match="needed an answer of the client") as caught:
        await unanswered()
    assert (caught.value.reason, caught.value.may_have_run) == (Reason.TIMEOUT, True)


async def test_a_call_that_goes_on_reports_to_its_new_client_or_to_none() -> None:
    violations: list[str] = []
    old, new, board = Client(), Client(), flights(violations)
    async with board.fly(call(progress_token="old"), old.exchange()) as flight:
        flight.call, flight.exchange = call(progress_token="new"), new.exchange()
        board.notification(PROGRESS, members(progressToken=flight.token, progress=1))
        flight.call = call()
        board.notification(PROGRESS, members(progressToken=flight.token, progress=2))
    assert (old.heard, violations) == ([], [])
    assert new.heard == [(PROGRESS, {"progressToken": "new", "progress": 1})]


async def test_a_question_belongs_to_the_only_call_that_may_ask() -> None:
    """S96: before a call left, behind its answer and beside another one nothing is guessed."""
    board = flights([])
    async with board.fly(call(), Client().exchange()) as one:
        assert board.asker() is None
        one.mark_sent()
        async with board.fly(call(method="completion/complete"), Client().exchange()) as other:
            other.mark_sent()
            assert board.asker() is one
        async with board.fly(call(), Client().exchange()) as other:
            other.mark_sent()
            assert board.asker() is None
        one.mark_answered()
        assert board.asker() is None


SEARCH: Object = {"extensions": {"com.example/search": {}}}
FOUND = "notifications/search/found"


async def test_a_notification_of_an_extension_reaches_the_call_of_a_client_that_has_it_too() -> None:
    one, two, board = Client(), Client(), flights([])
    mine = Caller(Era.MODERN, "2026-07-28", capabilities=SEARCH)
    async with board.fly(call(caller=mine), one.exchange()) as first:
        assert board.relay(FOUND, members(hit=1), SEARCH)
        async with board.fly(call(caller=mine), two.exchange()):
            # Which of two calls it is for, a pipe does not tell; a call's own stream does.
            assert not board.relay(FOUND, members(hit=2), SEARCH)
            assert board.relay(FOUND, members(hit=3), SEARCH, first)
        first.mark_answered()
        assert board.relay(FOUND, members(hit=4), SEARCH)
    assert one.heard == [(FOUND, {"hit": 1}), (FOUND, {"hit": 3})]
    assert two.heard == []


@pytest.mark.parametrize(
    ("method", "client", "server"),
    [
        ("notifications/tools/odd", SEARCH, SEARCH),
        (FOUND, {}, SEARCH),
        (FOUND, SEARCH, {}),
        (FOUND, SEARCH, {"extensions": {"com.example/other": {}}}),
        (FOUND, *[{"extensions": {"io.modelcontextprotocol/ui": {}}}] * 2),
    ],
)
async def test_what_is_the_cores_or_was_not_agreed_on_is_no_extensions(
    method: str, client: Object, server: Object
) -> None:
    heard, board = Client(), flights([])
    async with board.fly(call(caller=Caller(Era.MODERN, "2026-07-28", capabilities=client)), heard.exchange()):
        assert not board.relay(method, members(hit=1), server)
    assert heard.heard == []


async def test_a_flood_of_notifications_of_an_extension_is_cut() -> None:
    heard, board = Client(), flights([])
    async with board.fly(call(caller=Caller(Era.MODERN, "2026-07-28", capabilities=SEARCH)), heard.exchange()):
        for _ in range(10_000):
            assert board.relay(FOUND, members(hit=1), SEARCH)
    assert 50 <= len(heard.heard) < 1000
