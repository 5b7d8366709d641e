"""Rules about arguments, in front of a real server: whatever a path or an address looks like, nothing gets through."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit import wire
from tests.kit.field import field, lines, serving_beside
from tests.kit.gateway import ROOT
from tests.kit.wire import EraName

KEY = "k" * 40
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("read_file", "fetch", "order")]
READY = [str(ROOT / "policies" / f"{name}.yaml") for name in ("files-in-folder", "web-allowlist")]
ORDER = {
    "name": "orders",
    "clients": ["bot"],
    "allow": [
        {
            "tools": "a/order",
            "when": "args.size in ['s', 'm'] && args.count >= 1 && args.count <= 10 && size(args.note) <= 20"
            " && !has(args.discount)",
        }
    ],
}
PASS: list[tuple[str, wire.Json]] = [
    ("read_file", {"path": "/srv/docs/a/b.md"}),
    ("read_file", {"path": "/srv/docs//./a"}),
    ("fetch", {"url": "https://docs.python.org/3/library?x=%2e%2e"}),
    ("order", {"size": "s", "count": 10, "note": "x" * 20}),
]
STOP: list[tuple[str, wire.Json]] = [
    *(
        ("read_file", {"path": path})
        for path in (
            "/srv/docs/../../etc/passwd",
            "/srv/docs/%2e%2e/x",
            "/srv/docs/%2E%2E%2Fx",
            "/srv/docs/%252e%252e/x",
            "\\\\srv\\docs",
            "/srv/docs\\..\\x",
            "/srv/docs/..;/x",
            "/srv/docs/..;v=1/x",
            "/srv/docs/.. /x",
            "/srv/docs/a\x00.md",
            "/srv/docs/\uff0e\uff0e/x",
            "/srv/docs\uff0fx",
            "/srv/docs/a\u202e",
            "/srv/docsx",
            "/srv/doc",
            "/SRV/docs/a",
            "srv/docs/a",
            "~/srv/docs",
            "file:///srv/docs/a",
            " /srv/docs/a",
            "",
            None,
            ["/srv/docs/a"],
            {"path": "/srv/docs/a"},
            7,
            True,
        )
    ),
    ("read_file", {}),
    ("read_file", {"Path": "/srv/docs/a"}),
    *(
        ("fetch", {"url": url})
        for url in (
            "http://docs.python.org@evil.test/",
            "http://docs.python.org.evil.test/",
            "http://evil.test/docs.python.org",
            "http://evil.test#docs.python.org",
            "http://evil.test\\@docs.python.org/",
            "//docs.python.org/",
            "https:docs.python.org",
            "https:///docs.python.org/",
            "https://docs。python。org/",
            "https://docs.python．org/",
            "https://dоcs.python.org/",
            "https://docs.python.org%2eevil.test/",
            "https://docs.python.org\x00.evil.test/",
            "https://docs.python.org\t/",
            "file:///etc/passwd",
            "ftp://docs.python.org/",
            "http://0x7f000001/",
            "http://127.1/",
            "http://[::1]/",
            ["https://docs.python.org/"],
            None,
        )
    ),
    ("fetch", {"URL": "https://docs.python.org/"}),
    ("order", {"size": "xl", "count": 1, "note": ""}),
    ("order", {"size": "s", "count": 11, "note": ""}),
    ("order", {"size": "s", "count": 0, "note": ""}),
    ("order", {"size": "s", "count": "5", "note": ""}),
    ("order", {"size": "s", "count": 1, "note": "x" * 21}),
    ("order", {"size": "s", "count": 1}),
    ("order", {"size": "s", "count": 1, "note": "", "discount": None}),
]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_arguments_that_could_be_read_in_two_ways_reach_no_server(era: EraName, tmp_path: Path) -> None:
    """S67, S68."""
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    log = tmp_path / "log"
    server = field(tmp_path / "a", "--era", era, "--log", str(log), "--tools", str(tmp_path / "tools.json"))
    config = {
        "servers": {"a": server},
        "clients": {"bot": {"key": KEY}},
        "policies": [*READY, ORDER],
    }
    async with serving_beside(tmp_path, config, "a") as gateway:
        async with wire.http_client(gateway.url, era, KEY) as client:
            listed = {tool["name"] for tool in await wire.every(client, "tools/list", "tools")}
            assert listed == {"a__read_file", "a__fetch", "a__order"}
            for name, arguments in STOP:
                answer = await wire.call(client, f"a__{name}", arguments)
                assert (answer.refusal["reason"], answer.refusal["mayHaveRun"]) == ("denied", False), (name, arguments)
            assert lines(log, "tools/call") == []
            for name, arguments in PASS:
                await wire.call(client, f"a__{name}", arguments)
            assert [message["params"]["arguments"] for message in lines(log, "tools/call")] == [
                each for _, each in PASS
            ]
        denied = [record for record in gateway.records() if record["event"] == "call.denied"]
        assert len(denied) == len(STOP)
        assert {record["decision"]["reason"] for record in denied} == {"condition"}
        assert "evil" not in json.dumps(denied)
