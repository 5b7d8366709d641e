"""What every dialect reads from a server's words."""

from __future__ import annotations

import pytest

from gateway.downstream.dialect import (
    MAX_PAGE_ITEMS,
    Hello,
    read_hello,
    read_members,
    read_object,
    read_page,
    read_string,
    unanswered,
)
from gateway.errors import Reason
from gateway.model.catalog import Kind
from gateway.protocol.rawjson import JsonError, Object, Raw, raw_bytes
from gateway.protocol.versions import Era
from tests.kit.transport import FakeTransport, bare, members, peer


def test_a_page_keeps_items_as_the_server_wrote_them() -> None:
    result = {"tools": Raw(b'[{"name": "a",  "big":18446744073709551616}]'), **members(nextCursor="", ttlMs=5)}
    page = read_page(Kind.TOOL, result)
    assert [raw_bytes(item) for item in page.items] == [b'{"name": "a",  "big":18446744073709551616}']
    assert (page.next_cursor, page.ttl_ms, page.public) == ("", 5, False)


@pytest.mark.parametrize(
    "result",
    [
        members(),
        members(tools={}),
        members(tools=[], nextCursor=7),
        members(tools=[0] * (MAX_PAGE_ITEMS + 1)),
    ],
)
def test_a_page_that_is_no_list_or_too_long_is_refused(result: dict[str, Raw]) -> None:
    with pytest.raises(JsonError):
        read_page(Kind.TOOL, result)


def test_a_public_page_says_so() -> None:
    assert read_page(Kind.PROMPT, members(prompts=[], cacheScope="public")).public


def test_hello_survives_members_of_the_wrong_type() -> None:
    hello = read_hello(Era.MODERN, "2026-07-28", {}, members(capabilities=[], instructions=7))
    assert (hello.capabilities, hello.instructions, hello.product) == ({}, "", "/")


def test_hello_reads_capabilities_and_flags() -> None:
    hello = Hello(Era.LEGACY, "2025-11-25", {"name": "n", "version": "1"}, {"tools": {"listChanged": True}, "x": 1})
    assert hello.has("tools")
    assert not hello.has("x")
    assert hello.flag("tools", "listChanged")
    assert not hello.flag("prompts", "listChanged")
    assert hello.product == "n/1"


@pytest.mark.parametrize(
    ("version", "capability", "completes"),
    [("2025-11-25", {"completions": {}}, True), ("2025-11-25", {}, False), ("2024-11-05", {}, True)],
)
def test_completion_is_asked_for_where_it_is_declared_or_could_not_be(
    version: str, capability: Object, completes: bool
) -> None:
    assert Hello(Era.LEGACY, version, {}, capability).completes is completes


def test_members_of_the_wrong_type_read_as_missing() -> None:
    wrong = {"a": Raw(b"[1]"), "b": Raw(b"{broken"), "c": Raw(b'"text"')}
    assert read_object(wrong, "a") == {}
    assert read_object(wrong, "b") == {}
    assert read_members(wrong, "a") == {}
    assert read_members(wrong, "missing") == {}
    assert read_string(wrong, "a") is None
    assert read_string(wrong, "b") is None
    assert read_string(wrong, "c") == "text"


@pytest.mark.parametrize(
    ("status", "reason", "may_have_run", "words"),
    [
        (401, Reason.UNAVAILABLE, False, "credential rejected"),
        (403, Reason.UNAVAILABLE, False, "credential rejected"),
        (429, Reason.UNAVAILABLE, False, "is limiting the gateway"),
        (500, Reason.UNAVAILABLE, True, "HTTP status 500"),
        (503, Reason.UNAVAILABLE, True, "HTTP status 503"),
        (404, Reason.PROTOCOL_ERROR, False, "HTTP status 404"),
        (202, Reason.PROTOCOL_ERROR, True, "HTTP status 202"),
    ],
)
def test_an_http_answer_without_a_message_names_server_and_cause(
    status: int, reason: Reason, may_have_run: bool, words: str
) -> None:
    error = unanswered(peer(FakeTransport({})), bare(status))
    assert (error.reason, error.may_have_run) == (reason, may_have_run)
    assert error.message.startswith('server "a" ')
    assert words in error.message


@pytest.mark.parametrize(("header", "wait"), [("7", 7000), ("soon", None), ("9999999", None)])
def test_a_limiting_server_says_when_to_come_back(header: str, wait: int | None) -> None:
    error = unanswered(peer(FakeTransport({})), bare(429, {"retry-after": header}))
    assert error.retry_after_ms == wait
