"""What conditions may ask of paths and addresses among the arguments, however these are written (S67).

Each function answers only where there is one reading of the text. Whatever could mean something else to the server (an
escape, a step up, a second slash of another kind) is a ``ValueError``: an error in a condition, so an allow does not
match and a deny does. None of them touches a disk or a network; where a link leads nobody here knows.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from gateway.text import hidden

MAX_LENGTH: Final = 4_096
"""Characters a path or address may have."""
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}|%u[0-9A-Fa-f]{4}")
_ABSOLUTE: Final = re.compile(r"/[^\\]*")
_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?P<port>:[0-9]{1,5})?(?P<rest>[/?#].*)?",
    re.DOTALL,
)
_LABEL: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


def inside(path: str, folder: str) -> bool:
    """Tell whether an absolute path is a folder or lies below it.

    Raises:
        ValueError: one of them is not absolute, steps up with ``..``, or holds a backslash, a percent escape, a
            character that nobody sees or one that stands for another.
    """
    return _parts(path)[: len(_parts(folder))] == _parts(folder)


def host_in(url: str, hosts: Iterable[str]) -> bool:
    """Tell whether an http or https URL leads to one of ``hosts``: a name, an address, or ``*.NAME`` for all below it.

    Raises:
        ValueError: it is no such URL, has a user in it, or its host can be read in two ways.
    """
    name = _host(url)
    return any(_is_host(name, entry.lower()) for entry in hosts)


def _parts(path: str) -> list[str]:
    _unambiguous(path)
    if _ABSOLUTE.fullmatch(path) is None or _ESCAPE.search(path) is not None:
        raise ValueError("not an absolute path that can be read in one way only")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    # Some servers cut a parameter or spaces off a part before they look at it.
    if any(part.partition(";")[0].strip() == ".." for part in parts):
        raise ValueError("a path with a step up")
    return parts


def _host(url: str) -> str:
    _unambiguous(url)
    found = _URL.fullmatch(url)
    if found is None or "\\" in url or any(each.isspace() for each in url):
        raise ValueError("not an http or https URL that can be read in one way only")
    name = found["host"].lower()
    if name.startswith("["):
        return str(ipaddress.IPv6Address(name[1:-1]))
    labels = name.split(".")
    if any(_LABEL.fullmatch(label) is None for label in labels):
        raise ValueError("not a host name")
    if _is_numeric(labels[-1]):
        # 127.1, 0x7f.1 and 017700000001 are addresses to some and names to others.
        return str(ipaddress.IPv4Address(name))
    return name


def _is_numeric(label: str) -> bool:
    return label.isdigit() or re.fullmatch(r"0x[0-9a-f]*", label) is not None


def _is_host(name: str, entry: str) -> bool:
    if entry.startswith("*."):
        return name.endswith(entry[1:]) and len(name) > len(entry) - 1
    return name == entry.strip("[]")


def _unambiguous(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise ValueError("too long")
    if "\n" in text or "\t" in text or hidden.find(text):
        raise ValueError("holds characters that nobody sees")
    folded = unicodedata.normalize("NFKC", text)
    if folded != text and any(folded.count(each) != text.count(each) for each in "./\\%:@?#~"):
        raise ValueError("holds characters that stand for others")
