"""What tracing is to the rest of the gateway."""

from __future__ import annotations

import pytest

from gateway.telemetry import spans
from gateway.telemetry.spans import MAX_FACT, OFF, Side


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("tools/call", "wiki__search", "tools/call wiki__search"),
        ("prompts/get", "wiki__ask", "prompts/get wiki__ask"),
        ("resources/read", "file:///a", "resources/read"),
        ("tools/list", "", "tools/list"),
        ("tools/call", "", "tools/call"),
        ("com.example/secret", "x", "_OTHER"),
    ],
)
def test_a_span_is_named_by_method_and_tool_or_prompt_never_by_a_resource(
    method: str, target: str, expected: str
) -> None:
    assert spans.title(method, target) == expected


def test_names_and_texts_are_escaped_and_cut() -> None:
    assert spans.title("tools/call", "x\n") == "tools/call x\\n"
    assert len(spans.title("tools/call", "t" * 1000)) == MAX_FACT
    assert spans.fitting({"a": "\x1b[0m" + "x" * 1000, "b": 7})["b"] == 7
    text = spans.fitting({"a": "\x1b" + "x" * 1000})["a"]
    assert isinstance(text, str)
    assert text.startswith("\\x1b")
    assert len(text) == MAX_FACT


def test_what_a_request_is_about_has_the_names_of_the_conventions() -> None:
    """S179."""
    assert spans.about("tools/call", "t") == {"gen_ai.tool.name": "t", "gen_ai.operation.name": "execute_tool"}
    assert spans.about("prompts/get", "p") == {"gen_ai.prompt.name": "p"}
    assert spans.about("resources/read", "file:///a") == {"mcp.resource.uri": "file:///a"}
    assert spans.about("tasks/get", "t1") == {}
    assert spans.about("tools/list", "") == {}


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("tools/call", {"name": "t", "arguments": {"name": "secret"}}, "t"),
        ("resources/read", {"uri": "file:///a"}, "file:///a"),
        ("tasks/get", {"taskId": "t1"}, ""),
        ("tools/call", {"name": 7}, ""),
        ("com.example/x", {"name": "t"}, ""),
    ],
)
def test_what_a_request_names_is_read_from_the_member_that_its_method_has_for_it(
    method: str, params: dict[str, object], expected: str
) -> None:
    assert spans.named(method, params) == expected


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgres://bob:secret@db:5432/x?password=secret#secret", "postgres://db:5432/x"),
        ("https://a@b:secret@host/path", "https://host/path"),
        ("file:///etc/hosts", "file:///etc/hosts"),
        ("note:7?token=secret", "note:7"),
        ("plain", "plain"),
    ],
)
def test_a_uri_is_told_without_what_may_be_secret(uri: str, shown: str) -> None:
    assert spans.without_secrets(uri) == shown


def test_without_tracing_nothing_is_begun() -> None:
    assert not OFF.on
    assert OFF.pseudonym("session") == ""
    with pytest.raises(RuntimeError):
        OFF.begin(Side.SERVER, "x", {}, {})


def test_a_measurement_leads_to_a_span_that_is_recorded_only() -> None:
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    assert spans.exemplar({"traceparent": f"00-{trace}-{span}-03"}) == {"trace_id": trace, "span_id": span}
    assert spans.exemplar({"traceparent": f"00-{trace}-{span}-02"}) is None
    assert spans.exemplar({}) is None
