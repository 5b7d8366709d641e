"""Judges a config against what its servers offer: lists that were kept, or any others. Asks nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gateway.catalog.build import build
from gateway.catalog.keep import Keep
from gateway.config.root import LoadedConfig
from gateway.downstream.fingerprint import offering
from gateway.durable import FINGERPRINT_KEY, KEY_BYTES
from gateway.errors import ConfigError, Problem
from gateway.model.call import Target
from gateway.model.catalog import HeldBack, Listing
from gateway.model.principal import ANONYMOUS, Principal
from gateway.pipeline import extensions
from gateway.policy.coverage import dead_rules, sees_nothing
from gateway.policy.engine import Engine
from gateway.state.files import read_or_create_key
from gateway.state.folder import FolderDocuments


@dataclass(slots=True)
class Findings:
    """Problems are findings of ``check``, notes are not."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def kept_listings(loaded: LoadedConfig) -> dict[str, Listing]:
    """Return the lists that the gateway kept when it last ran; makes no file."""
    state = Path(loaded.config.state.dir)
    listings: dict[str, Listing] = {}
    if not loaded.config.state.database.get_secret_value() and (state / FINGERPRINT_KEY).is_file():
        key, keep = read_or_create_key(state / FINGERPRINT_KEY, KEY_BYTES), Keep(FolderDocuments(state))
        for name, server in loaded.config.servers.items():
            kept = keep.load(name, offering(name, server, key))
            if kept is not None:
                listings[name] = kept
    return listings


def against_kept(loaded: LoadedConfig) -> Findings:
    """Judge against the lists that the gateway kept when it last ran."""
    listings = kept_listings(loaded)
    findings = against(loaded, listings)
    missing = [name for name in loaded.config.servers if name not in listings]
    if missing and loaded.config.state.database.get_secret_value():
        findings.notes.append("kept lists are where state.database says and are not read; --live lists the servers")
    elif missing and loaded.config.policies:
        findings.notes.append(f"never listed, so rules about them are not judged: {', '.join(missing)}")
    return findings


def against(loaded: LoadedConfig, listings: Mapping[str, Listing]) -> Findings:
    """Judge against these lists."""
    config = loaded.config
    try:
        engine = Engine.build(loaded)
    except ConfigError:
        # Reported where conditions and selectors are compiled.
        return Findings()
    catalog = build(config.naming, config.servers, listings)
    targets = [Target.of(route) for route in catalog.routes]
    # What a server lists to others than the gateway is not known either.
    whole = {name for name in listings if name in config.servers and config.servers[name].catalog == "shared"}
    unlisted = [name for name in [*config.servers, *loaded.off] if name not in whole]
    known = [*targets, *extensions.unlisted(catalog)]
    findings = Findings([loaded.locate(problem) for problem in dead_rules(engine, known, unlisted)])
    findings.notes += [_held(item) for item in catalog.held_back]
    own = [name for name, server in config.servers.items() if server.catalog == "principal"]
    if own and config.policies:
        findings.notes.append(f"they list by who asks, so rules about them are not judged: {', '.join(own)}")
    for principal in _principals(loaded) if not own else ():
        if sees_nothing(engine, principal, targets):
            findings.notes.append(f"{principal.label} sees nothing")
    return findings


def _held(item: HeldBack) -> str:
    return f"{item.kind} {item.server}/{item.name} is held back: {item.reason}"


def _principals(loaded: LoadedConfig) -> list[Principal]:
    if loaded.anonymous:
        return [ANONYMOUS]
    clients = loaded.config.clients.items()
    return [Principal(f"key:{name}", "key", name, frozenset(client.groups)) for name, client in clients]
