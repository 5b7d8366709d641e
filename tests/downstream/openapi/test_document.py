from __future__ import annotations

import pytest

from gateway.downstream.openapi import document as module
from gateway.downstream.openapi.document import DocumentError, Found
from tests.kit.openapi import Json, document, schemas


def test_references_into_the_document_are_followed_with_escapes() -> None:
    doc = document({"/a~b/{c}": {"get": {"operationId": "x"}}}, components={"schemas": {"A": {"$ref": "#/x%20y/0"}}})
    doc.tree["x y"] = [{"type": "string"}]
    assert doc.target("#/paths/~1a~0b~1{c}/get/operationId") == "x"
    assert doc.resolved({"$ref": "#/components/schemas/A"}) == {"type": "string"}
    assert doc.resolved("no object") == {}


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("other.yaml#/A", "another document (other.yaml#/A): bundle all of them into one"),
        ("https://evil.example/x.json", "another document"),
        ("#/components/schemas/None", "which is not in the document"),
        ("#anchor", "which is no place in the document"),
        ("#", "which is no place in the document"),
        ("#/paths/99999999999", "which is not in the document"),
    ],
)
def test_other_references_are_refused_and_never_fetched(reference: str, says: str) -> None:
    """S76."""
    with pytest.raises(DocumentError) as caught:
        document().resolved({"$ref": reference})
    assert says in str(caught.value)


def test_references_in_a_circle_end() -> None:
    doc = schemas(A={"$ref": "#/components/schemas/B"}, B={"$ref": "#/components/schemas/A"})
    with pytest.raises(DocumentError, match="nothing but references"):
        doc.resolved({"$ref": "#/components/schemas/A"})


def test_operations_come_in_order_and_trace_is_none_of_them() -> None:
    """An answer to TRACE repeats the request with the gateway's credentials."""
    paths = {"/a": {"post": {}, "get": {}, "trace": {}, "summary": "s"}, "x-more": {"get": {}}, "/b": {"delete": {}}}
    found = [each for each in document(paths).operations() if isinstance(each, Found)]
    assert [(each.method, each.path) for each in found] == [("GET", "/a"), ("POST", "/a"), ("DELETE", "/b")]


@pytest.mark.parametrize(("version", "known"), [("3.1.0", 0), ("3.2.0", 1)])
def test_query_is_a_method_since_3_2(version: str, known: int) -> None:
    assert len(list(document({"/a": {"query": {}}}, version).operations())) == known


def test_a_path_in_another_document_is_named_with_the_reason() -> None:
    doc = document({"/a": {"$ref": "./a.yaml"}, "/b": {"$ref": "#/components/pathItems/B"}})
    doc.tree["components"] = {"pathItems": {"B": {"get": {"operationId": "b"}}}}
    first, second = doc.operations()
    assert isinstance(second, Found)
    assert second.node["operationId"] == "b"
    assert isinstance(first, tuple)
    assert first[0] == "/a"
    assert "refers to another document" in first[1]


def test_methods_of_other_names_are_known_since_3_2() -> None:
    more: Json = {
        "COPY": {"operationId": "copy"},
        "trace": {},
        "GET": {},
        "CONNECT": {},
        "Lock": {},
        "X Y": {},
        "x-a": 1,
    }
    paths: Json = {"/a": {"get": {}, "additionalOperations": more}}
    made = [*document(paths, "3.2.0").operations()]
    assert [each.method for each in made if isinstance(each, Found)] == ["GET", "COPY"]
    refused = [each for each in made if not isinstance(each, Found)]
    assert {why for _, why in refused} == {"has a method that is not sent"}
    assert [name for name, _ in refused] == ["trace /a", "GET /a", "CONNECT /a", "Lock /a", "X Y /a"]
    assert len([*document(paths, "3.1.0").operations()]) == 1


def test_the_number_of_operations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OPERATIONS", 3)
    assert len(list(document({f"/{n}": {"get": {}} for n in range(3)}).operations())) == 3
    with pytest.raises(DocumentError, match="more than 3 operations"):
        list(document({f"/{n}": {"get": {}} for n in range(4)}).operations())


def test_texts_of_the_document_are_texts_or_nothing() -> None:
    doc = document()
    assert (doc.text("info", "title"), doc.text("info"), doc.text("a", "b")) == ("Test", "", "")


def test_a_reference_is_bounded() -> None:
    with pytest.raises(DocumentError, match="which is too long"):
        document().target("#/" + "a" * 5_000)


def test_work_and_size_are_counted_for_the_whole_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WORK", 10)
    monkeypatch.setattr(module, "MAX_TOOLS", 10)
    doc = document()
    for count in (doc.work, doc.tell):
        count(10)
        with pytest.raises(DocumentError, match="too large altogether"):
            count(1)
