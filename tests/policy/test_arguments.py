"""Paths and addresses in arguments are judged by what they mean, and not at all where that is not plain (S67)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.model.principal import ANONYMOUS
from gateway.policy.arguments import MAX_LENGTH, host_in, inside
from gateway.policy.conditions import Facts, compile_condition
from gateway.protocol.rawjson import Object


@pytest.mark.parametrize(
    "path", ["/data", "/data/", "/data/x", "/data/x/y.txt", "//data//x", "/./data/./x", "/data/...", "/data/é"]
)
def test_paths_inside_a_folder(path: str) -> None:
    assert inside(path, "/data")
    assert inside(path, "/data/")
    assert inside(path, "/")


@pytest.mark.parametrize("path", ["/", "/etc/passwd", "/database", "/Data/x", "/dat", "/etc/data/x"])
def test_paths_outside_of_it(path: str) -> None:
    assert not inside(path, "/data")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "data/x",
        "./data/x",
        "~/x",
        "C:/data",
        "file:///data/x",
        "/data/../etc/passwd",
        "/data/x/..",
        "/data/%2e%2e/x",
        "/data/%2E%2E/x",
        "/data/%u002e./x",
        "/data\\..\\x",
        "\\data\\x",
        "/data/\x00",
        "/data/x\n",
        "/data/\u200b../x",
        "/data/\uff0e\uff0e/x",
        "/data/\u2025/x",
        "/data\uff0fx",
        "/data/" + "x" * MAX_LENGTH,
    ],
    ids=ascii,
)
def test_paths_that_can_be_read_in_another_way_are_errors(path: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        inside(path, "/data")


HOSTS = ["ok.example", "*.good.example", "10.0.0.1", "[::1]"]


@pytest.mark.parametrize(
    "url",
    [
        "https://ok.example",
        "http://OK.example:8080/path?q=http://evil/#x",
        "https://a.good.example/",
        "https://a.b.good.example/",
        "http://10.0.0.1/",
        "http://[::1]:9/",
        "http://[0:0:0:0:0:0:0:1]/",
        "https://ok.example/user@evil.example",
    ],
)
def test_urls_of_these_hosts(url: str) -> None:
    assert host_in(url, HOSTS)


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/ok.example",
        "https://ok.example.evil.example/",
        "https://good.example/",
        "https://notgood.example/",
        "https://xgood.example/",
        "http://10.0.0.10/",
        "http://[::2]/",
        "https://xn--ok-example-abc.example/",
    ],
)
def test_urls_of_others(url: str) -> None:
    assert not host_in(url, HOSTS)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ok.example",
        "//ok.example/",
        "ftp://ok.example/",
        "javascript:alert(1)",
        "http://ok.example@evil.example/",
        "http://user:pw@ok.example/",
        "http://ok.example\\@evil.example/",
        "http://ok%2eexample/",
        "http://ok\uff0eexample/",
        "http://ok.example\u3002evil.example/",
        "http://ok.example\u200b/",
        "http://ok.example:80:90/",
        "http://ok.example./",
        "http://ok..example/",
        "http:ok.example",
        "http:/ok.example",
        "http://ok.example /",
        "http://ok.example\t/",
        "http://127.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://0300.0250.0.1/",
        "http://[::1/",
        "http://[fe80::1%25eth0]/",
        "http://ök.example/",
    ],
    ids=ascii,
)
def test_urls_that_can_be_read_in_another_way_are_errors(url: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        host_in(url, HOSTS)


def truth(expression: str, args: Object) -> bool | None:
    facts = Facts(ANONYMOUS, Target(Kind.TOOL, "s", "t"), args, None, datetime.now(UTC))
    return compile_condition(expression).truth(facts)


@pytest.mark.parametrize(
    ("expression", "args", "expected"),
    [
        ("args.path.inside('/data')", {"path": "/data/x"}, True),
        ("args.path.inside('/data')", {"path": "/etc"}, False),
        ("args.path.inside('/data')", {"path": "/data/../etc"}, None),
        ("!args.path.inside('/data')", {"path": "/data/../etc"}, None),
        ("args.path.inside('/data')", {"path": ["/data/x"]}, None),
        ("args.path.inside('/data')", {"path": None}, None),
        ("args.path.inside('/data')", {"Path": "/data/x"}, None),
        ("args.url.hostIn(['a.example', '*.b.example'])", {"url": "https://x.b.example/"}, True),
        ("args.url.hostIn(['a.example'])", {"url": "https://a.example@evil.example/"}, None),
        ("args.paths.all(p, p.inside('/data'))", {"paths": ["/data/a", "/data/b"]}, True),
        ("args.paths.all(p, p.inside('/data'))", {"paths": ["/data/a", "/etc"]}, False),
    ],
)
def test_conditions_ask_them_and_an_error_is_neither_true_nor_false(
    expression: str, args: Object, expected: bool | None
) -> None:
    """S67, S68."""
    assert truth(expression, args) is expected
