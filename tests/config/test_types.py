from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import SecretStr

from gateway.config import types
from gateway.config.types import Rate, parse_api_source


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("30s", 30.0), ("1.5m", 90.0), ("2h", 7200.0), ("400d", 34560000.0), ("0s", 0.0)],
)
def test_durations_are_read_as_seconds(text: str, seconds: float) -> None:
    assert types.parse_duration(text) == seconds
    assert types.parse_duration(types.format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    "value", ["", "30", 30, "30 sec", "-1s", "1e3s", "s", "9" * 5000 + "s", None, True, float("nan")]
)
def test_other_durations_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must be a duration"):
        types.parse_duration(value)


@pytest.mark.parametrize(("value", "count"), [("1KiB", 1024), ("4MiB", 4194304), ("1GB", 10**9), ("512", 512), (7, 7)])
def test_sizes_are_read_as_bytes(value: object, count: int) -> None:
    assert types.parse_size(value) == count
    assert types.parse_size(types.format_size(count)) == count


@pytest.mark.parametrize("value", ["", "0", 0, -1, True, "1.5MiB", "4 megs", "9" * 5000, 1.5])
def test_other_sizes_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must be a size"):
        types.parse_size(value)


def test_rates_are_read_and_written() -> None:
    assert types.parse_rate("60/minute") == Rate(60, 60.0)
    assert str(types.parse_rate(" 5 / day ")) == "5/day"
    assert types.parse_rate(Rate(1, 1.0)) == Rate(1, 1.0)


@pytest.mark.parametrize("value", ["60", "0/minute", "60/week", "1.5/second", 60, "9" * 5000 + "/day"])
def test_other_rates_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must be a rate"):
        types.parse_rate(value)


@pytest.mark.parametrize(
    ("parse", "good", "result"),
    [
        (types.parse_sha256, "AB" * 32, "ab" * 32),
        (types.parse_network, "10.1.2.3/8", "10.0.0.0/8"),
        (types.parse_network, "::1", "::1/128"),
        (types.parse_host, "MCP.example.com:8443", "mcp.example.com:8443"),
        (types.parse_host, "[::1]:80", "[::1]:80"),
        (types.parse_public_url, "", ""),
        (types.parse_public_url, "https://x.example/mcp", "https://x.example/mcp"),
        (types.parse_origin, "https://App.example:8443", "https://app.example:8443"),
        (types.parse_origin, "vscode-webview://abc", "vscode-webview://abc"),
    ],
)
def test_addresses_and_digests_are_brought_into_one_form(parse: Callable[[str], str], good: str, result: str) -> None:
    assert parse(good) == result


@pytest.mark.parametrize(
    ("parse", "bad"),
    [
        (types.parse_sha256, "ab" * 31),
        (types.parse_sha256, "zz" * 32),
        (types.parse_network, "10.0.0.0/33"),
        (types.parse_network, "example.com"),
        (types.parse_host, "https://x"),
        (types.parse_host, "x/y"),
        (types.parse_host, ""),
        (types.parse_host, "*"),
        (types.parse_public_url, "x.example"),
        (types.parse_public_url, "https://u:p@x.example"),
        (types.parse_public_url, "https://x.example/?q"),
        (types.parse_public_url, "https://x.example/#f"),
        (types.parse_origin, "*"),
        (types.parse_origin, "null"),
        (types.parse_origin, "https://x.example/"),
    ],
)
def test_what_is_something_else_is_refused_without_being_shown(parse: Callable[[str], str], bad: str) -> None:
    with pytest.raises(ValueError, match=r"^must be ") as caught:
        parse(bad)
    assert not bad or len(bad) < 5 or bad not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "x",
        "http://",
        "http://x:0/",
        "http://x:99999/",
        "http://x y/",
        "http://x\\y",
        "http://x/#f",
        "http://[::1",
        "http://x\n",
    ],
)
def test_a_server_address_is_absolute_and_clean(url: str) -> None:
    with pytest.raises(ValueError, match="absolute http or https URL"):
        types.parse_server_url(SecretStr(url))


def test_a_server_address_may_hold_userinfo_and_a_query() -> None:
    url = SecretStr("https://u:p@x.example:8443/mcp?key=v")
    assert types.parse_server_url(url) is url


def test_a_truth_value_is_no_number() -> None:
    assert types.refuse_bool(5) == 5
    with pytest.raises(ValueError, match="whole number"):
        types.refuse_bool(True)


def test_lengths_are_written_in_their_largest_unit() -> None:
    written = [types.format_duration(value) for value in (0.0, 0.25, 1.0, 60.0, 90.0, 7200.0, 86400.0, 172800.0)]
    assert written == ["0s", "250ms", "1s", "60s", "90s", "2h", "24h", "2d"]
    assert [types.format_size(value) for value in (1, 1024, 1500, 2**22, 2**31)] == [
        "1",
        "1KiB",
        "1500",
        "4MiB",
        "2GiB",
    ]


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
    ],
)
def test_which_hosts_are_loopback(host: str, loopback: bool) -> None:
    assert types.is_loopback(host) is loopback


@pytest.mark.parametrize("text", ["api.yaml", "/srv/api.json", "https://u:p@a.example/openapi.json?k=v"])
def test_a_document_may_be_in_a_file_or_at_an_address(text: str) -> None:
    assert parse_api_source(SecretStr(text)).get_secret_value() == text


@pytest.mark.parametrize("text", ["", " ", "ftp://a/x", "https://", "file:///x", "a\0b", "https://a/ b"])
def test_a_document_is_nowhere_else(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_api_source(SecretStr(text))
