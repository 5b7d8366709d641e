"""The two documents that lead from a server to its authorization server: where they are, and whether they hold.

Pure: RFC 9728 for the server, RFC 8414 or OpenID Connect Discovery for the authorization server
(basic/authorization/authorization-server-discovery). Issuers are compared as plain text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from gateway.config.types import is_loopback, split_http_url
from gateway.downstream.oauth.challenge import scopes
from gateway.protocol.rawjson import Object

RESOURCE_PLACE: Final = "/.well-known/oauth-protected-resource"
_OAUTH_PLACE: Final = "/.well-known/oauth-authorization-server"
_OPENID_PLACE: Final = "/.well-known/openid-configuration"
_PORTS: Final = {"http": 80, "https": 443}
MAX_SERVERS: Final = 8
PKCE: Final = "S256"
"""The only code challenge method that is used (RFC 7636 §4.2)."""


class Unsound(Exception):
    """A document that must not be used; the text is safe to show."""


@dataclass(frozen=True, slots=True)
class ResourceMetadata:
    """What a protected server says of itself. ``scopes`` is None where it names none."""

    resource: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """What an authorization server says of itself; an empty endpoint is one it does not have."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str = ""
    registration_endpoint: str = ""
    scopes: tuple[str, ...] = ()
    has_pkce: bool = False
    auth_methods: tuple[str, ...] | None = None
    takes_metadata_documents: bool = False
    names_issuer: bool = False
    """Whether it promises ``iss`` in its authorization responses (RFC 9207)."""


def canonical(url: str) -> str:
    """Return the resource identifier of a server's address: no user, query or fragment (RFC 8707 §2)."""
    parts = split_http_url(url)
    path = parts.path if parts.path != "/" else ""
    return urlunsplit((parts.scheme.lower(), _authority(parts), path, "", ""))


def origin(url: str) -> str:
    """Return scheme, host and port of an address, as one text that equals those of the same place."""
    parts = split_http_url(url)
    return f"{parts.scheme.lower()}://{_authority(parts)}"


def _authority(parts: SplitResult) -> str:
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    scheme = parts.scheme.lower()
    return host if parts.port in (None, _PORTS[scheme]) else f"{host}:{parts.port}"


def resource_places(resource: str) -> list[str]:
    """Return where a server's metadata may be, besides where its challenge says: at its path, then at the root."""
    parts = urlsplit(resource)
    path = parts.path.rstrip("/")
    base = f"{parts.scheme}://{parts.netloc}{RESOURCE_PLACE}"
    return [base + path, base] if path else [base]


def server_places(issuer: str) -> list[str]:
    """Return where an authorization server's metadata may be, in the order to try.

    Raises:
        Unsound: the issuer is no address.
    """
    parts = _split(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    if not path:
        return [base + _OAUTH_PLACE, base + _OPENID_PLACE]
    return [base + _OAUTH_PLACE + path, base + _OPENID_PLACE + path, base + path + _OPENID_PLACE]


def _split(url: str) -> SplitResult:
    try:
        parts = split_http_url(url)
    except ValueError:
        raise Unsound("an address in its authorization metadata cannot be used") from None
    if "@" in parts.netloc:
        raise Unsound("an address in its authorization metadata cannot be used")
    return parts


def read_resource(document: Object, resource: str) -> ResourceMetadata:
    """Read a server's metadata; it must be about this server (RFC 9728 §3.3), or about a part of its origin it is in.

    Raises:
        Unsound: it is about something else, or names no authorization server.
    """
    named = document.get("resource")
    if not isinstance(named, str) or not covers(named, resource):
        raise Unsound("its authorization metadata is about another resource")
    listed = document.get("authorization_servers")
    issuers = [item for item in listed if isinstance(item, str)] if isinstance(listed, list) else []
    if not issuers:
        raise Unsound("its authorization metadata names no authorization server")
    supported = document.get("scopes_supported")
    wanted = _strings(supported) if isinstance(supported, list) else None
    return ResourceMetadata(named, tuple(issuers[:MAX_SERVERS]), wanted)


def covers(named: str, resource: str) -> bool:
    """Tell whether a resource identifier is that of a server, or of a path above it at the same origin."""
    try:
        if origin(named) != origin(resource):
            return False
    except ValueError:
        return False
    parts = urlsplit(named)
    above, path = parts.path.rstrip("/"), urlsplit(resource).path.rstrip("/")
    return not parts.query and (path == above or path.startswith(above + "/"))


def read_server(document: Object, issuer: str) -> AuthorizationServer:
    """Read an authorization server's metadata (RFC 8414 §3.3: the issuer in it is the one that was asked for).

    Raises:
        Unsound: it is another issuer's, or an endpoint is missing or of another scheme (S121).
    """
    if document.get("issuer") != issuer:
        raise Unsound("the metadata of its authorization server is another issuer's")
    scheme = _split(issuer).scheme
    endpoints = {name: _endpoint(document, name, scheme) for name in ("token", "authorization", "registration")}
    if not endpoints["token"]:
        raise Unsound("its authorization server has no token endpoint")
    methods = document.get("token_endpoint_auth_methods_supported")
    return AuthorizationServer(
        issuer=issuer,
        token_endpoint=endpoints["token"],
        authorization_endpoint=endpoints["authorization"],
        registration_endpoint=endpoints["registration"],
        scopes=_strings(document.get("scopes_supported")),
        has_pkce=PKCE in _strings(document.get("code_challenge_methods_supported")),
        auth_methods=_strings(methods) if isinstance(methods, list) else None,
        takes_metadata_documents=document.get("client_id_metadata_document_supported") is True,
        names_issuer=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _endpoint(document: Object, name: str, scheme: str) -> str:
    url = document.get(f"{name}_endpoint")
    if url is None:
        return ""
    if not isinstance(url, str):
        raise Unsound("an address in its authorization metadata cannot be used")
    parts = _split(url)
    if parts.scheme != scheme or not (parts.scheme == "https" or is_loopback(parts.hostname or "")):
        raise Unsound("an endpoint of its authorization server is not https")
    return url


def _strings(value: object) -> tuple[str, ...]:
    listed = [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
    return scopes(" ".join(listed))
