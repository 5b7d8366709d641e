"""Whom a policy is about: the forms of ``clients``, matched exactly. Nothing here is a glob (G071)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.config.access import Client
from gateway.model.principal import ANONYMOUS, ANONYMOUS_ID, Principal

_ID_FORMS: Final = ("key:", "sub:", "client:", "cert:")


class ClientError(ValueError):
    """A text that names no possible principal."""


@dataclass(frozen=True, slots=True)
class Who:
    """The principals of one policy."""

    everybody: bool
    ids: frozenset[str]
    groups: frozenset[str]
    scopes: frozenset[str]

    def matches(self, principal: Principal) -> bool:
        """Whether the policy is about this principal; ``*`` is everybody but anonymous."""
        return (
            principal.id in self.ids
            or (self.everybody and not principal.is_anonymous)
            or not self.groups.isdisjoint(principal.groups)
            or not self.scopes.isdisjoint(principal.scopes)
        )


def parse_clients(entries: Iterable[str]) -> Who:
    """Read ``clients``: a bare name is a configured client's key, everything else says what it is.

    Raises:
        ClientError: a form that does not exist, or one that names nothing.
    """
    ids: set[str] = set()
    named: dict[str, set[str]] = {"group:": set(), "scope:": set()}
    everybody = False
    for entry in entries:
        form, colon, rest = entry.partition(":")
        if entry == "*":
            everybody = True
        elif not colon and entry:
            ids.add(entry if entry == ANONYMOUS_ID else f"key:{entry}")
        elif f"{form}:" in named and rest:
            named[f"{form}:"].add(rest)
        elif f"{form}:" in _ID_FORMS and rest:
            ids.add(entry)
        else:
            raise ClientError(f"{entry!r} is no principal: write NAME, group:G, scope:S, * or a full id such as sub:…")
    return Who(everybody, frozenset(ids), frozenset(named["group:"]), frozenset(named["scope:"]))


def principal_named(text: str, clients: Mapping[str, Client] | None) -> Principal:
    """Return the principal that a text stands for: a client's bare name, or a full id. ``clients`` are those that
    exist; None where that is not known, and then a name is taken as it is.

    Raises:
        ClientError: no such client, or a form that names no single principal.
    """
    if text == ANONYMOUS_ID:
        return ANONYMOUS
    form, colon, rest = text.partition(":")
    if colon and form != "key":
        if f"{form}:" not in _ID_FORMS or not rest:
            raise ClientError(f"{text!r} is nobody: write a client's name, anonymous, or a full id such as sub:…")
        return Principal(text, form, form)
    name = rest if colon else text
    client = (clients or {}).get(name)
    if clients is not None and client is None:
        close = difflib.get_close_matches(name, list(clients), n=1)
        known = f"configured: {', '.join(clients) or 'none'}; or anonymous"
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ClientError(f'no client "{name}" is configured ({known}{hint})')
    return Principal(f"key:{name}", "key", name, frozenset(client.groups if client is not None else ()))
