"""Where audit records may go."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from gateway.config.sinks import parse_sink


@pytest.mark.parametrize(
    "text",
    [
        "stdout",
        "otlp",
        "otlp+https://collector.example.com:4318",
        "otlp+http://127.0.0.1:4318",
        "postgres://u:p@db/audit",
        "postgresql://db",
        "https://hook.example.com/x?token=y",
        "http://localhost:9000/x",
    ],
)
def test_a_sink_is_a_word_or_an_address(text: str) -> None:
    assert parse_sink(SecretStr(text)).get_secret_value() == text


@pytest.mark.parametrize(
    "text",
    ["", "stderr", "file:///x", "postgres://", "http://hook.example.com", "https://", "otlp+grpc://x", "redis://x"],
)
def test_what_is_none_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|needs|only over") as caught:
        parse_sink(SecretStr(text))
    assert "hook.example" not in str(caught.value)
