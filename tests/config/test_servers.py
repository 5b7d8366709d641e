from __future__ import annotations

import pytest
from pydantic import ValidationError

from gateway.config.servers import Server, Timeouts


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ({"command": "x"}, "stdio"),
        ({"url": "http://x"}, "http"),
        ({"openapi": "x.yaml"}, "openapi"),
        ({"openapi": "x.yaml", "url": "http://x"}, "openapi"),
    ],
)
def test_a_server_is_of_the_kind_of_its_one_key(entry: dict[str, str], kind: str) -> None:
    assert Server.model_validate(entry).kind == kind


def test_a_server_has_exactly_one_of_them() -> None:
    with pytest.raises(ValidationError, match="found none of them"):
        Server.model_validate({})
    with pytest.raises(ValidationError, match="found command and openapi"):
        Server.model_validate({"command": "x", "openapi": "y"})
    with pytest.raises(ValidationError, match="found command and url and openapi"):
        Server.model_validate({"command": "x", "url": "http://x", "openapi": "y"})


def test_a_document_is_in_a_file_or_at_an_address_and_never_shown() -> None:
    file = Server.model_validate({"openapi": "/srv/api.yaml"})
    assert (file.document_file, file.document_url, file.document) == ("/srv/api.yaml", "", None)
    address = Server.model_validate({"openapi": "https://u:s3cret@a.example/openapi.json?key=s3cret"})
    assert (address.document_file, address.document_url[-6:]) == ("", "s3cret")
    assert "s3cret" not in repr(address)


def test_a_server_may_be_taken_for_its_address_alone() -> None:
    api = Server.model_validate({"openapi": "x.yaml", "headers": {"K": "v"}, "concurrency": 3})
    made = api.at("https://a.example/v1")
    assert (made.kind, made.concurrency, list(made.headers)) == ("http", 3, ["K"])
    assert api.at("https://b.example", bare=True).headers == {}


def test_validate_is_read_by_the_name_that_is_written() -> None:
    assert Server.model_validate({"command": "x", "validate": "warn"}).validate_ == "warn"


def test_no_timeout_is_nothing() -> None:
    with pytest.raises(ValidationError, match="longer than nothing"):
        Timeouts.model_validate({"probe": "0s"})


def test_a_probe_names_a_tool_and_expects_something() -> None:
    probe = {"tool": "whoami", "expect": {"/structuredContent/dataset": "production", "/content/0/a~1b": None}}
    made = Server.model_validate({"command": "x", "pin": {"probe": probe}}).pin.probe
    assert made is not None
    assert (made.tool, made.arguments) == ("whoami", {})
    for broken in (
        {"tool": "whoami"},
        {"tool": "whoami", "expect": {}},
        {"tool": "", "expect": {"/a": 1}},
        {"tool": "whoami", "expect": {"a": 1}},
        {"tool": "whoami", "expect": {"/a~2": 1}},
        {"tool": "whoami", "expect": {"/a": 1}, "timeout": 3},
    ):
        with pytest.raises(ValidationError):
            Server.model_validate({"command": "x", "pin": {"probe": broken}})
