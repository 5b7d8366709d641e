"""The ``WWW-Authenticate`` values, and the documents they lead to (RFC 6750 §3, RFC 9728). Pure.

Everything in them is from the config: no Host, no path and no token of a request changes a byte (S44).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from gateway.auth.claims import requirements
from gateway.config.root import Config
from gateway.protocol import rawjson

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_SCHEME: Final = 'Bearer realm="mcp"'
_INVALID: Final = 'error="invalid_token"'
_INSUFFICIENT: Final = 'error="insufficient_scope"'


@dataclass(frozen=True, slots=True)
class Challenges:
    """What callers are told to do. ``metadata`` maps a view ("" is the endpoint itself) to its document's URL.

    Without tokens both are empty, and a challenge names nothing but its scheme. ``prefix`` stands before each scope
    that clients are told to ask for, as some issuers want it; their tokens carry scopes without it.
    """

    metadata: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    prefix: str = ""

    @classmethod
    def of(cls, config: Config) -> Challenges:
        """Read what a config asks of its callers."""
        settings = config.auth.jwt
        if settings is None:
            return cls()
        views = {view: _metadata_url(resource) for view, resource in _resources(config).items()}
        return cls(views, tuple(requirements(settings.required_scopes)), settings.scope_prefix)

    def missing(self, view: str = "") -> str:
        """Challenge a request without a token: no error code, for nothing was tried."""
        return self._challenge(view, self.required)

    def invalid(self, view: str = "") -> str:
        """Challenge a request whose token proves nothing."""
        return self._challenge(view, self.required, _INVALID)

    def insufficient(self, view: str = "", needed: Iterable[str] = ()) -> str:
        """Challenge a token that lacks scopes: everything the request needs, at once, so that one step up is enough."""
        scopes = dict.fromkeys([*self.required, *sorted(needed)])
        return self._challenge(view, requirements(list(scopes)), _INSUFFICIENT)

    def _challenge(self, view: str, scopes: Iterable[str], error: str = "") -> str:
        parts = [_SCHEME, error]
        url = self.metadata.get(view) or self.metadata.get("")
        if url:
            parts.append(f'resource_metadata="{url}"')
        wanted = " ".join(f"{self.prefix}{scope}" for scope in scopes)
        if wanted and (url or error == _INSUFFICIENT):
            parts.append(f'scope="{wanted}"')
        return ", ".join(part for part in parts if part)


def documents(config: Config) -> dict[str, bytes]:
    """Return the protected resource metadata by path: beside each resource's own path, and at the root.

    Behind a proxy the path that clients see may differ from ours; both are served.
    """
    settings = config.auth.jwt
    if settings is None:
        return {}
    found: dict[str, bytes] = {}
    for view, resource in _resources(config).items():
        document: dict[str, object] = {
            "resource": resource,
            "authorization_servers": [settings.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": view or "MCP gateway",
        }
        scopes = [f"{settings.scope_prefix}{scope}" for scope in requirements(settings.required_scopes)]
        if scopes:
            document["scopes_supported"] = scopes
        body = rawjson.encode(document)
        own = f"{config.listen.path}/{view}" if view else config.listen.path
        found[WELL_KNOWN + own] = body
        found[urlsplit(_metadata_url(resource)).path] = body
        if not view:
            found[WELL_KNOWN] = body
    return found


def _resources(config: Config) -> dict[str, str]:
    """Return the address clients know of the endpoint ("") and of each view."""
    base = config.listen.public_url
    return {"": base} | {name: f"{base.rstrip('/')}/{name}" for name in config.views}


def _metadata_url(resource: str) -> str:
    """Insert the well-known path between host and path (RFC 9728 §3.1)."""
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"
