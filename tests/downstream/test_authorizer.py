from __future__ import annotations

from gateway.config.servers import Server
from gateway.downstream.authorizer import Anonymous, Refusal, authorize
from gateway.downstream.http import HttpTransport


async def test_without_a_credential_nothing_is_sent_and_a_refusal_stands() -> None:
    one = Anonymous()
    assert await one.headers() == {}
    assert not await one.refused(Refusal(401, {}))


def test_what_was_sent_is_not_shown() -> None:
    assert "canary" not in repr(Refusal(401, {"Authorization": "Bearer canary"}))


def test_transports_that_send_no_headers_are_left_alone() -> None:
    authorize(object(), Anonymous())
    authorize(object(), None)
    authorize(HttpTransport("a", Server.model_validate({"url": "http://127.0.0.1:1/mcp"})), Anonymous())
