"""The one question that proves which data is behind a server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway import witness
from gateway.config.servers import Server
from gateway.downstream.dialect import Hello, Page
from gateway.downstream.inspection import Meeting
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome
from gateway.pinning.facts import keyed
from gateway.pinning.fingerprint import Wrong
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Value
from gateway.protocol.versions import Era
from gateway.witness import ask, found_at

KEY = b"k" * 32
PROBE = {"tool": "whoami", "arguments": {"deep": [1]}, "expect": {"/structuredContent/dataset": "prod"}}


def meeting(answer: Outcome | None, calls: list[Call], probe: dict[str, Any] | None = None) -> Meeting:
    async def page(kind: Kind, cursor: str | None) -> Page:
        raise AssertionError

    async def asked(call: Call, exchange: Exchange) -> Outcome:
        calls.append(call)
        if answer is None:
            await asyncio.Event().wait()
        assert answer is not None
        return answer

    server = Server.model_validate({"command": "x", "pin": {"probe": probe or PROBE}})
    return Meeting("a", server, "", Hello(Era.MODERN, "2026-07-28"), "", page, asked)


def said(**members: Any) -> Complete:
    return Complete({name: rawjson.raw(value) for name, value in members.items()})


async def test_the_expected_answer_is_no_news() -> None:
    calls: list[Call] = []
    assert await ask(meeting(said(structuredContent={"dataset": "prod"}), calls), KEY) is None
    [call] = calls
    assert call.params == {"name": "whoami", "arguments": {"deep": [1]}}


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (said(structuredContent={"dataset": "test"}), "test"),
        (said(structuredContent={"dataset": None}), None),
        (said(structuredContent={}), ...),
        (said(content=[]), ...),
        (said(structuredContent={"dataset": "prod"}, isError=True), ...),
        (Failure(Reason.PROTOCOL_ERROR, "", error=ErrorObject(-32602, "Unknown tool")), ...),
        (InputRequired({}, None), ...),
    ],
)
async def test_any_other_answer_is_wrong_and_tells_no_data(answer: Outcome, got: object) -> None:
    """S132: what was expected and what came are keyed digests."""
    wrong = await ask(meeting(answer, []), KEY)
    digest = "" if got is ... else keyed(KEY, got)
    assert wrong == Wrong("probe:/structuredContent/dataset", keyed(KEY, "prod"), digest)


async def test_no_answer_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "SECONDS", 0.05)
    with pytest.raises(DownstreamError, match="not answered within"):
        await ask(meeting(None, []), KEY)
    with pytest.raises(DownstreamError, match="could not be asked"):
        await ask(meeting(Failure(Reason.UNAVAILABLE, "gone"), []), KEY)


def test_a_pointer_leads_through_objects_and_arrays() -> None:
    value: Value = {"a/b": {"~": [{"x": 1}, None]}}
    assert found_at(value, "/a~1b/~0/0/x") == 1
    assert found_at(value, "/a~1b/~0/1") is None
    for nowhere in ("/a", "/a~1b/~0/2", "/a~1b/~0/-1", "/a~1b/~0/x", "/a~1b/~0/0/x/y"):
        assert found_at(value, nowhere) is not None


async def test_a_server_without_a_probe_is_not_asked() -> None:
    server = Server.model_validate({"command": "x"})
    calls: list[Call] = []
    made = meeting(said(), calls)
    assert await ask(Meeting("a", server, "", made.hello, "", made.page, made.call), KEY) is None
    assert calls == []
