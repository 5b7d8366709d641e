"""The factory: the transport that a config asks for."""

from __future__ import annotations

from gateway.downstream.guardian import Guardian
from gateway.downstream.http import HttpTransport
from gateway.downstream.meters import NoMeters
from gateway.downstream.openapi.channel import ApiChannel
from gateway.downstream.sse import SseTransport
from gateway.downstream.stdio import StdioTransport
from gateway.downstream.transports import Transports
from tests.kit.transport import server


def test_each_kind_has_its_transport_and_each_start_its_number() -> None:
    make = Transports(Guardian(), NoMeters())
    assert isinstance(make("a", server()), StdioTransport)
    assert make("a", server()).instance == "pid:0#2"
    assert make("b", server()).instance == "pid:0#1"
    http = make("c", server(url="http://127.0.0.1:1/mcp"))
    assert isinstance(http, HttpTransport)
    assert http.instance == "http#1"
    old = make("c", server(url="http://127.0.0.1:1/sse", transport="sse"))
    assert isinstance(old, SseTransport)
    assert old.instance == "sse#2"
    api = make("d", server(url="http://127.0.0.1:1", openapi="api.yaml"))
    assert isinstance(api, ApiChannel)
    assert api.instance == "openapi#1"
