"""What must be so before anything listens: no open door by accident.

Needs the loaded config only, so that ``serve`` and ``check`` ask the same.
"""

from __future__ import annotations

from gateway.config.root import LoadedConfig
from gateway.config.stores import is_shared
from gateway.config.types import is_loopback
from gateway.errors import Problem


def start_problems(loaded: LoadedConfig) -> list[Problem]:
    """Return every reason not to start; none on a config that is safe to serve."""
    return [*_endpoint(loaded), *_admin(loaded), *_shared(loaded)]


def _endpoint(loaded: LoadedConfig) -> list[Problem]:
    listen = loaded.config.listen
    if is_loopback(listen.host):
        return []
    problems = []
    if loaded.anonymous:
        text = "an address other than loopback needs authentication: anybody who reaches it could call everything"
        hint = "configure clients, auth.jwt or listen.tls.client_ca, or bind 127.0.0.1"
        problems.append(_problem(loaded, "listen.host", text, hint))
    if listen.tls is None and not listen.behind_tls_proxy:
        text = "an address other than loopback needs TLS: keys would travel readable"
        hint = "set listen.tls, or listen.behind_tls_proxy: true when a proxy in front does it"
        problems.append(_problem(loaded, "listen.host", text, hint))
    if not listen.allowed_hosts and not listen.public_url:
        text = "an address other than loopback needs to know its own name: any Host would be accepted"
        hint = "set listen.public_url or listen.allowed_hosts"
        problems.append(_problem(loaded, "listen.host", text, hint))
    return problems


def _admin(loaded: LoadedConfig) -> list[Problem]:
    admin, listen = loaded.config.admin, loaded.config.listen
    problems = []
    if not is_loopback(admin.host) and not admin.users:
        text = "an address other than loopback needs users: anybody who reaches it could read everything"
        problems.append(_problem(loaded, "admin.host", text, "configure admin.users, or bind 127.0.0.1"))
    if admin.port == listen.port != 0 and admin.host == listen.host:
        problems.append(_problem(loaded, "admin.port", "is the port of the endpoint too", "choose another one"))
    return problems


def _shared(loaded: LoadedConfig) -> list[Problem]:
    """Replicas that share anything seal with the same keys: what one of them hands out comes back to another."""
    state = loaded.config.state
    if state.sealing_keys:
        return []
    hint = "set state.sealing_keys, the same for all of them"
    settings = (("url", is_shared(state.url)), ("database", bool(state.database.get_secret_value())))
    return [
        _problem(loaded, f"state.{name}", "is shared with other gateways, which need the same keys to read it", hint)
        for name, shared in settings
        if shared
    ]


def _problem(loaded: LoadedConfig, path: str, message: str, hint: str) -> Problem:
    return loaded.locate(Problem(message, path=path, hint=hint))
