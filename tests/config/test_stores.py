"""Where short facts may be kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.config.stores import is_secured, is_shared, parse_store_url
from tests.kit.config_files import loaded, only, problems


@pytest.mark.parametrize(
    "text",
    [
        "memory://",
        "redis://cache",
        "redis://cache:6380/2",
        "valkey://:pa%23ss@cache/",
        "rediss://user:pw@cache.example.com/15",
        "valkeys://[::1]:6379",
        "unix:///run/valkey.sock",
        "unix:///run/valkey.sock?db=3",
    ],
)
def test_a_store_is_memory_or_an_address(text: str) -> None:
    assert parse_store_url(SecretStr(text)).get_secret_value() == text
    assert is_shared(SecretStr(text)) == (text != "memory://")
    assert is_secured(SecretStr(text)) == text.startswith(("rediss", "valkeys"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "memory",
        "memory://x",
        "http://canary",
        "redis://",
        "redis://canary:port",
        "redis://canary:99999",
        "redis://canary/zero",
        "redis://canary/0/1",
        "redis://canary?ssl_cert_reqs=none",
        "rediss://canary/0?db=1",
        "redis://:canary#x@cache",
        "redis://canary@cache",
        "redis://[canary",
        "unix://canary/run/valkey.sock",
        "unix:run/canary.sock",
        "unix:///run/canary.sock?db=x",
        "unix:///run/canary.sock?password=x",
    ],
)
def test_what_is_none_is_refused_without_being_shown(text: str) -> None:
    """S153: a URL may hold a password."""
    with pytest.raises(ValueError, match=r"must|needs|takes|path") as caught:
        parse_store_url(SecretStr(text))
    assert "canary" not in str(caught.value)


def test_it_is_shown_nowhere(tmp_path: Path) -> None:
    keys = "sealing_keys: ['${KEY}']"
    environ = {"KEY": "k" * 32, "PW": "canary-pw"}
    config = loaded(tmp_path, f"state: {{url: 'redis://:${{PW}}@cache', {keys}}}\n", environ)
    assert config.config.state.url.get_secret_value() == "redis://:canary-pw@cache"
    assert "canary" not in repr(config)
    assert "canary" not in " ".join(config.notes)


def test_an_authority_without_tls_is_a_mistake(tmp_path: Path) -> None:
    problem = only(problems(tmp_path, "state: {url: 'redis://cache', ca: ca.pem}\n"))
    assert (problem.path, problem.line) == ("state.ca", 1)
    fine = loaded(tmp_path, "state: {url: 'rediss://cache', ca: ca.pem}\n")
    assert fine.config.state.ca == str(tmp_path / "ca.pem")


@pytest.mark.parametrize("prefix", ["", "a:b", "a b", "x" * 33])
def test_a_prefix_is_a_word(tmp_path: Path, prefix: str) -> None:
    assert only(problems(tmp_path, f"state: {{prefix: '{prefix}'}}\n")).path == "state.prefix"
