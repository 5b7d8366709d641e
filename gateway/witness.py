"""Asks a server the one question whose answer proves which data is behind it (``pin.probe``)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from gateway.config.servers import PinProbe
from gateway.downstream.inspection import Meeting
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call, Caller, Target, new_call_id
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, Outcome
from gateway.model.principal import ANONYMOUS
from gateway.pinning.facts import keyed
from gateway.pinning.fingerprint import Wrong
from gateway.protocol import rawjson, results
from gateway.protocol.methods import TOOLS_CALL
from gateway.protocol.rawjson import Value
from gateway.protocol.versions import MODERN, Era

SECONDS: Final = 15.0
"""The longest a probe may take, within ``timeouts.call``."""


class _Absent:
    """Stands for what a pointer does not lead to; None is a JSON value."""


_ABSENT: Final = _Absent()


async def ask(meeting: Meeting, key: bytes) -> Wrong | None:
    """Return the first thing that is not as expected, None where all is; values appear as keyed digests alone.

    Raises:
        DownstreamError: there was no answer, so nothing can be told.
    """
    probe = meeting.server.pin.probe
    if probe is None:
        return None
    seconds = min(SECONDS, meeting.server.timeouts.call)
    try:
        async with asyncio.timeout(seconds):
            outcome = await meeting.call(_call(meeting.name, probe), Exchange())
    except TimeoutError:
        raise DownstreamError(Reason.UNAVAILABLE, f"the probe was not answered within {seconds:g} s") from None
    if isinstance(outcome, Failure) and outcome.error is None:
        raise DownstreamError(Reason.UNAVAILABLE, f"the probe could not be asked: {outcome.text}")
    return judged(probe.expect, outcome, key)


def judged(expect: Mapping[str, object], outcome: Outcome, key: bytes) -> Wrong | None:
    """Compare an answer with what is expected of it; an error is no answer to any of it."""
    answer: Value | _Absent = _ABSENT
    if isinstance(outcome, Complete) and not results.is_error(outcome.result):
        answer = {name: rawjson.peek(member) for name, member in outcome.result.items()}
    for pointer, expected in expect.items():
        wanted, got = keyed(key, expected), found_at(answer, pointer)
        digest = "" if isinstance(got, _Absent) else keyed(key, got)
        if digest != wanted:
            return Wrong(f"probe:{pointer}", wanted, digest)
    return None


def found_at(value: Value | _Absent, pointer: str) -> Value | _Absent:
    """Follow a JSON pointer (RFC 6901)."""
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and name.isascii() and int(name) < len(value):
            value = value[int(name)]
        else:
            return _ABSENT
    return value


def _call(server: str, probe: PinProbe) -> Call:
    return Call(
        id=new_call_id(),
        rpc_id=0,
        method=TOOLS_CALL,
        params={"name": probe.tool, "arguments": rawjson.decode_value(rawjson.encode(probe.arguments))},
        target=Target(Kind.TOOL, server, probe.tool),
        principal=ANONYMOUS,
        caller=Caller(Era.MODERN, MODERN, info={"name": "pin.probe"}),
        exposed=probe.tool,
    )
