"""Documents that servers name as files are read with the config, and what is wrong with them is a problem of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.config_files import loaded, only, problems, write

DOCUMENT = "openapi: 3.0.3\ninfo: {title: A, version: '1'}\npaths: {/a: {get: {operationId: a}}}\n"
CONFIG = "servers: {api: {openapi: ./api.yaml, url: 'http://127.0.0.1:1'}}\n"


def test_a_file_is_read_beside_the_config_and_counts_as_one_of_its_files(tmp_path: Path) -> None:
    file = write(tmp_path, DOCUMENT, "api.yaml")
    config = loaded(tmp_path, CONFIG)
    server = config.config.servers["api"]
    assert server.document is not None
    assert server.document.tree["openapi"] == "3.0.3"
    assert (server.kind, server.document_file, server.document_url) == ("openapi", str(file), "")
    assert file in config.sources.files


def test_another_content_is_another_server(tmp_path: Path) -> None:
    write(tmp_path, DOCUMENT, "api.yaml")
    before = loaded(tmp_path, CONFIG).config.servers["api"]
    same = loaded(tmp_path, CONFIG).config.servers["api"]
    write(tmp_path, DOCUMENT + "# more\n", "api.yaml")
    after = loaded(tmp_path, CONFIG).config.servers["api"]
    assert before == same != after
    assert before.document is same.document


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        (None, "the document does not exist", ""),
        ("swagger: '2.0'\n", "the document is written in Swagger 2.0, which is not served", "convert it to OpenAPI 3"),
        ("openapi: [\n", "the document is not valid YAML in line 2", ""),
        ("hello: you\n", "the document is no OpenAPI document", ""),
    ],
)
def test_what_is_wrong_with_a_file_is_said_where_it_is_named(
    tmp_path: Path, text: str | None, says: str, hint: str
) -> None:
    if text is not None:
        write(tmp_path, text, "api.yaml")
    problem = only(problems(tmp_path, CONFIG))
    assert (problem.path, problem.line) == ("servers.api.openapi", 1)
    assert problem.message.startswith(says)
    assert hint in problem.hint


def test_an_address_is_fetched_by_nobody_here(tmp_path: Path) -> None:
    server = loaded(tmp_path, "servers: {api: {openapi: 'http://127.0.0.1:1/openapi.json'}}\n").config.servers["api"]
    assert server.document is None
    assert server.document_url == "http://127.0.0.1:1/openapi.json"


def test_the_file_of_a_server_that_is_off_is_not_missed(tmp_path: Path) -> None:
    config = loaded(tmp_path, "servers: {api: {openapi: ./none.yaml, headers: {K: '${UNSET}'}}}\n")
    assert list(config.off) == ["api"]
