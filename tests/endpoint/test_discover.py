"""What the gateway says of itself (2026-07-28 server/discover; 2025-11-25 basic/lifecycle)."""

from __future__ import annotations

import json

from gateway import __version__
from gateway.endpoint import discover
from gateway.protocol import rawjson
from gateway.protocol.versions import SUPPORTED
from tests.kit.endpoint import moment

INFO = {"name": "aiohttp-mcp-gateway", "version": __version__}
FEATURES = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
}


def test_discovery_names_versions_capabilities_identity_and_freshness() -> None:
    assert json.loads(rawjson.encode(discover.discovery(moment()))) == {
        "resultType": "complete",
        "supportedVersions": list(SUPPORTED),
        "capabilities": FEATURES,
        "ttlMs": 60_000,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
    }


def test_a_handshake_offers_logging_too() -> None:
    assert json.loads(rawjson.encode(discover.handshake("2025-06-18"))) == {
        "protocolVersion": "2025-06-18",
        "capabilities": FEATURES | {"logging": {}},
        "serverInfo": INFO,
    }
