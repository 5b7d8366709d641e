"""Who hears that people are done with a page."""

from __future__ import annotations

import json

import pytest

from gateway.endpoint.legacy.pages import MAX_ID, MAX_PAGES, Pages
from gateway.endpoint.legacy.session import Session
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.outcome import Failure
from gateway.model.principal import ANONYMOUS
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from tests.kit.calls import call
from tests.kit.endpoint import FakeServices, moment


class Stream:
    """A call's stream that is over."""

    started = True

    def send(self, data: bytes) -> None:
        raise AssertionError("it is over")


class Tail:
    """A stream that belongs to no call."""

    open = True

    def __init__(self) -> None:
        self.heard: list[str] = []

    def send(self, data: bytes) -> None:
        self.heard.append(json.loads(data)["params"]["elicitationId"])


def session(name: str, *streams: Tail) -> Session:
    made = Session(name, ANONYMOUS, None, "2025-11-25", {}, {}, 0.0)
    made.streams += streams  # type: ignore[arg-type]  # reason: all that is asked of a stream here is to send.
    return made


@pytest.fixture
def services() -> FakeServices:
    return FakeServices(moment())


def of(server: str) -> Call:
    return call(server=server)


def over(services: FakeServices, server: str, identifier: str) -> None:
    for listener in services.pages:
        listener(server, identifier)


def watch(pages: Pages, whose: Session, server: str, *identifiers: str) -> None:
    noted = pages.watch(whose, Stream(), of(server))  # type: ignore[arg-type]  # reason: as above.
    for identifier in identifiers:
        noted(identifier)


def test_only_who_was_sent_to_a_page_hears_of_its_end_and_only_once(services: FakeServices) -> None:
    """2025-11-25 client/elicitation §Completion Notifications: only to the client that was asked."""
    pages, mine, theirs = Pages(services), Tail(), Tail()
    watch(pages, session("a", mine), "s", "1")
    watch(pages, session("b", theirs), "s", "2")
    over(services, "other", "1")
    over(services, "s", "1")
    over(services, "s", "1")
    over(services, "s", "unknown")
    assert (mine.heard, theirs.heard, len(pages)) == (["1"], [], 1)


def test_a_session_without_a_stream_hears_of_it_on_the_next(services: FakeServices) -> None:
    pages, late = Pages(services), Tail()
    whose = session("a")
    watch(pages, whose, "s", "1")
    over(services, "s", "1")
    whose.attach(late)  # type: ignore[arg-type]  # reason: as above.
    assert late.heard == ["1"]


def test_a_session_waits_for_so_many_pages_and_none_after_its_end(services: FakeServices) -> None:
    pages, tail = Pages(services), Tail()
    whose = session("a", tail)
    watch(pages, whose, "s", *(str(number) for number in range(MAX_PAGES + 2)), "x" * (MAX_ID + 1))
    assert len(pages) == MAX_PAGES
    over(services, "s", "0")
    over(services, "s", "2")
    assert tail.heard == ["2"]
    tail.open = False
    for end in whose.subscriptions:
        end()
    assert len(pages) == 0
    whose.ended = True
    watch(pages, whose, "s", "late")
    assert len(pages) == 0


def test_an_error_that_asks_for_pages_counts_like_a_question(services: FakeServices) -> None:
    pages, tail = Pages(services), Tail()
    data = {"elicitations": [{"mode": "url", "elicitationId": "1"}, {"mode": "url", "elicitationId": 2}]}
    error = ErrorObject(-32042, "open it", rawjson.raw(data))
    outcome = Failure(Reason.PROTOCOL_ERROR, "", error=error)
    pages.of_error(session("a", tail), Stream(), of("s"), outcome)  # type: ignore[arg-type]  # reason: as above.
    over(services, "s", "1")
    assert tail.heard == ["1"]
    pages.close()
    assert services.pages == []
