from __future__ import annotations

import base64
from email.message import Message
from email.parser import BytesParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.downstream.openapi.bodies import Body, body_of
from gateway.downstream.openapi.payload import Payload, payload_of
from gateway.downstream.openapi.serialise import BadArgument
from tests.kit.openapi import Json, body, document, found

FORM, PARTS = "application/x-www-form-urlencoded", "multipart/form-data"


def made(node: Json) -> Body:
    one = body_of(document(), found(node, method="POST"), [])
    assert one is not None
    return one


def sent(node: Json, arguments: Any) -> Payload:
    one = payload_of(made(node), arguments)
    assert one is not None
    return one


def parts_of(payload: Payload) -> list[Message]:
    """Read a multipart body with the parser of the standard library."""
    whole = BytesParser().parsebytes(f"Content-Type: {payload.kind}\r\n\r\n".encode() + payload.data)
    parts = whole.get_payload()
    assert isinstance(parts, list)
    return [part for part in parts if isinstance(part, Message)]


def test_members_come_back_together_under_their_own_names() -> None:
    node = body({"properties": {"a": {}, "b": {}}})
    assert sent(node, {"a": [1], "b": None, "other": 1}) == Payload("application/json", b'{"a":[1],"b":null}')


def test_a_whole_body_is_its_argument() -> None:
    node = body({"type": "array"}, "application/json-patch+json")
    assert sent(node, {"body": [{"op": "add"}]}) == Payload("application/json-patch+json", b'[{"op":"add"}]')
    assert sent(node, {"body": None}).data == b"null"


def test_a_body_without_arguments_is_sent_only_where_it_is_required() -> None:
    schema: Json = {"properties": {"a": {}}}
    assert payload_of(made(body(schema, required=False)), {}) is None
    assert sent(body(schema), {}).data == b"{}"
    assert payload_of(made(body({"type": "array"})), {}) is None
    assert sent(body({}, "text/plain"), {}).data == b""
    assert payload_of(made(body({}, "text/plain", required=False)), {}) is None


def test_a_form_is_written_by_the_styles_of_its_fields() -> None:
    schema: Json = {
        "properties": {"a": {}, "b": {"type": "array"}, "c": {"type": "object"}, "d": {"type": "object"}, "e": {}}
    }
    node = body(schema, FORM, encoding={"d": {"style": "deepObject"}})
    values = {"a": "x&y=z ", "b": [1, 2], "c": {"k": 1}, "d": {"k": {"l": "m"}}, "e": None}
    assert sent(node, values) == Payload(FORM, b"a=x%26y%3Dz%20&b=1&b=2&c=%7B%22k%22%3A1%7D&d%5Bk%5D%5Bl%5D=m")


def test_a_form_that_is_one_argument_is_written_alike() -> None:
    node = body({"type": "object", "additionalProperties": {"type": "string"}}, FORM)
    assert sent(node, {"body": {"a b": "c&d", "e": None}}).data == b"a%20b=c%26d"


FREE: Json = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}


@pytest.mark.parametrize("media", [FORM, PARTS])
@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("_method", "another method"),
        ("_Method", "another method"),
        ("_method[]", "another method"),
        ("API_KEY", "the gateway's own configuration"),
        ("api_key[]", "the gateway's own configuration"),
    ],
)
def test_a_field_that_the_document_does_not_name_chooses_neither_method_nor_credential(
    media: str, key: str, says: str
) -> None:
    """Frameworks take the method from a form, and read a form and the query as one."""
    with pytest.raises(BadArgument, match=f"body: it would .*{says}"):
        payload_of(made(body(FREE, media)), {"body": {"a": "x", key: "DELETE"}}, frozenset({"api_key"}))
    known = {**FREE, "properties": {"_method": {"type": "string"}, "api_key": {"type": "string"}}}
    named = payload_of(made(body(known, media)), {"body": {"_method": "x", "api_key": "y"}}, frozenset({"api_key"}))
    assert named is not None
    assert b"_method" in named.data


def test_the_members_of_a_field_are_no_fields_that_choose_either() -> None:
    schema: Json = {"properties": {"more": {"type": "object"}}}
    node = body(schema, FORM, encoding={"more": {"style": "form"}})
    assert sent(node, {"more": {"a": "x"}}).data == b"a=x"
    with pytest.raises(BadArgument, match="more: it would make the request one of another method"):
        sent(node, {"more": {"_method": "DELETE"}})
    with pytest.raises(BadArgument, match="more: it would set"):
        payload_of(made(node), {"more": {"Api_Key": "x"}}, frozenset({"api_key"}))


