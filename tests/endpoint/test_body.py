"""Rows 8 to 10: length, encoding, type, pace, JSON text, message (S11, S15, S16, S21-S25, S28, G026, G027, G078)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gateway.endpoint import body
from gateway.endpoint.body import BodyLimits
from gateway.endpoint.rejection import Rejected, Rejection
from gateway.protocol.jsonrpc import Request

LIMITS = BodyLimits(100)
JSON = ("content-type", "application/json")


def judged(*headers: tuple[str, str]) -> int:
    try:
        body.judge_headers(dict(headers), LIMITS)
    except Rejected as refused:
        return refused.rejection.status
    return 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([JSON], 0),
        ([JSON, ("content-length", "100")], 0),
        ([JSON, ("content-length", "101")], 413),
        ([JSON, ("content-length", "99999999999")], 413),
        ([JSON, ("content-length", "9" * 5000)], 413),
        ([JSON, ("content-length", "0" * 30 + "101")], 413),
        ([JSON, ("content-length", "0" * 30 + "100")], 0),
        ([JSON, ("content-encoding", "identity")], 0),
        ([JSON, ("content-encoding", "gzip")], 415),
        ([JSON, ("content-encoding", "identity, gzip")], 415),
        ([("content-type", "Application/JSON; charset=UTF-8")], 0),
        ([("content-type", 'application/json;charset="utf-8"; x=y')], 0),
        ([("content-type", "application/json; charset=utf-16")], 415),
        ([("content-type", "application/jsonx")], 415),
        ([("content-type", "text/plain")], 415),
        ([], 415),
        ([("content-length", "101"), ("content-encoding", "gzip")], 413),
        ([("content-encoding", "gzip"), ("content-type", "text/plain")], 415),
    ],
)
def test_headers_of_a_body_are_judged_in_order(headers: Sequence[tuple[str, str]], status: int) -> None:
    assert judged(*headers) == status


class Script:
    """A body that arrives in pieces; None stands for silence."""

    def __init__(self, *pieces: bytes | None) -> None:
        self._pieces = list(pieces)
        self.taken = 0

    def at_eof(self) -> bool:
        return not self._pieces

    async def readany(self) -> bytes:
        self.taken += 1
        piece = self._pieces.pop(0) if self._pieces else b""
        if piece is None:
            await asyncio.Event().wait()
            raise AssertionError
        await asyncio.sleep(0)
        return piece


async def rejected(source: Script, limits: BodyLimits) -> Rejection:
    with pytest.raises(Rejected) as caught:
        await body.read(source, limits)
    return caught.value.rejection


async def test_a_body_in_pieces_is_read_whole() -> None:
    assert await body.read(Script(b"ab", b"c"), LIMITS) == b"abc"


async def test_reading_stops_at_the_first_byte_over_the_limit() -> None:
    source = Script(b"x" * 100, b"x", b"x" * 1000)
    rejection = await rejected(source, LIMITS)
    assert (rejection.status, rejection.code, source.taken) == (413, -31005, 2)


async def test_a_body_that_stalls_is_given_up() -> None:
    assert (await rejected(Script(b"a", None), BodyLimits(100, gap=0.02))).status == 408


async def test_a_body_that_drips_is_given_up() -> None:
    assert (await rejected(Script(*[b"a"] * 50, None), BodyLimits(100, gap=5, total=0.02))).status == 408


def undecodable(text: bytes) -> Rejection:
    with pytest.raises(Rejected) as caught:
        body.decode(text)
    return caught.value.rejection


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"a":1}{',
        '{"a":1}'.encode("utf-16"),
        '{"a":1}'.encode("utf-32"),
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":"\xff"}',
        b'{"a":"\xc0\xaf"}',
        b'{"a":1,"a":2}',
        b'{"n\\u0061me":1,"name":2}',
        b'{"a":{"b":1,"b":2}}',
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":1e999}',
        b'{"a":18446744073709551616}',
        b'{"a":' + b"1" * 5000 + b"}",
        b'{"a":"\\ud800"}',
        b"[" * 65 + b"]" * 65,
        b"[" * 200_000,
    ],
)
def test_what_two_parsers_could_read_differently_is_a_parse_error(text: bytes) -> None:
    rejection = undecodable(text)
    assert (rejection.status, rejection.code, rejection.id) == (400, -32700, None)


def test_the_reason_of_a_parse_error_is_a_constant() -> None:
    assert undecodable(b'{"a":1,"a":2}').data == {"reason": "duplicate_key"}


@pytest.mark.parametrize("identifier", [None, True, 1.5, [], {}, "x" * 129])
def test_an_unusable_id_is_an_invalid_request_without_id(identifier: object) -> None:
    """S28, G045."""
    with pytest.raises(Rejected) as caught:
        body.message({"jsonrpc": "2.0", "id": identifier, "method": "ping"})  # type: ignore[dict-item]  # reason: any JSON.
    assert (caught.value.rejection.code, caught.value.rejection.id) == (-32600, None)


def test_a_valid_id_is_echoed_even_if_the_rest_is_not() -> None:
    with pytest.raises(Rejected) as caught:
        body.message({"jsonrpc": "1.0", "id": "", "method": "ping"})
    assert caught.value.rejection.id == ""


def test_a_message_is_read() -> None:
    assert body.message({"jsonrpc": "2.0", "id": 0, "method": "ping"}) == Request(0, "ping", {})
