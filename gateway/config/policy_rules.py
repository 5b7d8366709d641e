"""Cross checks of ``policies``: names told apart, and references that lead somewhere.

A rule that can never match is worse than none: the operator believes in it. Whether a tool exists needs the
catalog and is not checked here; servers and clients are known.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.config.names import ANONYMOUS
from gateway.config.places import Loc, Tree, find, shown
from gateway.config.shape import nearest
from gateway.config.subject import Findings, Subject

_KINDS: Final = ("prompt:", "resource:", "any:")
_FORMS: Final = ("key:", "sub:", "client:", "cert:", "group:", "scope:")
SELECTORS: Final[tuple[Loc, ...]] = (
    ("allow", "*"),
    ("allow", "*", "tools"),
    ("deny", "*"),
    ("deny", "*", "tools"),
    ("approve", "*", "tools"),
    ("limits", "*", "tools", "*"),
)
_RULES: Final = ("allow", "deny", "approve", "limits", "duplicates", "audit")
_PREFIX = re.compile(r"([A-Za-z]+:)(.*)", re.DOTALL)


def judge_policies(subject: Subject, findings: Findings) -> None:
    """Check every policy, also those that are broken elsewhere, and all against each other."""
    judge_names(subject.tree, findings)
    for loc, client in _texts(subject.tree, ("clients", "*")):
        _client(subject, client, loc, findings)
    for pattern in SELECTORS:
        for loc, selector in _texts(subject.tree, pattern):
            judge_selector(subject, selector, loc, findings)
    for loc, policy in find(subject.tree, ("policies", "*")):
        if isinstance(policy, dict) and not any(policy.get(key) for key in _RULES):
            findings.note(loc, "the policy has no rule and changes nothing")


def judge_names(tree: Tree, findings: Findings) -> None:
    """Check that no two policies have one name."""
    names: dict[str, Loc] = {}
    for loc, name in _texts(tree, ("name",)):
        first = names.setdefault(name, loc)
        if first is not loc:
            where = findings.places.problem(first, "")
            text = f"another policy has the name '{shown(name)}'"
            findings.problem(loc, text, f"the first is at {where.file}:{where.line}")


def _texts(tree: Tree, pattern: Loc) -> list[tuple[Loc, str]]:
    found = find(tree, ("policies", "*", *pattern))
    return [(loc, value) for loc, value in found if isinstance(value, str)]


def judge_selector(subject: Subject, selector: str, loc: Loc, findings: Findings) -> None:
    """Check that a text is a selector, of a server that there is."""
    text = next((selector.removeprefix(kind) for kind in _KINDS if selector.startswith(kind)), selector)
    server, slash, name = text.partition("/")
    if not slash or not server or not name:
        hint = f"write {shown(server)}/*" if server and server in subject.servers else "such as wiki/search or wiki/*"
        findings.problem(loc, "is no selector: it needs a server, a slash and a name", hint)
        return
    wanted = _glob(server)
    # "Every server" is a meaning of its own and stays right when there is none yet.
    if server in ("*", "**") or any(wanted.fullmatch(known) for known in subject.servers):
        return
    prefix = _PREFIX.fullmatch(server)
    if prefix is not None:
        hint = nearest(prefix[1], _KINDS) or "tools need no prefix; the others are prompt:, resource: and any:"
        findings.problem(loc, f"'{shown(prefix[1])}' is no kind of selector", hint)
        return
    close = nearest(server, subject.servers) or _list_of("servers", subject.servers)
    findings.problem(loc, f"no server is called '{shown(server)}'", close)


def _glob(pattern: str) -> re.Pattern[str]:
    """Compile the server part of a selector: ``*`` is any run of characters, everything else stands for itself."""
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)


def _list_of(what: str, names: tuple[str, ...]) -> str:
    if not names:
        return f"no {what} are configured"
    return f"{what}: " + ", ".join(shown(name) for name in names[:10]) + (", …" if len(names) > 10 else "")


def _client(subject: Subject, text: str, loc: Loc, findings: Findings) -> None:
    if text in ("*", ANONYMOUS) or text in subject.clients:
        return
    prefix = _PREFIX.fullmatch(text)
    if prefix is None:
        hint = nearest(text, [*subject.clients, ANONYMOUS]) or _list_of("clients", subject.clients)
        findings.problem(loc, f"no client is called '{shown(text)}'", hint)
        return
    form, rest = prefix[1], prefix[2]
    if form not in _FORMS:
        hint = nearest(form, _FORMS) or "the forms are " + ", ".join(_FORMS)
        findings.problem(loc, f"'{shown(form)}' is no form of a principal", hint)
    elif not rest:
        findings.problem(loc, f"names nobody after {form}")
    elif form == "key:" and rest not in subject.clients:
        hint = nearest(rest, subject.clients) or _list_of("clients", subject.clients)
        findings.problem(loc, f"no client is called '{shown(rest)}'", hint)
    elif form in ("sub:", "client:") and "/" not in rest:
        findings.problem(loc, "needs issuer and name", f"write {form}ISSUER/NAME")
    else:
        _reach(subject, form, rest, loc, findings)


def _reach(subject: Subject, form: str, rest: str, loc: Loc, findings: Findings) -> None:
    """Note forms that nobody can have with what is configured."""
    has_jwt = subject.config.auth.jwt is not None
    tls = subject.config.listen.tls
    groups = sorted({group for client in subject.config.clients.values() for group in client.groups})
    if form == "group:" and not has_jwt and rest not in groups:
        hint = nearest(rest, groups)
        findings.note(loc, f"no client is in a group '{shown(rest)}'" + (f": {hint}" if hint else ""))
    elif form in ("sub:", "client:", "scope:") and not has_jwt:
        findings.note(loc, f"nobody can be {form}… without auth.jwt")
    elif form == "cert:" and not (tls and tls.client_ca):
        findings.note(loc, "nobody can be cert:… without listen.tls.client_ca")
