"""Cross checks of ``auth.jwt`` and of every scope: whose tokens, for what, by which algorithms, from where.

A half-configured issuer is worse than none: what is missing here would be an open door or a closed one.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.config.access import Jwt
from gateway.config.places import Loc, find, shown
from gateway.config.subject import Findings, Subject
from gateway.config.types import is_loopback, split_http_url

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with public keys only: a shared secret would let every holder make tokens, ``none`` everybody."""
MIN_STALE: Final = 60.0

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,128}")
"""``scope-token`` (RFC 6749 §3.3), which can stand in a header as it is."""
_SECTION: Final[Loc] = ("auth", "jwt")
_RULES: Final = ("allow", "deny")


def judge_tokens(subject: Subject, findings: Findings) -> None:
    """Check the issuer, and the scopes that its tokens and the policies' rules name."""
    settings = subject.config.auth.jwt
    if settings is not None:
        _issuer(subject, settings, findings)
        _audience(subject, settings, findings)
        _numbers(settings, findings)
        for index, scope in enumerate(settings.required_scopes):
            _scope((*_SECTION, "required_scopes", index), scope, findings)
        if settings.scope_prefix:
            _scope((*_SECTION, "scope_prefix"), settings.scope_prefix, findings)
    for rules in _RULES:
        for loc, named in find(subject.tree, ("policies", "*", rules, "*", "scopes", "*")):
            if isinstance(named, str):
                _scope(loc, named, findings)
            if rules == "deny":
                findings.problem(loc, "belongs to allow", "to deny by scope, write a policy for clients: [scope:NAME]")
            elif settings is None:
                findings.note(loc, "nobody can have a scope without auth.jwt")


def _issuer(subject: Subject, settings: Jwt, findings: Findings) -> None:
    _address((*_SECTION, "issuer"), settings.issuer, findings)
    if settings.jwks_url or (*_SECTION, "jwks_url") in subject.emptied:
        _address((*_SECTION, "jwks_url"), settings.jwks_url, findings, query=True)
    if not settings.algorithms:
        findings.problem((*_SECTION, "algorithms"), "is empty: no token could be accepted")
    for index, algorithm in enumerate(settings.algorithms):
        if algorithm not in ALGORITHMS:
            loc = (*_SECTION, "algorithms", index)
            findings.problem(loc, "is no algorithm with public keys", "choose from " + ", ".join(ALGORITHMS))


def _address(loc: Loc, url: str, findings: Findings, *, query: bool = False) -> None:
    """An issuer is compared as it is written, so it must be written as one (RFC 8414 §2)."""
    try:
        parts = split_http_url(url)
    except ValueError as error:
        findings.problem(loc, str(error))
        return
    if "@" in parts.netloc or (parts.query and not query):
        findings.problem(loc, "must have no userinfo" + ("" if query else " and no query"))
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        findings.problem(loc, "must be https: whoever can change the keys on their way makes the tokens")


def _audience(subject: Subject, settings: Jwt, findings: Findings) -> None:
    public = subject.config.listen.public_url
    if not settings.audience.strip():
        findings.problem((*_SECTION, "audience"), "is empty: tokens for anything would be accepted")
    if not public:
        text = "needs listen.public_url: clients ask the issuer for tokens for that address"
        findings.problem(_SECTION, text, "set it to the endpoint's address as clients know it")
    elif public.rstrip("/") != settings.audience.rstrip("/"):
        findings.note(
            (*_SECTION, "audience"),
            "is not listen.public_url, which is what clients ask tokens for: the issuer has to be told",
        )


def _numbers(settings: Jwt, findings: Findings) -> None:
    if settings.max_lifetime <= 0:
        findings.problem((*_SECTION, "max_lifetime"), "must be longer than nothing")
    if settings.max_stale < MIN_STALE:
        findings.problem((*_SECTION, "max_stale"), "must be 1m or more: keys are not fetched more often than every 10s")
    if not settings.groups_claim.strip():
        findings.problem((*_SECTION, "groups_claim"), "is empty", "leave it out for: groups")


def _scope(loc: Loc, scope: str, findings: Findings) -> None:
    if not _SCOPE.fullmatch(scope):
        text = f"'{shown(scope)}' is no scope: one word without spaces, quotes and backslashes"
        findings.problem(loc, text)
