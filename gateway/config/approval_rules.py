"""Cross checks of approvals: that somebody can give each, and that no model holds what gives them.

Users and clients are told apart by what they prove, not by their names: the same person may have a client and be the
one who says yes to what it does. What must not be is one secret for both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from gateway.config.places import Loc, find, shown
from gateway.config.policies import Policy
from gateway.config.root import Config
from gateway.config.shape import nearest
from gateway.config.subject import Findings, Subject

ROLE: Final = "approve"
MADE_USER: Final = "admin"
"""The user that ``serve`` makes where none is configured; it has every role."""


def judge_approvals(subject: Subject, findings: Findings) -> None:
    """Check who is to say yes, and with what."""
    users = subject.config.admin.users
    able = [name for name, user in users.items() if ROLE in user.roles] if users else [MADE_USER]
    known = [*users] or [MADE_USER]
    for loc, name in find(subject.tree, ("policies", "*", "approve", "*", "by", "*")):
        if not isinstance(name, str) or name in able:
            continue
        if name in known:
            findings.problem(loc, f"'{shown(name)}' cannot approve: it lacks the role", f"add {ROLE} to its roles")
        else:
            hint = nearest(name, known) or "admin users: " + ", ".join(map(shown, known[:10]))
            findings.problem(loc, f"no admin user is called '{shown(name)}'", hint)
    if not able:
        for loc, rules in find(subject.tree, ("policies", "*", "approve")):
            if rules:
                findings.problem(loc, "nobody can approve: no admin user has the role", f"add {ROLE}")
    for index, policy in enumerate(subject.config.policies):
        _patience(subject.config, index, policy, findings)
    _secrets(subject.config, findings)


def _patience(config: Config, index: int, policy: Policy, findings: Findings) -> None:
    """Note a wait that is cut short for every server by its own limit."""
    longest = max((server.timeouts.asks for server in config.servers.values()), default=None)
    for at, approval in enumerate(policy.approve):
        if longest is not None and approval.hold > longest:
            loc: Loc = ("policies", index, "approve", at, "hold")
            findings.note(loc, "is longer than timeouts.asks of every server: calls wait that long at most")


def _secrets(config: Config, findings: Findings) -> None:
    """Whoever holds a client's key, a model among them, must not be an admin user with it."""
    owners = dict(_digests(config))
    for name, user in config.admin.users.items():
        owner = owners.get(user.token_sha256)
        if owner is not None:
            loc: Loc = ("admin", "users", name, "token_sha256")
            text = f"is the key of the client '{shown(owner)}' too: it could approve its own calls"
            findings.problem(loc, text, "give the person a token of its own")


def _digests(config: Config) -> Iterator[tuple[str, str]]:
    for name, client in config.clients.items():
        for digest in client.key_sha256:
            yield digest, name
        if client.key is not None:
            yield hashlib.sha256(client.key.get_secret_value().encode()).hexdigest(), name
