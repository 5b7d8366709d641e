"""Cross checks of ``servers``: names that can be told apart, keys that fit the kind, headers that can be sent."""

from __future__ import annotations

import re
from typing import Final

from pydantic import SecretStr

from gateway.config.places import Loc, shown
from gateway.config.servers import Server
from gateway.config.subject import Findings, Subject
from gateway.config.types import is_loopback, split_http_url
from gateway.model.naming import SERVER_NAME, slug

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_LATIN: Final = "latin-1"

# What the gateway itself says about each request, and what frames it.
_OWN_HEADERS: Final = frozenset(
    {"accept", "connection", "content-length", "content-type", "expect", "host", "keep-alive", "te"}
    | {"trailer", "transfer-encoding", "upgrade"}
)
_OWN_PREFIX: Final = "mcp-"

# What only a server that speaks MCP can do.
_MCP: Final = ("protocol", "asks", "park")

_KINDS: Final = {
    "stdio": ("command", ("command", "args", "env", "cwd", "sandbox", "limits", *_MCP)),
    "http": ("url", ("url", "transport", "headers", "auth", "allow_networks", "redirects", "tls", *_MCP)),
    "openapi": ("openapi", ("openapi", "url", "headers", "auth", "allow_networks", "redirects", "tls")),
}
_PARTICULAR: Final = frozenset(key for _, keys in _KINDS.values() for key in keys)


def judge_servers(subject: Subject, findings: Findings) -> None:
    """Check every server, and all against each other."""
    _names(subject, findings)
    _namespaces(subject, findings)
    for name, server in subject.config.servers.items():
        loc: Loc = ("servers", name)
        _kind(server, loc, findings)
        _process(server, loc, findings)
        _headers(server, loc, findings)
        _address(server, loc, findings)
        _document(server, loc, findings)
        _auth(subject, server, loc, findings)
        _catalog(server, loc, findings)


def _names(subject: Subject, findings: Findings) -> None:
    for name in subject.servers:
        if not SERVER_NAME.fullmatch(name):
            hint = "a letter or digit, then up to 63 letters, digits, spaces and . _ -"
            findings.problem(("servers", name), "cannot be a server's name", hint)


def _namespaces(subject: Subject, findings: Findings) -> None:
    """Equal slugs and equal namespaces are errors; bare names may come from several servers."""
    slugs: dict[str, str] = {}
    spaces: dict[str, str] = {}
    for name in subject.servers:
        server = subject.config.servers.get(name)
        explicit = server.namespace if server is not None else None
        own = slug(name)
        if own in slugs:
            text = f"has the same short name as the server '{shown(slugs[own])}': {own}"
            findings.problem(("servers", name), text, "rename one of them")
            continue
        slugs[own] = name
        space = (own if explicit is None else explicit).casefold()
        if space and space in spaces:
            loc = ("servers", name) if explicit is None else ("servers", name, "namespace")
            findings.problem(loc, f"is also the namespace of the server '{shown(spaces[space])}'", "choose another one")
        elif space:
            spaces[space] = name
    _prefixes(subject, spaces, findings)


def _prefixes(subject: Subject, spaces: dict[str, str], findings: Findings) -> None:
    separator = subject.config.naming.separator.casefold()
    for space, name in spaces.items():
        for other, other_name in spaces.items():
            if other != space and other.startswith(space + separator):
                text = (
                    f"names of '{shown(other_name)}' look as if they were of '{shown(name)}'; routing tells them apart"
                )
                findings.note(("servers", other_name), text)


def _kind(server: Server, loc: Loc, findings: Findings) -> None:
    """A key that means nothing for this kind of server would be ignored silently."""
    owner, keys = _KINDS[server.kind]
    for key in sorted(server.model_fields_set & (_PARTICULAR - set(keys))):
        if getattr(server, key) is not None:
            findings.problem((*loc, key), f"means nothing for a server with {owner}", "remove it")


def _process(server: Server, loc: Loc, findings: Findings) -> None:
    if server.command is not None and not server.command.strip():
        findings.problem((*loc, "command"), "is empty")
    elif server.command is not None and not server.args and _is_shell_line(server.command):
        findings.problem((*loc, "command"), "looks like a shell line", "put the arguments into args")
    words = [("command", server.command or ""), ("cwd", server.cwd)]
    places: list[tuple[Loc, str]] = [((*loc, key), text) for key, text in words]
    places += [((*loc, "args", index), text) for index, text in enumerate(server.args)]
    places += [((*loc, "sandbox", index), text) for index, text in enumerate(server.sandbox)]
    places += [((*loc, "env", key), value.get_secret_value()) for key, value in server.env.items()]
    for place, text in places:
        if "\0" in text:
            findings.problem(place, "has a NUL character in it")
    for key in server.env:
        if not key or "=" in key or "\0" in key:
            findings.problem((*loc, "env", key), "cannot be the name of a variable")


