"""Rows 1 to 4: Host, target, Origin, duplicates, preflight, as pure functions (S01 to S07, S18, S20, G095)."""

from __future__ import annotations

import pytest

from gateway.config.root import Config, Listen, ListenTls
from gateway.endpoint import guards
from gateway.endpoint.guards import Head, Line, Rules
from gateway.endpoint.rejection import Rejected, Rejection

PORT = 8080
LOOPBACK = Rules.of(Config())
PUBLIC = Rules.of(
    Config(
        listen=Listen(
            host="0.0.0.0",
            public_url="https://mcp.example.com/mcp",
            allowed_hosts=["gate.internal", "pinned.internal:9000"],
            allowed_origins=["https://App.example.com"],
            behind_tls_proxy=True,
        )
    )
)


def line(
    *headers: tuple[str, str], target: str = "/mcp", method: str = "POST", version: tuple[int, int] = (1, 1)
) -> Line:
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    if not any(name.lower() == "host" for name, _ in headers):
        pairs.insert(0, (b"Host", b"localhost:8080"))
    return Line(method, target, version, pairs, PORT)


def refused(asked: Line, rules: Rules = LOOPBACK) -> Rejection:
    with pytest.raises(Rejected) as caught:
        guards.inspect(asked, rules)
    return caught.value.rejection


@pytest.mark.parametrize(
    "host",
    ["a/b", "a?x=", "a#", "good@evil", "", "x:99999", "[::1", "::1", "a b", "a:b", "[::1]x", "[zz]", "-a", "a\\b"],
)
def test_a_host_that_is_no_host_is_a_bad_request(host: str) -> None:
    assert refused(line(("Host", host))).status == 400


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.2", "localhost:8081", "localhost."]
)
def test_a_host_that_is_not_ours_is_misdirected(host: str) -> None:
    assert refused(line(("Host", host))).status == 421


@pytest.mark.parametrize(
    "host", ["localhost:8080", "LocalHost:8080", "127.0.0.1:8080", "[::1]:8080", "[0:0::1]:8080", "localhost"]
)
def test_loopback_names_are_ours_on_a_loopback_bind(host: str) -> None:
    assert guards.inspect(line(("Host", host)), LOOPBACK).path == "/mcp"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("mcp.example.com", 0),
        ("MCP.example.com:443", 0),
        ("gate.internal:1234", 0),
        ("pinned.internal:9000", 0),
        ("pinned.internal", 421),
        ("localhost:8080", 421),
    ],
)
def test_off_loopback_only_configured_hosts_are_ours(host: str, status: int) -> None:
    if status:
        assert refused(line(("Host", host)), PUBLIC).status == status
    else:
        guards.inspect(line(("Host", host)), PUBLIC)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "http://localhost.evil.example",
        "http://localhost:8080@evil",
        "http://[::1]garbage",
        "ftp://localhost",
        "http://localhost:8080/path",
        "http://localhost:8081",
        "https://localhost:8080",
        "localhost:8080",
        "http://localhost:8080 http://evil.example",
    ],
)
def test_an_origin_that_is_not_allowed_is_forbidden(origin: str) -> None:
    assert refused(line(("Origin", origin))).status == 403


@pytest.mark.parametrize(
    "origin", ["http://localhost:8080", "HTTP://LOCALHOST:8080", "http://127.0.0.1:8080", "http://[::1]:8080"]
)
def test_its_own_origins_may_use_a_loopback_bind(origin: str) -> None:
    assert guards.inspect(line(("Origin", origin)), LOOPBACK).origin == origin


def test_own_origins_of_a_tls_bind_are_https() -> None:
    rules = Rules.of(Config(listen=Listen(tls=ListenTls(cert="c", key="k"))))
    guards.inspect(line(("Origin", "https://localhost:8080")), rules)
    assert refused(line(("Origin", "http://localhost:8080")), rules).status == 403


@pytest.mark.parametrize("origin", ["https://app.example.com", "https://APP.example.com:443"])
def test_a_configured_origin_passes_in_any_case(origin: str) -> None:
    guards.inspect(line(("Host", "gate.internal"), ("Origin", origin)), PUBLIC)


@pytest.mark.parametrize(
    "target",
    [
        "http://evil/mcp",
        "http://localhost:8081/mcp",
        "http://user@localhost:8080/mcp",
        "ftp://localhost:8080/mcp",
        "//mcp",
        "/mcp//x",
        "/mcp/../admin",
        "/mcp/.",
        "/mcp/..",
        "/mcp/%2e%2e/admin",
        "/mcp%2fx",
        "/mcp%5Cx",
        "/mcp\\x",
        "/mcp%00",
        "/mcp#x",
        "/m\xe9",
        "*",
        "localhost:8080",
        "",
    ],
)
def test_a_target_that_two_readers_could_read_differently_is_a_bad_request(target: str) -> None:
    assert refused(line(target=target)).status == 400


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/mcp", "/mcp"),
        ("/mcp?access_token=x", "/mcp"),
        ("http://localhost:8080/mcp", "/mcp"),
        ("HTTP://LOCALHOST:8080/mcp?x", "/mcp"),
        ("http://localhost:8080", "/"),
        ("/mcp/..a", "/mcp/..a"),
        ("/mcp?a=//../%2f", "/mcp"),
    ],
)
def test_a_plain_target_is_its_path(target: str, path: str) -> None:
    assert guards.inspect(line(target=target), LOOPBACK).path == path


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "Origin",
        "Host",
        "Content-Type",
        "Content-Length",
        "MCP-Protocol-Version",
        "Mcp-Method",
        "Mcp-Name",
        "Mcp-Session-Id",
        "Last-Event-ID",
        "Mcp-Param-Region",
    ],
)
@pytest.mark.parametrize("second", ["localhost", "other"])
def test_a_header_that_decides_something_must_not_occur_twice(name: str, second: str) -> None:
    """S05."""
    rejection = refused(line((name, "localhost"), (name.lower(), second)))
    assert (rejection.status, rejection.reason, rejection.close) == (400, "duplicate_header", True)


