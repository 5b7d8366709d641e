"""Keeps the last complete lists of each server, so that a restart, or another replica, serves them at once.

One document per server, valid only while its config leads to the same one as then. One that cannot be read is as
good as none. Blocks.
"""

from __future__ import annotations

import hashlib
from typing import Final

from gateway.model.catalog import Definition, Kind, Listing
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Members, Object, Value
from gateway.state.documents import Documents
from gateway.telemetry.logs import get_logger

_log = get_logger("catalog")
CATALOG: Final = "catalog/"
_FORMAT: Final = 1


class Keep:
    """The kept listings."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def load(self, server: str, fingerprint: str) -> Listing | None:
        """Return the kept listing of a server that is still the same, by this digest of its config."""
        try:
            document = self._documents.load(_name(server))
            if document is None:
                return None
            members = rawjson.decode_members(document.data)
            head = rawjson.decode_value(members["head"])
            if not isinstance(head, dict) or head.get("v") != _FORMAT:
                return None
            if (head.get("server"), head.get("fingerprint")) != (server, fingerprint):
                return None
            return _read(server, head, members)
        except (OSError, JsonError, KeyError) as error:
            _log.warning("kept_catalog_unreadable", server=server, error=type(error).__name__)
            return None

    def store(self, listing: Listing, fingerprint: str) -> None:
        """Write a complete listing; the old one stays until the new one is whole."""
        head: Object = {
            "v": _FORMAT,
            "server": listing.server,
            "fingerprint": fingerprint,
            "ttlMs": listing.ttl_ms,
            "public": listing.public,
            "serverInfo": listing.server_info,
            "capabilities": listing.capabilities,
            "instructions": listing.instructions,
            "era": listing.era,
            "version": listing.version,
        }
        body: dict[str, object] = {kind.value: [item.members for item in listing.of(kind)] for kind in Kind}
        try:
            # Of several replicas any one's is good.
            self._documents.replace(_name(listing.server), rawjson.encode({"head": head} | body), None)
        except OSError as error:
            # Serving goes on from memory; only the next start is slower.
            _log.warning("catalog_not_kept", server=listing.server, error=type(error).__name__)


def _name(server: str) -> str:
    return f"{CATALOG}{hashlib.sha256(server.encode()).hexdigest()[:32]}.json"


def _read(server: str, head: Object, members: Members) -> Listing:
    definitions = tuple(
        Definition.parse(kind, item) for kind in Kind for item in rawjson.decode_items(members[kind.value])
    )
    ttl = head.get("ttlMs")
    return Listing(
        server=server,
        definitions=definitions,
        ttl_ms=ttl if isinstance(ttl, int) else None,
        public=head.get("public") is True,
        server_info=_object(head.get("serverInfo")),
        capabilities=_object(head.get("capabilities")),
        instructions=_text(head.get("instructions")),
        era=_text(head.get("era")),
        version=_text(head.get("version")),
    )


def _object(value: Value) -> Object:
    return value if isinstance(value, dict) else {}


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""
