"""Results split one level: what is read of them and what is added, never what is in them."""

from __future__ import annotations

import pytest

from gateway.errors import Reason
from gateway.model.outcome import Failure
from gateway.protocol import rawjson, results


def members(text: bytes) -> rawjson.Members:
    return rawjson.decode_members(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"{}", "complete"),
        (b'{"resultType":"complete"}', "complete"),
        (b'{"resultType":"input_required"}', "input_required"),
        (b'{"resultType":"task"}', "task"),
        (b'{"resultType":"com.example/new"}', "com.example/new"),
        (b'{"resultType":null}', ""),
        (b'{"resultType":1}', ""),
        (b'{"resultType":["complete"]}', ""),
        (b'{"resultType":1e999}', ""),
    ],
)
def test_a_result_without_a_type_is_complete_and_one_with_nonsense_is_nothing(text: bytes, kind: str) -> None:
    """2026-07-28 basic/index §ResultType: what is unrecognized must count as invalid."""
    assert results.result_type(members(text)) == kind


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        (b'{"isError":true}', True),
        (b'{"isError" : true }', True),
        (b'{"isError":false}', False),
        (b'{"isError":null}', False),
        (b'{"isError":"true"}', False),
        (b'{"isError":1}', False),
        (b"{}", False),
    ],
)
def test_a_tool_failed_only_if_it_says_so(text: bytes, failed: bool) -> None:
    assert results.is_error(members(text)) is failed


def test_a_type_is_added_as_a_member_and_nothing_else_changes() -> None:
    result = members(b'{"content":[ ],"n":1.0}')
    assert rawjson.encode(results.with_type(result)) == b'{"resultType":"complete","content":[ ],"n":1.0}'
    own = members(b'{"content":[],"resultType":"input_required"}')
    assert results.with_type(own) is own


def test_a_refusal_can_be_read_by_a_model_and_by_a_program() -> None:
    modern = results.refusal("Wait.", Failure(Reason.RATE_LIMITED, "", retry_after_ms=1500).facts(), modern=True)
    assert rawjson.decode_value(rawjson.encode(modern)) == {
        "resultType": "complete",
        "content": [{"type": "text", "text": "Wait."}],
        "isError": True,
        "_meta": {"dev.mcp-gateway/refusal": {"reason": "rate_limited", "mayHaveRun": False, "retryAfterMs": 1500}},
    }
    assert next(iter(modern)) == "resultType"


def test_a_refusal_without_a_time_names_none() -> None:
    legacy = results.refusal("Late.", Failure(Reason.TIMEOUT, "", True).facts(), modern=False)
    assert rawjson.decode_value(rawjson.encode(legacy)) == {
        "content": [{"type": "text", "text": "Late."}],
        "isError": True,
        "_meta": {"dev.mcp-gateway/refusal": {"reason": "timeout", "mayHaveRun": True}},
    }


def test_a_page_joins_definitions_as_they_are() -> None:
    page = results.list_page("tools", [b'{"name":"a" }', b'{"b":1.0}'], {"ttlMs": 0, "nextCursor": "c"})
    assert rawjson.encode(page) == b'{"tools":[{"name":"a" },{"b":1.0}],"ttlMs":0,"nextCursor":"c"}'
    assert rawjson.encode(results.list_page("tools", [], {})) == b'{"tools":[]}'


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        (b"{}", (None, False)),
        (b'{"ttlMs":5000,"cacheScope":"public"}', (5000, True)),
        (b'{"ttlMs":0,"cacheScope":"private"}', (0, False)),
        (b'{"ttlMs":1500.9,"cacheScope":"Public"}', (1500, False)),
        (b'{"ttlMs":-5}', (0, False)),
        (b'{"ttlMs":1e308}', (int(1e308), False)),
        (b'{"ttlMs":null,"cacheScope":null}', (None, False)),
        (b'{"ttlMs":true}', (None, False)),
        (b'{"ttlMs":"5000"}', (None, False)),
        (b'{"ttlMs":[1],"cacheScope":["public"]}', (None, False)),
        (b'{"ttlMs":1e999,"cacheScope":"public"}', (None, True)),
    ],
)
def test_cache_hints_are_read_or_taken_for_missing(text: bytes, hints: tuple[int | None, bool]) -> None:
    """2026-07-28 server/utilities/caching: a negative time counts as 0."""
    assert results.cache_hints(members(text)) == hints