def test_other_headers_may_occur_twice() -> None:
    head = guards.inspect(line(("Accept", "application/json"), ("accept", "text/event-stream")), LOOPBACK)
    assert head.headers["accept"] == "application/json, text/event-stream"


@pytest.mark.parametrize(
    ("name", "code"),
    [("Mcp-Name", -32020), ("Mcp-Param-X", -32020), ("Authorization", -32600), ("Mcp-Session-Id", -32600)],
)
@pytest.mark.parametrize("value", ["\xff\xfe", "a\x01b", "a\x7f"])
def test_a_header_that_decides_something_must_be_visible_ascii(name: str, code: int, value: str) -> None:
    """S06."""
    rejection = refused(line((name, value)))
    assert (rejection.status, rejection.code) == (400, code)


def test_another_header_may_hold_any_bytes() -> None:
    guards.inspect(line(("User-Agent", "\xff\xfe")), LOOPBACK)


def test_an_underscore_spelling_is_another_header() -> None:
    head = guards.inspect(line(("Mcp_Name", "x"), ("Mcp_Name", "y")), LOOPBACK)
    assert "mcp-name" not in head.headers


@pytest.mark.parametrize("version", [(0, 9), (1, 2), (2, 0)])
def test_other_http_versions_are_not_supported(version: tuple[int, int]) -> None:
    assert refused(line(version=version)).status == 505


def test_http_1_0_knows_no_transfer_encoding() -> None:
    assert refused(line(("Transfer-Encoding", "chunked"), version=(1, 0))).status == 400
    guards.inspect(line(version=(1, 0)), LOOPBACK)


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (line(("Host", "a/b"), ("Mcp-Name", "\xff"), target="//", version=(0, 9)), 505),
        (line(("Host", "a/b"), ("Mcp-Name", "\xff"), target="//"), 400),
        (line(("Host", "evil.example"), ("Origin", "null"), target="//"), 400),
        (line(("Host", "evil.example"), ("Origin", "null")), 421),
    ],
)
def test_the_first_failing_check_decides(asked: Line, status: int) -> None:
    assert refused(asked).status == status


def head(*headers: tuple[str, str], origin: str | None = None, method: str = "OPTIONS") -> Head:
    return Head(method, "/mcp", dict(headers), origin)


def test_a_preflight_of_a_configured_origin_names_exactly_it() -> None:
    asked = head(
        ("access-control-request-headers", "Authorization, mcp-param-region, X-Evil, mcp-param-a;b"),
        origin="https://app.example.com",
    )
    assert guards.preflight(asked, PUBLIC) == {
        "Access-Control-Allow-Origin": "https://app.example.com",
        "Access-Control-Expose-Headers": "Mcp-Session-Id, WWW-Authenticate, Retry-After",
        "Vary": "Origin",
        "Access-Control-Allow-Methods": "GET, POST, DELETE",
        "Access-Control-Allow-Headers": "authorization, mcp-param-region",
        "Access-Control-Max-Age": "600",
    }


def test_without_configured_origins_there_are_no_cors_headers() -> None:
    """S18."""
    own = head(origin="http://localhost:8080")
    assert guards.preflight(own, LOOPBACK) == {}
    assert guards.cors(own, LOOPBACK) == {}


@pytest.mark.parametrize("asked", [head(), head(origin="https://app.example.com", method="POST")])
def test_other_requests_are_no_preflight(asked: Head) -> None:
    assert guards.preflight(asked, PUBLIC) is None


@pytest.mark.parametrize(
    ("path", "view"),
    [("/mcp", ""), ("/mcp/analysts", "analysts"), ("/mcp/", "/"), ("/mcp/a/b", "a/b"), ("/mcpx", None), ("/", None)],
)
def test_what_follows_the_path_is_the_view(path: str, view: str | None) -> None:
    assert guards.view_of(path, LOOPBACK) == view


@pytest.mark.parametrize(
    ("peer", "forwarded", "trusted", "source"),
    [
        ("10.0.0.1", "1.2.3.4", [], "10.0.0.1"),
        ("9.9.9.9", "1.2.3.4", ["10.0.0.0/8"], "9.9.9.9"),
        ("10.0.0.1", "1.2.3.4", ["10.0.0.0/8"], "1.2.3.4"),
        ("10.0.0.1", "6.6.6.6, 1.2.3.4, 10.0.0.2", ["10.0.0.0/8"], "1.2.3.4"),
        ("10.0.0.1", "", ["10.0.0.1"], "10.0.0.1"),
        ("10.0.0.1", "1.2.3.4, evil", ["10.0.0.1"], "10.0.0.1"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", ["10.0.0.0/8"], "10.0.0.3"),
        ("", "1.2.3.4", ["10.0.0.0/8"], ""),
    ],
)
def test_only_a_trusted_proxy_may_say_who_is_behind_it(
    peer: str, forwarded: str, trusted: list[str], source: str
) -> None:
    """S20."""
    headers = {"x-forwarded-for": forwarded, "x-real-ip": "7.7.7.7", "forwarded": "for=7.7.7.7"}
    assert guards.source_of(peer, headers, trusted) == source


def test_unreadable_entries_of_the_config_allow_nothing() -> None:
    rules = Rules.of(
        Config.model_construct(listen=Listen.model_construct(allowed_hosts=["a/b"], allowed_origins=["*", "null"]))
    )
    assert rules.hosts == frozenset()
    assert rules.origins == frozenset()
