"""Where traces go, as written."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.config.telemetry import Collector
from tests.kit.config_files import loaded, only, problems


def collector(folder: Path, text: str) -> Collector | None:
    """Read a section ``otlp``."""
    return loaded(folder, f"telemetry: {{otlp: {text}}}\n").config.telemetry.collector


@pytest.mark.parametrize("text", ['""', "'${OTEL_EXPORTER_OTLP_ENDPOINT:-}'"])
def test_an_empty_address_is_none(tmp_path: Path, text: str) -> None:
    assert collector(tmp_path, text) is None
    assert loaded(tmp_path, "{}\n").config.telemetry.collector is None


@pytest.mark.parametrize(
    "url", ["http://collector:4318", "https://collector.example.com/otlp", "http://u:p@127.0.0.1:4318", "https://u:p@c"]
)
def test_an_address_alone_is_a_collector_with_all_defaults(tmp_path: Path, url: str) -> None:
    assert collector(tmp_path, f"'{url}'") == Collector(url=SecretStr(url))


def test_more_about_it_is_a_section(tmp_path: Path) -> None:
    text = "{url: 'https://c', headers: {Authorization: 'Bearer ${T:-t}'}, sample: 0.1, follow: false, ca: ca.pem}"
    found = collector(tmp_path, text)
    assert found is not None
    assert found.opened() == ("https://c", {"Authorization": "Bearer t"}, str(tmp_path / "ca.pem"))
    assert (found.sample, found.follow) == (0.1, False)
    assert "Bearer" not in repr(found)


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("collector:4318", "telemetry.otlp", "absolute http or https URL"),
        ("'grpc://collector:4317'", "telemetry.otlp", "absolute http or https URL"),
        ("'https://c?token=x'", "telemetry.otlp", "without a query"),
        ("'http://u:p@collector'", "telemetry.otlp", "only over https"),
        ("7", "telemetry.otlp", "the address of a collector, or a mapping"),
        ("{sample: 1}", "telemetry.otlp.url", ""),
        ("{url: ''}", "telemetry.otlp", "must not be empty"),
        ("{url: 'https://c', sample: 1.5}", "telemetry.otlp.sample", ""),
        ("{url: 'https://c', sampel: 1}", "telemetry.otlp.sampel", "unknown key"),
        ("{url: 'http://c', headers: {X-Key: abc}}", "telemetry.otlp", "only over https"),
        ("{url: 'https://c', headers: {Host: abc}}", "telemetry.otlp", "none that the gateway sets"),
        ("{url: 'https://c', headers: {'a b': abc}}", "telemetry.otlp", "names of HTTP headers"),
        ("{url: 'https://c', headers: {X: \"a\\nb\"}}", "telemetry.otlp", "visible ASCII"),
    ],
)
def test_what_cannot_be_used_is_said_by_its_place_and_never_quoted(
    tmp_path: Path, text: str, path: str, said: str
) -> None:
    problem = only(problems(tmp_path, f"telemetry: {{otlp: {text}}}\n"))
    assert problem.path == path
    assert said in problem.message
    assert "token=x" not in str(problem)
