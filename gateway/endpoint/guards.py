"""Rows 1 to 4 of the checks: HTTP grammar, Host, target form, Origin, preflight. Pure functions on values.

Decides from the raw request line and header list alone, never from a parsed URL: two readings of one request are
how checks are passed by (S01 to S07).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from gateway.config.root import Config
from gateway.config.types import is_loopback
from gateway.endpoint.rejection import Rejected, Rejection
from gateway.protocol import headers as names
from gateway.protocol.codes import HEADER_MISMATCH, INVALID_REQUEST

_MIRRORED = (names.VERSION.lower(), names.METHOD.lower(), names.NAME.lower())
_PARAM = names.PARAM_PREFIX.lower()
_SECURITY: Final = frozenset(
    {
        "authorization",
        "origin",
        "host",
        "content-type",
        "content-length",
        "content-encoding",
        "transfer-encoding",
        names.SESSION_ID.lower(),
        names.LAST_EVENT_ID.lower(),
        *_MIRRORED,
    }
)
_REG_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9.])?|[A-Za-z0-9]")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[^\[\]:@/?#\\\s]+)(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#@\\\s]+)")
_ABSOLUTE = re.compile(r"(https?)://([^/?#]*)([^#]*)", re.IGNORECASE)
_FORBIDDEN_IN_PATH = ("//", "%2f", "%5c", "%2e", "%00", "\\", "#")
_DEFAULT_PORT = {"http": 80, "https": 443}
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_METHODS = "GET, POST, DELETE"
_EXPOSED = f"{names.SESSION_ID}, WWW-Authenticate, Retry-After"
_REQUEST_HEADERS = frozenset(
    {"accept", "authorization", "content-type", names.SESSION_ID.lower(), names.LAST_EVENT_ID.lower(), *_MIRRORED}
)
_TOKEN = re.compile(r"[a-z0-9-]{1,128}")
_VISIBLE = re.compile(rb"[\t\x20-\x7e]*")


@dataclass(frozen=True, slots=True)
class Head:
    """A request line and its headers, checked: ``headers`` has lower-case names; ``path`` has no query."""

    method: str
    path: str
    headers: Mapping[str, str]
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """What the HTTP parser read, as it read it. ``port`` is the one the connection came in on."""

    method: str
    target: str
    version: tuple[int, int]
    headers: Sequence[tuple[bytes, bytes]]
    port: int


@dataclass(frozen=True, slots=True)
class Rules:
    """What ``listen`` allows. ``hosts`` pairs a lower-case name with a port, None for any."""

    path: str
    loopback: bool
    scheme: str
    hosts: frozenset[tuple[str, int | None]]
    origins: frozenset[str]

    @classmethod
    def of(cls, config: Config) -> Rules:
        """Read the section. Unreadable entries of ``allowed_hosts`` and ``allowed_origins`` allow nothing."""
        listen = config.listen
        hosts = [split_host(entry) for entry in listen.allowed_hosts]
        if listen.public_url:
            hosts.append(split_host(urlsplit(listen.public_url).netloc.rpartition("@")[2]))
        origins = [normal_origin(entry) for entry in listen.allowed_origins]
        return cls(
            path=listen.path,
            loopback=is_loopback(listen.host),
            scheme="https" if listen.tls else "http",
            hosts=frozenset(host for host in hosts if host is not None),
            origins=frozenset(origin for origin in origins if origin is not None),
        )

    def allows_host(self, name: str, port: int | None, bound: int) -> bool:
        """Tell whether a Host is ours; loopback names always are on a loopback bind, with its port or none."""
        if self.loopback and name in _LOOPBACK_NAMES and port in (None, bound):
            return True
        return (name, None) in self.hosts or (name, port) in self.hosts

    def allows_origin(self, origin: str, bound: int) -> bool:
        """Tell whether a normalised origin may use us: configured ones, and on a loopback bind its own."""
        own = {f"{self.scheme}://{name}:{bound}" for name in _LOOPBACK_NAMES} if self.loopback else set()
        return origin in self.origins or origin in own


def split_host(text: str) -> tuple[str, int | None] | None:
    """Read ``host[:port]`` as lower-case name and port (None where absent); None where it is not one."""
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        return None
    name, port = match[1].lower(), None if match[2] is None else int(match[2])
    if port is not None and port > 65535:
        return None
    if name.startswith("["):
        try:
            return f"[{ipaddress.IPv6Address(name[1:-1])}]", port
        except ValueError:
            return None
    return (name, port) if _REG_NAME.fullmatch(name) else None


def normal_origin(text: str) -> str | None:
    """Return ``scheme://host:port`` in lower case with the port written out; None for anything else."""
    match = _ORIGIN.fullmatch(text)
    if match is None or match[1].lower() not in _DEFAULT_PORT:
        return None
    scheme, host = match[1].lower(), split_host(match[2])
    if host is None:
        return None
    name, port = host
    return f"{scheme}://{name}:{_DEFAULT_PORT[scheme] if port is None else port}"


