"""What a webhook hears, and what its answers mean."""

from __future__ import annotations

import json

import pytest

from gateway.audit.sinks.delivery import Rejected, Unavailable
from gateway.audit.sinks.webhook import HttpSink, json_lines
from gateway.errors import ConfigError
from gateway.protocol.rawjson import Object
from gateway.telemetry.collector import Address
from tests.kit.hook import Hook

RECORDS: list[Object] = [{"chain": "gw1", "seq": number, "event": "call.end"} for number in (7, 8)]


async def test_a_batch_is_json_lines_with_a_key_of_its_own() -> None:
    async with Hook.listening() as hook:
        sink = HttpSink(hook.url.replace("http://", "http://bob:pass@"), json_lines)
        await sink.send(RECORDS)
        await sink.aclose()
        assert hook.records() == RECORDS
        headers = hook.headers[0]
    assert headers["Content-Type"] == "application/x-ndjson"
    assert headers["Idempotency-Key"] == "gw1:7-8"
    assert headers["Authorization"].startswith("Basic ")


async def test_an_address_may_bring_headers_of_its_own() -> None:
    async with Hook.listening() as hook:
        sink = HttpSink(Address(hook.url, {"Authorization": "Bearer t", "X-Scope-OrgID": "team"}), json_lines)
        await sink.send(RECORDS)
        await sink.aclose()
        headers = hook.headers[0]
    assert (headers["Authorization"], headers["X-Scope-OrgID"]) == ("Bearer t", "team")
    assert headers["Content-Type"] == "application/x-ndjson"


def test_authorities_that_cannot_be_read_are_said_before_anything_is_sent() -> None:
    with pytest.raises(ConfigError, match=r"telemetry\.otlp\.ca"):
        HttpSink(Address("https://host", ca="absent.pem"), json_lines)


@pytest.mark.parametrize(
    ("status", "fault"),
    [(400, Rejected), (413, Rejected), (422, Rejected), (401, Unavailable), (301, Unavailable), (503, Unavailable)],
)
async def test_an_answer_is_about_the_records_or_about_the_moment(status: int, fault: type[Exception]) -> None:
    async with Hook.listening() as hook:
        hook.answers = [status]
        sink = HttpSink(hook.url, json_lines)
        with pytest.raises(fault, match=str(status)):
            await sink.send(RECORDS)
        await sink.aclose()


async def test_nobody_there_is_unavailable_and_the_reason_shows_no_address() -> None:
    sink = HttpSink("http://127.0.0.1:1/secret-path", json_lines, timeout=2.0)
    with pytest.raises(Unavailable) as caught:
        await sink.send(RECORDS)
    assert str(caught.value) == "no connection"
    blocked = HttpSink("http://169.254.169.254/latest", json_lines, timeout=2.0)
    with pytest.raises(Unavailable) as refused:
        await blocked.send(RECORDS)
    assert "169.254" not in str(refused.value)
    await sink.aclose()
    await blocked.aclose()


def test_lines_are_those_of_the_log() -> None:
    assert [json.loads(line) for line in json_lines(RECORDS)[0].splitlines()] == RECORDS