def test_parts_have_names_types_and_files() -> None:
    schema = {
        "properties": {
            "file": {"type": "string", "format": "binary"},
            "note": {"type": "string"},
            "meta": {"type": "object"},
            "tags": {"type": "array", "items": {"type": "string"}},
        }
    }
    data = bytes(range(256))
    payload = sent(
        body(schema, PARTS),
        {
            "file": base64.b64encode(data).decode(),
            "file_filename": 'a "b".bin',
            "note": "é",
            "meta": {"k": 1},
            "tags": ["x", "y"],
        },
    )
    parts = parts_of(payload)
    assert [part.get_param("name", header="content-disposition") for part in parts] == [
        "file",
        "note",
        "meta",
        "tags",
        "tags",
    ]
    assert parts[0].get_filename() == "a %22b%22.bin"
    assert parts[0].get_content_type() == "application/octet-stream"
    assert parts[1].get_content_type() == "text/plain"
    assert parts[2].get_content_type() == "application/json"
    assert payload.data.count(data) == 1
    assert "é".encode() in payload.data
    assert payload.data.endswith(b"--\r\n")


def test_bytes_without_a_name_are_a_file_all_the_same() -> None:
    """Servers tell files by their names."""
    node = body({"properties": {"file": {"type": "string", "format": "binary"}}}, PARTS)
    (part,) = parts_of(sent(node, {"file": "aGk"}))
    assert part.get_filename() == "file"
    assert str(part.get_payload()).strip() == "hi"


def test_several_files_are_several_parts() -> None:
    node = body({"properties": {"f": {"type": "array", "items": {"type": "string", "format": "binary"}}}}, PARTS)
    assert len(parts_of(sent(node, {"f": ["aGk=", "aG8="]}))) == 2


@pytest.mark.parametrize("name", ["a\r\nX-Evil: 1", "a\n", "\x00", "x" * 2000])
def test_a_files_name_never_ends_its_header_field(name: str) -> None:
    node = body({"properties": {"file": {"type": "string", "format": "binary"}}}, PARTS)
    with pytest.raises(BadArgument, match="no name for a file"):
        sent(node, {"file": "aGk=", "file_filename": name})


@pytest.mark.parametrize("value", ["é", "a", "****", 3, None, {"a": 1}])
def test_what_is_not_base64_is_refused(value: Any) -> None:
    node = body({"type": "string"}, "application/octet-stream")
    if value is None:
        assert sent(node, {"body": value}).data == b""
        return
    with pytest.raises(BadArgument, match="base64"):
        sent(node, {"body": value})


def test_bytes_may_be_written_for_urls_and_over_several_lines() -> None:
    node = body({"type": "string"}, "image/png")
    assert sent(node, {"body": "-_8\n"}) == Payload("image/png", b"\xfb\xff")


def test_text_is_sent_with_its_charset() -> None:
    assert sent(body({}, "text/csv"), {"body": "é,1"}) == Payload("text/csv; charset=utf-8", "é,1".encode())
    assert sent(body({}, "text/csv"), {"body": {"a": 1}}).data == b'{"a":1}'


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40))
def test_no_value_ever_starts_another_part(text: str) -> None:
    node = body({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}, PARTS)
    payload = sent(node, {"a": text, "b": "last"})
    assert len(parts_of(payload)) == 2


def test_parts_of_a_body_that_is_one_argument() -> None:
    schema = {"properties": {"files[]": {"type": "array", "items": {"type": "string", "format": "binary"}}, "n o": {}}}
    payload = sent(body(schema, PARTS), {"body": {"files[]": ["aGk=", "aG8="], "n o": 1, "other": "x"}})
    parts = parts_of(payload)
    assert [part.get_param("name", header="content-disposition") for part in parts] == ["files[]"] * 2 + [
        "n o",
        "other",
    ]
    assert [part.get_filename() for part in parts] == ["files[]"] * 2 + [None, None]
    with pytest.raises(BadArgument, match="files"):
        sent(body(schema, PARTS), {"body": {"files[]": ["*"]}})
