"""The blocks that records are made of: escaped, cut and free of secrets. Pure.

Names are cut at 128 characters, other texts at 1 KiB; numbers are integers that every JSON reader holds exactly.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from gateway.audit.keys import AuditKey
from gateway.model.call import Caller
from gateway.model.principal import Principal
from gateway.protocol.jsonrpc import Id
from gateway.protocol.rawjson import Object, Value
from gateway.telemetry.text import cut_bytes, printable

MAX_NAME: Final = 128
MAX_TEXT: Final = 1024
MAX_ITEMS: Final = 64
"""Groups, scopes, annotations or claims that one record lists."""
_EXACT: Final = 2**53
_MAX_DEPTH: Final = 3


def name(value: str) -> str:
    """Make a name of somebody else's safe to write."""
    return printable(value, MAX_NAME)


def text(value: str) -> str:
    """Make any other text safe to write."""
    return cut_bytes(printable(value, MAX_TEXT), MAX_TEXT)


def plain(value: Value, depth: int = _MAX_DEPTH) -> Value:
    """Make a foreign value safe to write: bounded in depth and width, fractions and huge integers as text."""
    match value:
        case None | bool():
            return value
        case int():
            return value if -_EXACT < value < _EXACT else text(str(value)[:MAX_NAME])
        case float():
            return text(repr(value))
        case str():
            return name(value)
        case list():
            return [plain(item, depth - 1) for item in value[:MAX_ITEMS]] if depth else f"list:{len(value)}"
        case dict():
            return members(value, depth - 1) if depth else f"object:{len(value)}"


def members(value: Mapping[str, Value], depth: int = _MAX_DEPTH) -> Object:
    """Make a foreign object safe to write; see ``plain``."""
    return {name(key): plain(value[key], depth) for key in sorted(value)[:MAX_ITEMS]}


def names(values: Iterable[str]) -> list[Value]:
    """Write a set of names in a stable order."""
    return [name(value) for value in sorted(values)[:MAX_ITEMS]]


def principal_block(principal: Principal, key: AuditKey, claims_used: Mapping[str, Value]) -> Object:
    """Say who called. Subjects of an authorization server appear as keyed hashes alone."""
    block: Object = {
        "kind": name(principal.kind),
        "client": name(principal.label),
        "groups": names(principal.groups),
        "scopes": names(principal.scopes),
        "claims_used": members(claims_used),
    }
    if principal.credential:
        block["cred"] = name(principal.credential)
    prefix, _, rest = principal.id.partition(":")
    if prefix != "sub":
        return block | {"id": text(principal.id)}
    issuer = principal.claims.get("iss")
    subject = rest
    if isinstance(issuer, str) and rest.startswith(f"{issuer}/"):
        block["iss"] = text(issuer)
        subject = rest[len(issuer) + 1 :]
    return block | {"sub_h": key.digest("subject", _bytes(subject), 32)}


def source_block(source: str) -> Object:
    """Say from which network a call came: /24 of IPv4, /48 of IPv6, nothing for what is no address."""
    network = _network(source)
    return {"ip": network} if network else {}


@lru_cache(maxsize=1024)
def _network(source: str) -> str:
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return str(ipaddress.IPv6Network((int(address), 48), strict=False))
        address = address.ipv4_mapped
    return str(ipaddress.IPv4Network((int(address), 24), strict=False))


def mcp_block(caller: Caller, key: AuditKey, method: str, rpc_id: Id | None) -> Object:
    """Say what was asked over which protocol; a session id appears as a keyed hash alone."""
    return {
        "era": caller.era.value,
        "version": name(caller.version),
        "method": name(method),
        "rpc_id": None if rpc_id is None else name(str(rpc_id)),
        "session_h": session_hash(caller.session, key) if caller.session else None,
        "client_info": client_info(caller.info),
    }


def session_hash(session: str, key: AuditKey) -> str:
    """Return what stands for a session's id wherever one is written (S153)."""
    return key.digest("session", _bytes(session), 8)


def client_info(info: Mapping[str, Value]) -> str | None:
    """Write what a peer says it is as ``name/version``; None where it says nothing."""
    parts = [value for value in (info.get("name"), info.get("version")) if isinstance(value, str)]
    return name("/".join(parts)) if parts else None


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")
