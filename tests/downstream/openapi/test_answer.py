from __future__ import annotations

import base64
from typing import Any

import pytest

from gateway.downstream.openapi.answer import MAX_REFUSAL, Answered, result_of
from tests.kit.openapi import Json, answer, operation, read_members
from tests.kit.rest_service import PNG

PLAIN = operation({})
PET = operation(answer({"type": "object", "properties": {"id": {"type": "integer"}}}))
PETS = operation(answer({"type": "array", "items": {"type": "integer"}}))


def result(body: bytes = b"", kind: str = "", status: int = 200, one: Any = PLAIN, **headers: str) -> Json:
    head = {name.replace("_", "-"): value for name, value in headers.items()} | ({"content-type": kind} if kind else {})
    return read_members(result_of(one, Answered(status, head, body)))


def text(made: Json) -> str:
    (block,) = made["content"]
    assert block["type"] == "text"
    return str(block["text"])


def test_json_is_structured_and_text() -> None:
    made = result(b'{ "id": 1,\n "n": 12345678901234567890123 }', "application/json; charset=utf-8", one=PET)
    assert made["structuredContent"] == {"id": 1, "n": 12345678901234567890123}
    assert text(made) == '{"id":1,"n":12345678901234567890123}'
    assert made["resultType"] == "complete"
    assert "isError" not in made


def test_without_a_promise_json_is_structured_all_the_same() -> None:
    assert result(b'{"a":1}', "application/problem+json")["structuredContent"] == {"a": 1}
    assert result(b"[1]", "application/json")["structuredContent"] == {"result": [1]}
    assert "structuredContent" not in result(b"hello", "text/plain")


def test_beside_a_promise_there_is_always_structured_content() -> None:
    """Client libraries fail a call whose result has none although its tool has an outputSchema."""
    assert result(b"[3]", "application/json", one=PETS)["structuredContent"] == {"result": [3]}
    assert result(b"", status=204, one=PET)["structuredContent"] == {}
    assert result(b"<html>", "text/html", one=PET)["structuredContent"] == {}
    broken = result(b'{"id": ', "application/json", one=PET)
    assert (broken["structuredContent"], text(broken)) == ({}, '{"id": ')
    wrong = result(b'{"id": "x", "b": 1}', "application/json", one=PET)
    assert (wrong["structuredContent"], text(wrong)) == ({"b": 1}, '{"id":"x","b":1}')


def test_an_answer_without_a_body_says_so() -> None:
    assert text(result(status=204)) == "The server answered 204 No Content, without a body."
    assert text(result(status=299)) == "The server answered 299, without a body."


@pytest.mark.parametrize(
    "kind", ["text/html", "application/xml", "application/atom+xml", "application/yaml", "image/svg+xml", ""]
)
def test_other_texts_are_text(kind: str) -> None:
    assert text(result("é".encode(), kind)) == "é"


def test_texts_are_read_in_their_charset() -> None:
    assert text(result(b"\xe9", "text/plain; charset=latin-1")) == "é"
    assert text(result(b"\xe9", "text/plain; charset=no-such")) == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    "charset",
    ["UTF-8", "utf8", "utf_16", "utf-16le", "utf-16be", "Shift_JIS", "euc-jp", "gb18030", "gbk", "big5", "euc-kr"],
)
def test_charsets_of_other_scripts_are_read_as_well(charset: str) -> None:
    assert text(result("日本".encode(charset), f'text/html; charset="{charset}"')) == "日本"


@pytest.mark.parametrize("charset", ["us-ascii", "ISO-8859-1", "iso-8859-15", "windows-1252", "cp1252", "latin1"])
def test_charsets_of_western_scripts_are_read_as_well(charset: str) -> None:
    assert text(result(b"a\xe9", f"text/html; charset={charset}")).startswith("a")
    assert ("é" in text(result(b"a\xe9", f"text/html; charset={charset}"))) is (charset != "us-ascii")


@pytest.mark.parametrize(
    "charset", ["punycode", "idna", "undefined", "utf-7", "unicode_escape", "raw_unicode_escape", "hex", "rot13", "zip"]
)
@pytest.mark.parametrize("status", [200, 500])
def test_no_answer_chooses_a_codec_that_is_none_of_texts(charset: str, status: int) -> None:
    """Some of Python's take quadratic time, others raise."""
    body = "\\x41-é+AGE-xn--".encode() + b"\xff"
    said = text(result(body, f"text/plain; charset={charset}", status))
    assert said.endswith("\\x41-é+AGE-xn--\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize(("kind", "block"), [("image/png", "image"), ("audio/wav", "audio")])
def test_pictures_and_sounds_are_what_they_are(kind: str, block: str) -> None:
    assert result(PNG, kind)["content"] == [{"type": block, "data": base64.b64encode(PNG).decode(), "mimeType": kind}]


@pytest.mark.parametrize(("kind", "said"), [("application/pdf", "application/pdf"), ("", "application/octet-stream")])
def test_other_bytes_are_an_embedded_resource(kind: str, said: str) -> None:
    (block,) = result(b"\x00\xff", kind)["content"]
    assert block == {
        "type": "resource",
        "resource": {"uri": "urn:mcp-gateway:answer:op", "mimeType": said, "blob": "AP8="},
    }


@pytest.mark.parametrize("status", [304, 400, 401, 404, 418, 500, 503])
def test_a_refusal_is_a_result_that_a_model_can_read(status: int) -> None:
    made = result(b'{"message": "no such pet"}', "application/json", status, PET)
    assert made["isError"] is True
    assert text(made).startswith(f"The server answered {status}")
    assert text(made).endswith('\n{"message": "no such pet"}')
    assert "structuredContent" not in made


def test_a_server_that_wants_us_to_wait_is_understood() -> None:
    assert "wait 120 seconds" in text(result(status=429, retry_after="120"))
    assert "wait until Wed, 21 Oct 2026" in text(result(status=503, retry_after="Wed, 21 Oct 2026 07:28:00 GMT"))


def test_the_words_of_a_refusal_are_bounded_and_readable() -> None:
    assert len(text(result(b"x" * 100_000, "text/plain", 500))) < MAX_REFUSAL + 100
    assert (
        text(result(b"\x00\x01", "application/octet-stream", 500)) == "The server answered 500 Internal Server Error."
    )