def _is_shell_line(command: str) -> bool:
    return " -" in command or any(sign in command for sign in ("|", "&&", ";", ">"))


def _headers(server: Server, loc: Loc, findings: Findings) -> None:
    seen: dict[str, str] = {}
    for name, value in server.headers.items():
        place = (*loc, "headers", name)
        low = name.casefold()
        if not _TOKEN.fullmatch(name):
            findings.problem(place, "cannot be the name of a header")
        elif low in _OWN_HEADERS or low.startswith(_OWN_PREFIX):
            findings.problem(place, "is a header the gateway sets itself", "remove it")
        elif low in seen:
            findings.problem(place, f"is the same header as {seen[low]}", "remove one of them")
        seen.setdefault(low, name)
        if not _sendable(value):
            findings.problem(place, "has a value that cannot be sent: control or non-Latin characters")


def _document(server: Server, loc: Loc, findings: Findings) -> None:
    """What is sent along goes where calls go; whoever can write a file must not be able to choose where that is."""
    if server.document_file and server.headers and server.url is None:
        findings.problem((*loc, "headers"), "needs url: what is sent is for one address, which no document may choose")


def _auth(subject: Subject, server: Server, loc: Loc, findings: Findings) -> None:
    """A token and a configured credential would be sent in the same header; a token of one caller serves no other."""
    auth, listen = server.auth, subject.config.listen
    if auth.way is None:
        return
    if server.openapi is not None and server.url is None:
        findings.problem((*loc, "auth"), "needs url: a token is for one address, which no document may choose")
    has_header = any(name.casefold() == "authorization" for name in server.headers)
    has_user = server.url is not None and "@" in split_http_url(server.url.get_secret_value()).netloc
    if has_header or has_user:
        findings.problem((*loc, "auth"), "and another credential in Authorization", "remove one of them")
    if auth.is_per_principal and server.isolation == "shared":
        hint = "remove isolation: each principal has its own connection then"
        findings.problem((*loc, "isolation"), "is shared, but the credentials are per principal", hint)
    if auth.token_exchange is not None and subject.config.auth.jwt is None:
        findings.problem((*loc, "auth", "token_exchange"), "exchanges tokens of callers, which auth.jwt accepts")
    address = split_http_url(server.url.get_secret_value()) if server.url is not None else None
    if address is not None and address.scheme == "http" and not is_loopback(address.hostname or ""):
        findings.note((*loc, "url"), "tokens for this server travel unencrypted")
    code = auth.authorization_code
    if code is not None and not code.redirect_uri and not listen.public_url and not is_loopback(listen.host):
        hint = "set listen.public_url, or redirect_uri"
        findings.problem((*loc, "auth", "authorization_code"), "has nowhere for browsers to come back to", hint)


def _catalog(server: Server, loc: Loc, findings: Findings) -> None:
    """Lists that depend on who asks cannot be read over a connection that is everybody's."""
    if server.catalog == "principal" and server.isolation == "shared":
        hint = "remove isolation: each principal has its own connection then"
        findings.problem((*loc, "isolation"), "is shared, but what the server lists is per principal", hint)


def _sendable(value: SecretStr) -> bool:
    text = value.get_secret_value()
    try:
        text.encode(_LATIN)
    except UnicodeEncodeError:
        return False
    return not _UNSENDABLE.search(text)


def _address(server: Server, loc: Loc, findings: Findings) -> None:
    if server.transport == "sse" and server.protocol == "modern":
        findings.problem((*loc, "transport"), "is older than the modern protocol", "use protocol auto or legacy")
    if not server.tls.insecure:
        return
    addresses = [server.url.get_secret_value() if server.url is not None else "", server.document_url]
    hosts = [split_http_url(address).hostname or "" for address in addresses if address]
    if not all(map(is_loopback, hosts)):
        hint = "name the authority in tls.ca instead"
        findings.problem((*loc, "tls", "insecure"), "is only for a loopback address", hint)
