"""Cross checks of ``clients`` and of every key and token: there, long enough, told apart.

An empty or unset key is never open access: it stops the gateway from starting.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from pydantic import SecretStr

from gateway.config.access import Client
from gateway.config.names import ANONYMOUS, CLIENT_NAME
from gateway.config.places import Loc, shown
from gateway.config.stores import is_secured
from gateway.config.subject import Findings, Subject

MIN_KEY: Final = 32
MIN_TOKEN: Final = 16
_NAME_HINT: Final = "a letter or digit, then up to 63 letters, digits and . _ @ -"
_KEY_HINT: Final = "make one with: mcp-gateway keys new NAME"
_VISIBLE_ASCII: Final = re.compile(r"[\x21-\x7e]+")


def judge_access(subject: Subject, findings: Findings) -> None:
    """Check clients, admin users and the other tokens."""
    for name in subject.clients:
        _name(("clients", name), name, findings)
    owners: dict[str, str] = {}
    for name, client in subject.config.clients.items():
        _keys(subject, name, client, findings)
        _owners(name, client, owners, findings)
    _tokens(subject, findings)
    for name in subject.config.admin.users:
        _name(("admin", "users", name), name, findings)


def _name(loc: Loc, name: str, findings: Findings) -> None:
    if name == ANONYMOUS:
        findings.problem(loc, "is reserved: it means callers without credentials", "choose another name")
    elif not CLIENT_NAME.fullmatch(name):
        findings.problem(loc, "cannot be a name here", _NAME_HINT)


def _keys(subject: Subject, name: str, client: Client, findings: Findings) -> None:
    loc: Loc = ("clients", name)
    if client.key is None and not client.key_sha256:
        findings.problem(loc, "has no key", _KEY_HINT)
    if client.key is not None:
        _secret((*loc, "key"), client.key, MIN_KEY, findings)
        if (*loc, "key") not in subject.referring:
            findings.note((*loc, "key"), "is written in the file: use ${NAME}, ${file:/path} or key_sha256")
    for index, group in enumerate(client.groups):
        if not group or group != group.strip():
            findings.problem((*loc, "groups", index), "must be a name without spaces around it")


def _secret(loc: Loc, secret: SecretStr, least: int, findings: Findings) -> None:
    text = secret.get_secret_value()
    if not text:
        findings.problem(loc, "is empty", _KEY_HINT)
    elif not _VISIBLE_ASCII.fullmatch(text):
        findings.problem(loc, "has spaces or characters that cannot be sent in a header", _KEY_HINT)
    elif len(text) < least:
        findings.problem(loc, f"is shorter than {least} characters", _KEY_HINT)


def _owners(name: str, client: Client, owners: dict[str, str], findings: Findings) -> None:
    """One key must mean one client, whichever way it is written."""
    digests: list[tuple[Loc, str]] = [
        (("clients", name, "key_sha256", index), digest) for index, digest in enumerate(client.key_sha256)
    ]
    if client.key is not None and client.key.get_secret_value():
        digests.append((("clients", name, "key"), hashlib.sha256(client.key.get_secret_value().encode()).hexdigest()))
    for loc, digest in digests:
        owner = owners.setdefault(digest, name)
        if owner != name:
            findings.problem(loc, f"is the key of the client '{shown(owner)}' too", "each client needs its own")


def _tokens(subject: Subject, findings: Findings) -> None:
    metrics: Loc = ("admin", "metrics_token")
    token = subject.config.admin.metrics_token
    if token.get_secret_value() or metrics in subject.emptied:
        _secret(metrics, token, MIN_TOKEN, findings)
    for index, key in enumerate(subject.config.state.sealing_keys):
        _secret(("state", "sealing_keys", index), key, MIN_KEY, findings)
    state = subject.config.state
    if state.ca and not is_secured(state.url):
        findings.problem(("state", "ca"), "has no use without a url of rediss:// or valkeys://")
    holders: dict[str, str] = {}
    for name, user in subject.config.admin.users.items():
        owner = holders.setdefault(user.token_sha256, name)
        if owner != name:
            loc = ("admin", "users", name, "token_sha256")
            findings.problem(loc, f"is the token of '{shown(owner)}' too", "each person needs an own one")