def inspect(line: Line, rules: Rules) -> Head:
    """Apply rows 1 and 2 in order.

    Raises:
        Rejected: 505, 400, 421 or 403.
    """
    received = _grammar(line)
    name, port = _host(received.get("host", ""))
    path = path_of(line.target, (name, port))
    if not rules.allows_host(name, port, line.port):
        raise _bad(421, "host_not_allowed", "Misdirected request")
    origin = received.get("origin")
    if origin is not None:
        normal = normal_origin(origin)
        if normal is None or not rules.allows_origin(normal, line.port):
            raise _bad(403, "origin_denied", "Origin not allowed")
    return Head(line.method, path, received, origin)


def _bad(status: int, reason: str, message: str, code: int = INVALID_REQUEST) -> Rejected:
    return Rejected(Rejection(status, code, message, reason, close=True))


def _grammar(line: Line) -> dict[str, str]:
    if line.version not in ((1, 0), (1, 1)):
        raise _bad(505, "http_version", "HTTP version not supported")
    received: dict[str, str] = {}
    for raw_name, raw_value in line.headers:
        name = raw_name.decode("latin-1").lower()
        if name in _SECURITY or name.startswith(_PARAM):
            if name in received:
                raise _bad(400, "duplicate_header", "Bad request: a header occurs twice")
            received[name] = _clean_value(name, raw_value)
        elif name in received:
            received[name] += ", " + raw_value.decode("latin-1")
        else:
            received[name] = raw_value.decode("latin-1")
    if line.version == (1, 0) and "transfer-encoding" in received:
        raise _bad(400, "framing", "Bad request")
    if "websocket" in received.get("upgrade", "").lower():
        raise _bad(400, "upgrade", "Bad request: this is no WebSocket endpoint")
    return received


def _clean_value(name: str, value: bytes) -> str:
    """Decode a header that decisions hang on; anything but visible ASCII, blank and tab is refused (S06)."""
    if _VISIBLE.fullmatch(value) is not None:
        return value.decode("ascii").strip(" \t")
    mirrored = name in _MIRRORED or name.startswith(_PARAM)
    code = HEADER_MISMATCH if mirrored else INVALID_REQUEST
    raise _bad(400, "header_value", "Bad request: a header contains characters it must not", code)


def _host(text: str) -> tuple[str, int | None]:
    host = split_host(text)
    if host is None:
        raise _bad(400, "host_syntax", "Bad request: Host is not host[:port]")
    return host


def path_of(target: str, host: tuple[str, int | None]) -> str:
    """Return the path of a request target.

    Raises:
        Rejected: 400 for an authority that is not the Host's, and for forms that two readers could read differently.
    """
    if not target.startswith("/"):
        match = _ABSOLUTE.fullmatch(target)
        if match is None or split_host(match[2]) != host:
            raise _bad(400, "target_form", "Bad request")
        target = match[3] or "/"
    path = target.partition("?")[0]
    lowered = path.lower()
    if not path.startswith("/") or not path.isascii() or any(part in lowered for part in _FORBIDDEN_IN_PATH):
        raise _bad(400, "target_form", "Bad request")
    if any(segment in (".", "..") for segment in path.split("/")):
        raise _bad(400, "target_form", "Bad request")
    return path


def cors(head: Head, rules: Rules) -> dict[str, str]:
    """Return the CORS headers of any answer: none but for configured origins (S18)."""
    if head.origin is None or normal_origin(head.origin) not in rules.origins:
        return {}
    return {"Access-Control-Allow-Origin": head.origin, "Access-Control-Expose-Headers": _EXPOSED, "Vary": "Origin"}


def preflight(head: Head, rules: Rules) -> dict[str, str] | None:
    """Return the headers of the 204 for an OPTIONS of an allowed origin (row 3), None where it is no preflight."""
    if head.method != "OPTIONS" or head.origin is None:
        return None
    allowed = cors(head, rules)
    if not allowed:
        return {}
    wanted = [item.strip().lower() for item in head.headers.get("access-control-request-headers", "").split(",")]
    known = [item for item in wanted if item in _REQUEST_HEADERS or _is_param(item)]
    return allowed | {
        "Access-Control-Allow-Methods": _METHODS,
        "Access-Control-Allow-Headers": ", ".join(known),
        "Access-Control-Max-Age": "600",
    }


def _is_param(name: str) -> bool:
    return name.startswith(_PARAM) and _TOKEN.fullmatch(name) is not None


def view_of(path: str, rules: Rules) -> str | None:
    """Return what follows ``listen.path`` ("" for the path itself), None outside of it."""
    if path == rules.path:
        return ""
    return path[len(rules.path) + 1 :] or "/" if path.startswith(rules.path + "/") else None


def source_of(peer: str, headers: Mapping[str, str], trusted: Iterable[str]) -> str:
    """Return the address limits count for: the peer's, or behind a trusted proxy the nearest untrusted forwarded one.

    ``trusted`` are addresses or networks; other forwarding headers than X-Forwarded-For are never read (S20).
    """
    networks = [ipaddress.ip_network(entry, strict=False) for entry in trusted]
    if not networks:
        return peer
    chain = [item.strip() for item in headers.get("x-forwarded-for", "").split(",") if item.strip()]
    address = peer
    while chain and _within(address, networks):
        candidate = chain.pop()
        if _address(candidate) is None:
            break
        address = candidate
    return address


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _within(text: str, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    address = _address(text)
    return address is not None and any(address in network for network in networks)
