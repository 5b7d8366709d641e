"""Where definitions and results name views."""

from __future__ import annotations

import pytest

from gateway.protocol import apps, rawjson

VIEW = "ui://board/main.html"


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({"ui": {"resourceUri": VIEW}}, [VIEW]),
        ({"ui/resourceUri": VIEW}, [VIEW]),
        ({"ui": {"resourceUri": VIEW}, "ui/resourceUri": VIEW}, [VIEW]),
        ({"ui": {"resourceUri": VIEW}, "ui/resourceUri": "ui://other"}, [VIEW, "ui://other"]),
        ({"ui": {"resourceUri": "https://example.com/"}}, []),
        ({"ui": {"resourceUri": 1}}, []),
        ({"ui": "x"}, []),
        ("x", []),
    ],
)
def test_a_definition_names_its_views_in_either_way(meta: rawjson.Value, expected: list[str]) -> None:
    assert list(apps.references({"name": "t", "_meta": meta})) == expected
    assert list(apps.references({"name": "t"})) == []


def test_only_what_names_a_view_is_rewritten_and_everything_else_keeps_its_bytes() -> None:
    members = rawjson.decode_members(
        b'{"a":1.50,"_meta":{"k":1.50,"ui":{"csp": {},"resourceUri":"ui://v"},"ui/resourceUri":"ui://v"}}'
    )
    after = rawjson.encode(apps.rewritten(members, lambda uri: apps.qualified("s", uri)))
    assert after.replace(b" ", b"") == (
        b'{"a":1.50,"_meta":{"k":1.50,"ui":{"csp":{},"resourceUri":"ui://s+v"},"ui/resourceUri":"ui://s+v"}}'
    )


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b'{"_meta":{"ui":{"resourceUri":"https://x"}}}',
        b'{"_meta":{"ui":{"resourceUri":"ui://v"}}}',
        b'{"_meta":{"ui":"resourceUri"}}',
        b'{"_meta":"resourceUri"}',
    ],
)
def test_what_needs_no_change_stays_the_same_object(text: bytes) -> None:
    members = rawjson.decode_members(text)
    assert apps.rewritten(members, lambda uri: uri) is members


def test_a_qualified_view_is_still_a_view_and_leads_back() -> None:
    named = apps.qualified("my-server", VIEW)
    assert named == "ui://my-server+board/main.html"
    assert apps.unqualified("my-server", named) == VIEW
    assert apps.unqualified("my", named) is None
    assert apps.unqualified("my-server", VIEW) is None
