"""OpenAPI documents as texts: both ways to write them, every version, and what is refused of hostile ones."""

from __future__ import annotations

import gc
import json
from weakref import ref

import pytest

from gateway.config import api_document
from gateway.config.api_document import MAX_DEPTH, MAX_DOCUMENT, MAX_NODES, BadDocument, read


def refused(data: str | bytes) -> BadDocument:
    with pytest.raises(BadDocument) as caught:
        read(data if isinstance(data, bytes) else data.encode())
    return caught.value


def test_yaml_and_json_are_read_alike() -> None:
    tree = {"openapi": "3.1.0", "info": {"title": "A", "version": "1"}, "paths": {"/a": {"get": {"x": [1, 2.5, None]}}}}
    yaml = (
        "openapi: 3.1.0\ninfo: {title: A, version: '1'}\npaths:\n  /a:\n    get:\n      x:\n      - 1\n      - 2.5\n"
        "      - ~\n"
    )
    assert read(json.dumps(tree).encode()).tree == read(yaml.encode()).tree == tree


@pytest.mark.parametrize(
    ("version", "minor"), [("3.0.0", 0), ("3.0.4", 0), ("3.1.1", 1), ("3.2.0", 2), ("3.1", 1), ("'3.0'", 0)]
)
def test_the_versions_that_are_served(version: str, minor: int) -> None:
    assert read(f"openapi: {version}\npaths: {{}}\n".encode()).minor == minor


@pytest.mark.parametrize("line", ["openapi: 4.0.0", "openapi: 2.0", "openapi: [3]", "openapi: 3.3.0", "title: x"])
def test_other_versions_are_no_documents(line: str) -> None:
    assert "it needs openapi: 3.0, 3.1 or 3.2" in refused(f"{line}\npaths: {{}}\n").text


def test_swagger_is_refused_with_what_converts_it() -> None:
    problem = refused("swagger: '2.0'\nhost: a\n")
    assert "Swagger 2.0" in problem.text
    assert "convert it to OpenAPI 3" in problem.told


def test_equal_texts_are_equal_documents_and_others_are_not() -> None:
    one, same, other = read(b"openapi: 3.0.0"), read(b"openapi: 3.0.0"), read(b"openapi: 3.0.1")
    assert one == same != other
    assert len(one.digest) == 64


def test_a_text_is_read_once_for_all_who_have_it_and_gone_with_the_last() -> None:
    text = b"openapi: 3.0.0\nx-only: here\n"
    one = read(text)
    assert read(text) is one
    seen = ref(one)
    del one
    gc.collect()
    assert seen() is None
    assert read(text).tree == {"openapi": "3.0.0", "x-only": "here"}


def test_words_stay_words_and_long_integers_stay_exact() -> None:
    tree = read(b"openapi: 3.0.0\na: off\nb: 18446744073709551615\nc: 007\nd: 2020-01-02\ne: true\n").tree
    assert (tree["a"], tree["b"], tree["c"], tree["d"], tree["e"]) == (
        "off",
        18446744073709551615,
        "007",
        "2020-01-02",
        True,
    )


def test_status_codes_and_aliases_are_read_as_they_are_meant() -> None:
    tree = read(b"openapi: 3.0.0\nx: &ok {a: 1}\nresponses: {200: *ok, 404: *ok}\n").tree
    assert tree["responses"] == {"200": {"a": 1}, "404": {"a": 1}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("- openapi: 3.0.0", "not a mapping"),
        ("[1]", "not a mapping"),
        ("openapi: 3.0.0\nopenapi: 3.0.0", "a key twice"),
        ("openapi: 3.0.0\na: *b", "not valid YAML|an alias of nothing"),
        ("openapi: 3.0.0\na: !!python/object:os.system x", "a tag"),
        ("openapi: 3.0.0\na: !!set {x}", "a tag"),
        ("openapi: 3.0.0\na: {<<: {b: 1}}", "a merge key"),
        ("openapi: 3.0.0\n? [a]\n: b", "no plain word"),
        ("openapi: 3.0.0\n---\nopenapi: 3.0.0", "more than one document"),
        ("openapi: [", "not valid YAML"),
        ('{"openapi": ', "not valid JSON"),
        ('{"openapi": NaN}', "not valid JSON"),
        ("openapi: 3.0.0\na: \x01", "not valid YAML"),
    ],
)
def test_what_is_no_document_is_told_in_words(text: str, says: str) -> None:
    problem = refused(text)
    assert any(each in problem.text for each in says.split("|")), problem.text


def test_a_problem_in_yaml_has_its_line() -> None:
    assert refused("openapi: 3.0.0\na: {\n").line > 1
    assert refused("openapi: 3.0.0\na: 1\na: 2\n").told.endswith("in line 3")


def test_bytes_that_are_no_text_are_refused() -> None:
    assert refused(b"openapi: \xff").text == "is not UTF-8"


def test_a_document_is_bounded_in_length() -> None:
    assert refused(b"#" * (MAX_DOCUMENT + 1)).text == "is longer than 16 MiB"


def test_a_document_is_bounded_in_depth() -> None:
    deep = "[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2)
    assert "nested deeper" in refused(f"openapi: 3.0.0\na: {deep}\n").text
    assert "nested deeper" in refused(f'{{"openapi": "3.0.0", "a": {deep}}}').text
    very = "[" * 100_000 + "]" * 100_000
    assert "not valid JSON" in refused(f'{{"openapi": "3.0.0", "a": {very}}}').text


@pytest.mark.parametrize("inner", ["[*a{}]", "{{k: *a{}}}", "[x, [*a{}]]", "[*a{0}, x]"])
def test_aliases_of_aliases_do_not_make_it_deeper(inner: str) -> None:
    """Each stands a level or two deep, and holds all levels of the one before it."""
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} {inner.format(n - 1)}" for n in range(1, MAX_DEPTH + 4))]
    problem = refused("openapi: 3.0.0\n" + "\n".join(lines) + "\n")
    assert problem.text == f"is nested deeper than {MAX_DEPTH} levels"
    # It is told where it happens.
    levels = 2 if "[x, [" in inner else 1
    assert problem.line == (MAX_DEPTH - 2) // levels + 3


def test_what_an_alias_holds_counts_from_where_it_stands() -> None:
    def nested(levels: int) -> bytes:
        return f"openapi: 3.0.0\na: &a {'[' * 40}x{']' * 40}\nb: {'[' * levels}*a{']' * levels}\n".encode()

    assert read(nested(MAX_DEPTH - 41)).tree["a"] is not None
    assert "nested deeper" in refused(nested(MAX_DEPTH - 40)).text


def test_aliases_of_aliases_are_counted_are_counted_as_often_as_they_are_used() -> None:
    """The billion laughs: nine levels of ten."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "holds more than" in refused("openapi: 3.0.0\n" + "\n".join(lines) + "\n").text


def test_values_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_document, "MAX_NODES", 100)
    many = ", ".join(["1"] * 201)
    assert "holds more than 100 values" in refused(f"openapi: 3.0.0\na: [{many}]\n").text
    assert "holds more than 100 values" in refused(f'{{"openapi": "3.0.0", "a": [{many}]}}').text
    assert MAX_NODES == 1_000_000
