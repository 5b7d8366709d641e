"""Secrets that stand in the config itself (S150): noted; refused for a server that is held strictly.

Whoever may read the config, its backups or the repository it is in can use them. Only what surely is one is meant: a
header or variable may hold anything, and is judged by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from gateway.config.places import Loc, find
from gateway.config.subject import Findings, Subject
from gateway.text.secrets import is_secret_name

_ALWAYS: Final[tuple[Loc, ...]] = (
    ("admin", "metrics_token"),
    ("state", "sealing_keys", "*"),
    ("servers", "*", "auth", "*", "client_secret"),
    ("servers", "*", "auth", "*", "private_key"),
)
_BY_NAME: Final[tuple[Loc, ...]] = (
    ("servers", "*", "env", "*"),
    ("servers", "*", "headers", "*"),
    ("telemetry", "otlp", "headers", "*"),
)
_ADDRESSES: Final[tuple[Loc, ...]] = (("state", "url"), ("state", "database"), ("audit", "sinks", "*"))
_SHORTEST: Final = 8
_WHAT: Final = "is written in the file: use ${NAME} or ${file:/path}"


def judge_plain(subject: Subject, findings: Findings) -> None:
    """Look for secrets that came from no variable and no file."""
    for loc in _plain(subject):
        if loc[0] == "servers" and _is_strict(subject, str(loc[1])):
            findings.problem(
                loc, "is written in the file, which pin.mode strict rules out", "use ${NAME} or ${file:/path}"
            )
        else:
            findings.note(loc, _WHAT)


def _plain(subject: Subject) -> Iterator[Loc]:
    for pattern in (*_ALWAYS, *_BY_NAME):
        for loc, value in find(subject.tree, pattern):
            named = pattern in _ALWAYS or is_secret_name(str(loc[-1]))
            if named and isinstance(value, str) and len(value) >= _SHORTEST and loc not in subject.referring:
                yield loc
    for pattern in _ADDRESSES:
        for loc, value in find(subject.tree, pattern):
            if isinstance(value, str) and _has_password(value) and loc not in subject.referring:
                yield loc


def _has_password(address: str) -> bool:
    try:
        return bool(urlsplit(address).password)
    except ValueError:
        # It is refused for what it is.
        return False


def _is_strict(subject: Subject, name: str) -> bool:
    server = subject.config.servers.get(name)
    return server is not None and server.pin.mode == "strict"
