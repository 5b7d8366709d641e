"""Writes servers as YAML: on its own, or into a config that people wrote, whose other lines stay as they are.

What was put in is read again before it is believed: a file that does not then say exactly what it should is not
touched.
"""

from __future__ import annotations

import re
from typing import Final

import yaml

from gateway.config.document import parse, resolve
from gateway.config.places import Mapping, Tree
from gateway.errors import ConfigError

_WIDTH: Final = 100_000
_SECTION = re.compile(r"servers:[ \t]*(\{[ \t]*\}[ \t]*)?(#.*)?")


class CannotInsert(Exception):
    """The file is laid out in a way that does not let its servers be added to by lines."""


class _Dumper(yaml.SafeDumper):
    """Quotes what would be read as something else than text; lists stand on one line."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = None if resolve(value) == value and value.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _list(dumper: yaml.SafeDumper, value: list[Tree]) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=True)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)


def render(servers: Mapping, indent: int = 2) -> str:
    """Return a ``servers`` section."""
    text: str = yaml.dump(
        {"servers": servers},
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=_WIDTH,
        indent=max(indent, 2),
    )
    return text


def insert(text: str, servers: Mapping) -> str:
    """Return the text of a config with more servers behind those it has; none of them may be there already.

    Raises:
        CannotInsert: the section is not written as a block, or the file is not one mapping in block style.
    """
    written = any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())
    try:
        before = parse(text.encode(), "").root if written else {}
    except ConfigError:
        raise CannotInsert from None
    present = before.get("servers", {})
    if not isinstance(present, dict) or set(present) & set(servers):
        raise CannotInsert
    lines = text.splitlines(keepends=True)
    at = next((index for index, line in enumerate(lines) if _SECTION.fullmatch(line.rstrip("\r\n"))), None)
    if at is None:
        after = _ended(text) + ("\n" if text.strip() else "") + render(servers)
    else:
        after = _within(lines, at, servers)
    try:
        whole = parse(after.encode(), "").root
    except ConfigError:
        raise CannotInsert from None
    if whole != {**before, "servers": {**present, **servers}}:
        raise CannotInsert
    return after


def _within(lines: list[str], at: int, servers: Mapping) -> str:
    """Put the entries behind the section's last line that is more than a comment or a gap."""
    end, indent = at, 0
    for index in range(at + 1, len(lines)):
        line = lines[index]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        depth = len(line) - len(line.lstrip(" "))
        if depth == 0:
            break
        indent = indent or depth
        end = index
    head = re.sub(r"\{[ \t]*\}", "", lines[at]) if indent == 0 else lines[at]
    kept = [*lines[:at], head, *lines[at + 1 : end + 1]]
    entries = render(servers, indent or 2).splitlines(keepends=True)[1:]
    return _ended("".join(kept)) + "".join(entries) + "".join(lines[end + 1 :])


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
