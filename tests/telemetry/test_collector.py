"""One POST to a collector."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from yarl import URL

from gateway.errors import ConfigError
from gateway.telemetry import collector
from gateway.telemetry.collector import TRACES, Address, Collector, Unsent, endpoint
from tests.kit.collector import collecting

EMPTY = gzip.compress(bytes(ExportTraceServiceRequest().SerializeToString()))


@pytest.mark.parametrize(
    ("base", "path", "whole"),
    [
        ("http://host:4318", "/v1/traces", "http://host:4318/v1/traces"),
        ("http://host:4318/", "/v1/traces", "http://host:4318/v1/traces"),
        ("https://host/otlp", "/v1/traces", "https://host/otlp/v1/traces"),
        ("https://host/otlp/v1/traces", "/v1/traces", "https://host/otlp/v1/traces"),
        ("https://host/otlp/v1/traces", "/v1/logs", "https://host/otlp/v1/logs"),
        ("https://host/v1/logs", "/v1/logs", "https://host/v1/logs"),
    ],
)
def test_the_path_of_a_signal_is_put_behind_the_address(base: str, path: str, whole: str) -> None:
    assert str(endpoint(URL(base), path)) == whole


async def test_a_request_arrives_with_headers_and_userinfo_and_the_answer_comes_back() -> None:
    with collecting() as there:
        there.refuses = 2
        url = there.url.replace("http://", "http://bob:pass@")
        way = Collector(Address(url, {"X-Scope-OrgID": "team", "Content-Type": "text/plain"}), TRACES)
        answer = await way.send(EMPTY)
        await way.send(EMPTY)
        await way.aclose()
        await way.aclose()
    assert answer
    path, headers = there.requests[0]
    assert path == "/v1/traces"
    assert headers["authorization"] == "Basic Ym9iOnBhc3M="
    assert (headers["x-scope-orgid"], headers["content-type"]) == ("team", "application/x-protobuf")
    assert len(there.requests) == 2


@pytest.mark.parametrize(
    ("status", "final"),
    [
        (400, True),
        (401, True),
        (404, True),
        (413, True),
        (429, False),
        (502, False),
        (503, False),
        (500, True),
        (307, True),
    ],
)
async def test_an_answer_tells_whether_to_try_again(status: int, final: bool) -> None:
    with collecting() as there:
        there.statuses = [status]
        way = Collector(Address(there.url), TRACES)
        with pytest.raises(Unsent, match=rf"^status {status}$") as caught:
            await way.send(EMPTY)
        await way.aclose()
    assert caught.value.final is final
    assert len(there.requests) == 1


async def test_nobody_there_and_no_answer_are_told_without_the_address() -> None:
    gone = Collector(Address("http://127.0.0.1:1/secret-path"), TRACES)
    with pytest.raises(Unsent, match=r"^no connection$") as caught:
        await gone.send(EMPTY)
    assert not caught.value.final
    await gone.aclose()
    with collecting() as there:
        there.stuck.clear()
        slow = Collector(Address(there.url), TRACES, timeout=0.2)
        with pytest.raises(Unsent, match=r"^no answer within 0\.2 s$"):
            await slow.send(EMPTY)
        await slow.aclose()


async def test_addresses_that_must_never_be_dialed_are_not() -> None:
    way = Collector(Address("http://169.254.169.254/latest"), TRACES)
    with pytest.raises(Unsent, match=r"^its address must not be dialed"):
        await way.send(EMPTY)
    await way.aclose()


async def test_an_answer_is_read_no_further_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MAX_ANSWER", 1)
    with collecting() as there:
        there.refuses = 2
        way = Collector(Address(there.url), TRACES)
        assert len(await way.send(EMPTY)) == 1
        await way.aclose()


def test_authorities_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nonsense")
    for file in ("ca.pem", "absent.pem"):
        with pytest.raises(ConfigError, match=r"telemetry\.otlp\.ca"):
            Collector(Address("https://host", ca=str(tmp_path / file)), TRACES)


def test_an_address_shows_no_secrets() -> None:
    """S156."""
    assert "secret" not in repr(Address("https://bob:secret@host", {"X-Key": "secret"}))
