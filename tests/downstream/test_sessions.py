"""Which transports can do what only the legacy era needs."""

from __future__ import annotations

from gateway.downstream.http import HttpTransport
from gateway.downstream.sessions import SessionTransport
from tests.kit.transport import FakeHttp, FakeTransport, server


def test_http_has_streams_and_sessions_and_stdio_has_not() -> None:
    assert isinstance(HttpTransport("a", server(url="http://127.0.0.1:1/mcp")), SessionTransport)
    assert isinstance(FakeHttp({}), SessionTransport)
    assert not isinstance(FakeTransport({}), SessionTransport)
