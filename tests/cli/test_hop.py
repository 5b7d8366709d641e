from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import hop
from gateway.cli.hop import Key, Mirror, NoCredential, Sent, read, read_key
from gateway.protocol.rawjson import JsonError

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


@pytest.mark.parametrize(
    ("value", "ids", "method"),
    [
        ({"id": 1, "method": "tools/list", "params": {}}, (1,), "tools/list"),
        ({"id": "a", "method": "x", "params": []}, ("a",), "x"),
        ({"method": "notifications/x"}, (), "notifications/x"),
        ({"id": 1, "result": {}}, (), ""),
        ({"id": True, "method": "x"}, (), "x"),
        ([{"id": 1, "method": "x"}, {"id": 2, "method": "y"}, {"method": "z"}, 3], (1, 2), ""),
        ("text", (), ""),
    ],
)
def test_of_a_message_only_what_matters_is_read(value: Any, ids: tuple[Any, ...], method: str) -> None:
    line = json.dumps(value).encode()
    sent = read(line)
    assert (sent.line, sent.ids, sent.method) == (line, ids, method)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(JsonError):
        read(b"{")


def test_what_cannot_be_mirrored_is_left_out() -> None:
    params: Any = {"name": "\ud800", "_meta": META}
    assert Mirror().headers(Sent(b"", (1,), "tools/call", params)) == {
        "Mcp-Method": "tools/call",
        "MCP-Protocol-Version": "2026-07-28",
    }


def test_no_more_tools_are_remembered_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hop, "MAX_TOOLS", 1)
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}
    tools = [{"name": name, "inputSchema": schema} for name in ("one", "two")]
    mirror = Mirror()
    mirror.learn(json.dumps({"result": {"tools": [*tools, "no tool", {"name": 1}]}}).encode())
    mirror.learn(b"no json")
    call: Any = {"arguments": {"a": "x"}, "_meta": META}
    assert "Mcp-Param-A" in mirror.headers(Sent(b"", (1,), "tools/call", {"name": "one", **call}))
    assert "Mcp-Param-A" not in mirror.headers(Sent(b"", (1,), "tools/call", {"name": "two", **call}))
    mirror.learn(json.dumps({"result": {"tools": [{"name": "one", "inputSchema": {}}]}}).encode())
    assert "Mcp-Param-A" not in mirror.headers(Sent(b"", (1,), "tools/call", {"name": "one", **call}))


async def test_a_key_from_a_file_is_read_again_when_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("first\n")
    key = Key(read_key(path), path)
    shown = await key.headers()
    assert shown == {"Authorization": "Bearer first"}
    assert await key.renewed(401, [], shown) is False
    path.write_text("second\n")
    assert await key.renewed(401, [], shown) is True
    assert await key.headers() == {"Authorization": "Bearer second"}
    path.write_text("")
    assert await key.renewed(401, [], shown) is False
    assert "second" not in repr(key)


async def test_other_credentials_have_nothing_else_to_show() -> None:
    assert await NoCredential().headers() == {}
    assert await NoCredential().renewed(401, [], {}) is False
    assert await Key("k").renewed(401, [], {}) is False


@pytest.mark.parametrize("text", ["", "two words", "tab\tinside"])
def test_a_file_without_a_key_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    with pytest.raises(ValueError, match="holds no key"):
        read_key(path)
