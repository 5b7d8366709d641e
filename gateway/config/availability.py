"""What the config can say and this version cannot do yet: one table, so that nothing is silently ignored.

What a caller's access, a server's identity or an operator's overview could depend on is refused; what is merely
absent is noted. A feature becomes available by removing its row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.config.places import Loc, Tree, find
from gateway.config.root import Config
from gateway.config.subject import Findings


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing this version does not do. ``where`` is a place in which ``*`` is any key or item."""

    where: Loc
    what: str
    used: Callable[[Tree], bool] = bool
    refused: bool = True
    instead: str = ""


def _is(*words: str) -> Callable[[Tree], bool]:
    return lambda value: value in words


def _other_than(*words: str) -> Callable[[Tree], bool]:
    return lambda value: value not in words


def _there(value: Tree) -> bool:
    return value is not None


_SERVER: Final[Loc] = ("servers", "*")
_POLICY: Final[Loc] = ("policies", "*")
_KEPT_PAYLOADS: Final = _is("conditions", "redacted", "full")
_PAYLOAD_HINT: Final = "use none, shape or shape+hmac"

FEATURES: Final = (
    Feature((*_SERVER, "openapi"), "servers from OpenAPI documents", _there),
    Feature((*_SERVER, "auth"), "tokens for servers", instead="use headers"),
    Feature((*_SERVER, "catalog"), "catalogs per principal", _is("principal"), instead="use shared"),
    Feature((*_SERVER, "tls", "spki_sha256"), "pinned TLS keys", instead="use tls.ca"),
    Feature(
        (*_SERVER, "pin", "mode"), "pins that hold a server back", _is("tofu", "strict"), instead="use warn or off"
    ),
    Feature((*_SERVER, "pin", "probe"), "probes of which data answers", _there),
    Feature((*_SERVER, "pin", "files"), "files as part of a server's identity"),
    Feature((*_SERVER, "pin", "rotating"), "values that may change", refused=False, instead="a change is reported"),
    Feature(
        (*_SERVER, "pin", "new_tools"), "quarantine", _there, refused=False, instead="a new definition is reported"
    ),
    Feature((*_SERVER, "results", "hidden"), "filters of results", _other_than("off")),
    Feature((*_SERVER, "results", "secrets"), "filters of results", _other_than("off")),
    Feature((*_SERVER, "results", "markers"), "filters of results", _other_than("off")),
    Feature((*_SERVER, "results", "fields"), "filters of results"),
    Feature((*_SERVER, "allow_networks"), "addresses learned from servers", refused=False, instead="none are used"),
    Feature((*_SERVER, "instructions"), "instructions of servers", _is("forward"), False, "they are dropped"),
    Feature(("views",), "views"),
    Feature(("auth", "jwt"), "tokens of an authorization server", _there, instead="use clients"),
    Feature(("listen", "tls", "client_ca"), "client certificates", instead="use clients"),
    Feature((*_POLICY, "approve"), "approvals"),
    Feature((*_POLICY, "duplicates"), "refusing duplicate calls", _there),
    Feature((*_POLICY, "allow", "*", "scopes"), "rules with scopes"),
    Feature((*_POLICY, "deny", "*", "scopes"), "rules with scopes"),
    Feature((*_POLICY, "audit", "payload"), "audit records with values", _KEPT_PAYLOADS, instead=_PAYLOAD_HINT),
    Feature((*_POLICY, "audit", "redact"), "audit records with values", refused=False, instead="no value is kept"),
    Feature(("audit", "payload"), "audit records with values", _KEPT_PAYLOADS, instead=_PAYLOAD_HINT),
    Feature(("audit", "retention"), "deletion of old segments", _there, False, "segments are kept"),
    Feature(("audit", "sinks"), "audit sinks besides the files"),
    Feature(("alerts",), "alerts"),
    Feature(("state", "url"), "state outside the process", _other_than("memory://"), instead="use memory://"),
    Feature(("telemetry", "otlp"), "traces", refused=False, instead="none are sent"),
)


def judge_availability(tree: Tree, findings: Findings) -> list[tuple[Loc, str]]:
    """Note what is merely absent, and return what has to be refused, with its reason."""
    refused: list[tuple[Loc, str]] = []
    for feature in FEATURES:
        for loc, value in find(tree, feature.where):
            if not feature.used(value):
                continue
            text = f"not available in this version: {feature.what}"
            text += f" ({feature.instead})" if feature.instead else ""
            if feature.refused:
                refused.append((loc, text))
            else:
                findings.note(loc, text)
    return refused


def not_in_force(config: Config) -> list[str]:
    """Say which defaults this version does not keep yet; they are notes, for nobody asked for them by name."""
    servers = config.servers.values()
    notes = []
    if any(server.pin.mode != "off" for server in servers):
        notes.append("pins: mode warn is what this version has; nothing is held back")
    if any(server.validate_ != "off" for server in servers):
        notes.append("validate: arguments are not checked against inputSchema in this version")
    if any(server.text != "off" for server in servers):
        notes.append("text: definitions with hidden characters are not held back in this version")
    return notes
