"""What the gateway says of itself (2026-07-28 server/discover; 2025-11-25 basic/lifecycle)."""

from __future__ import annotations

import json
from dataclasses import replace

from gateway import __version__
from gateway.endpoint import discover
from gateway.model.principal import ANONYMOUS
from gateway.protocol import rawjson
from gateway.protocol.versions import SUPPORTED, Era
from tests.kit.definitions import listing, tool
from tests.kit.endpoint import moment

INFO = {"name": "aiohttp-mcp-gateway", "version": __version__}
FEATURES = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
}


def test_discovery_names_versions_capabilities_identity_and_freshness() -> None:
    assert json.loads(rawjson.encode(discover.discovery(moment(), ANONYMOUS, None))) == {
        "resultType": "complete",
        "supportedVersions": list(SUPPORTED),
        "capabilities": FEATURES,
        "ttlMs": 60_000,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
    }


def test_a_handshake_offers_the_same() -> None:
    assert json.loads(rawjson.encode(discover.handshake("2025-06-18", {}))) == {
        "protocolVersion": "2025-06-18",
        "capabilities": FEATURES,
        "serverInfo": INFO,
    }


def test_both_eras_are_told_the_instructions_of_servers_of_which_something_is_seen() -> None:
    """S74."""
    now = moment(lists={"notes": listing("notes", tool("t"))})
    assert "instructions" not in json.loads(rawjson.encode(discover.discovery(now, ANONYMOUS, None)))
    now.catalog = replace(now.catalog, guidance={"notes": "# notes\n\nRead first.", "other": "# other\n\nObey."})
    told = "# notes\n\nRead first."
    assert json.loads(rawjson.encode(discover.discovery(now, ANONYMOUS, None)))["instructions"] == told
    shaken = discover.handshake("2025-11-25", {}, now.guidance(ANONYMOUS, None))
    assert json.loads(rawjson.encode(shaken))["instructions"] == told
    now.hides = lambda principal, target: True
    assert now.guidance(ANONYMOUS, None) == ""


def test_both_eras_are_told_of_of_the_extensions_that_visible_servers_offer() -> None:
    """2026-07-28 basic/versioning §Extension Negotiation."""
    offered: rawjson.Object = {"extensions": {"com.example/search": {"deep": True}}}
    now = moment(lists={"notes": listing("notes", tool("t"), era="modern", capabilities=offered)})
    found = json.loads(rawjson.encode(discover.discovery(now, ANONYMOUS, None)))
    assert found["capabilities"] == FEATURES | offered
    shaken = json.loads(rawjson.encode(discover.handshake("2025-11-25", now.offers(Era.LEGACY, ANONYMOUS, None))))
    assert shaken["capabilities"] == FEATURES | offered
    now.hides = lambda principal, target: True
    assert "extensions" not in json.loads(rawjson.encode(discover.discovery(now, ANONYMOUS, None)))["capabilities"]
