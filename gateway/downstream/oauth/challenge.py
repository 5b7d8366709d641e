"""What a server says about authorization in the head of a 401 or 403 (RFC 9110 §11.6.1, RFC 6750 §3). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

MAX_CHALLENGE: Final = 8192
"""Characters of all challenges together; what is beyond is not read."""
MAX_SCOPES: Final = 100
INSUFFICIENT_SCOPE: Final = "insufficient_scope"

_WORD: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAM: Final = re.compile(rf'({_WORD})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))[ \t]*(?:,[ \t]*)?')
_SCHEME: Final = re.compile(rf"[ \t,]*({_WORD})(?:[ \t]+|$|(?=,))")
_TOKEN68: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*[ \t]*(?:,|$)")
_ESCAPED: Final = re.compile(r"\\(.)")
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")


@dataclass(frozen=True, slots=True)
class Challenge:
    """The Bearer challenge of an answer; all empty where there is none."""

    resource_metadata: str = ""
    scopes: tuple[str, ...] = ()
    error: str = ""


def parse(values: Sequence[str]) -> Challenge:
    """Read ``WWW-Authenticate``; several Bearer challenges are taken together, the first word on each point counts."""
    found: dict[str, str] = {}
    for scheme, params in _challenges(", ".join(values)[:MAX_CHALLENGE]):
        if scheme.lower() == "bearer":
            for name, value in params.items():
                found.setdefault(name, value)
    return Challenge(found.get("resource_metadata", ""), scopes(found.get("scope", "")), found.get("error", ""))


def scopes(text: str) -> tuple[str, ...]:
    """Split a scope text; what is no scope (RFC 6749 §3.3) is left out, and so is all beyond a hundred."""
    return tuple(dict.fromkeys(item for item in text.split(" ") if _SCOPE.fullmatch(item)))[:MAX_SCOPES]


def _challenges(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    at = 0
    while (scheme := _SCHEME.match(text, at)) is not None:
        at = scheme.end()
        params: dict[str, str] = {}
        if (opaque := _TOKEN68.match(text, at)) is not None and _PARAM.match(text, at) is None:
            at = opaque.end()
        while (param := _PARAM.match(text, at)) is not None:
            quoted = param[2]
            value = _ESCAPED.sub(r"\1", quoted) if quoted is not None else param[3]
            params.setdefault(param[1].lower(), value)
            at = param.end()
        yield scheme[1], params
