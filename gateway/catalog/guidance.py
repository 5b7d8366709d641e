"""What servers say to models about themselves (``instructions``), as far as it may reach a client at all (S74). Pure.

Only approved texts come here. What stands in one may still pose as another server's part: headings in it are moved
below the one that names its server, and hidden characters are dealt with as in definitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from gateway.config.servers import Server
from gateway.model.call import Target
from gateway.model.catalog import Catalog
from gateway.model.naming import slug
from gateway.text import hidden, markers
from gateway.text.pieces import pieces

MAX_TEXT: Final = 4096
"""Characters of one server's instructions."""
MAX_ALL: Final = 16_384
"""Characters of all that one client is told; servers behind that are left out."""
_HEADING: Final = re.compile(r"^([ \t]{0,3})(#{1,6})(?=[ \t]|$)", re.MULTILINE)
_UNDERLINE: Final = re.compile(r"^([ \t]{0,3})(=+)[ \t]*$", re.MULTILINE)


def sections(servers: Mapping[str, Server], approved: Mapping[str, str]) -> dict[str, str]:
    """Return what each server's clients are told, by server in config order; ``approved`` are texts as pinned."""
    made = {name: section(name, server, approved.get(name, "")) for name, server in servers.items()}
    return {name: text for name, text in made.items() if text}


def section(name: str, server: Server, text: str) -> str:
    """Return one server's part, "" where it has none: no word of it, or none that may be shown."""
    if server.instructions != "forward" or not text.strip():
        return ""
    if server.text == "quarantine" and hidden.find(text):
        return ""
    if server.pin.mode == "strict" and any(markers.find(part) for part in pieces(text)):
        return ""
    match server.text:
        case "strip":
            text = hidden.strip(text)
        case "escape":
            text = hidden.escape(text)
    text = text.strip()
    text = text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
    return f"# {_namespace(name, server)}\n\n{_below(text)}"


def told(catalog: Catalog, visible: Callable[[Target], bool]) -> str:
    """Return the instructions for a client: the parts of the servers of which it sees anything."""
    parts: list[str] = []
    room = MAX_ALL
    for name, part in catalog.guidance.items():
        if len(part) + 2 > room or not _is_seen(catalog, name, visible):
            continue
        room -= len(part) + 2
        parts.append(part)
    return "\n\n".join(parts)


def _namespace(name: str, server: Server) -> str:
    """Return what its names begin with; a server whose names are bare is called by its own."""
    return (slug(name) if server.namespace is None else server.namespace) or slug(name)


def _below(text: str) -> str:
    """Move headings a level down; a line that would make the one before it a heading does not any more."""
    text = _UNDERLINE.sub(r"\1\\\2", text)
    return _HEADING.sub(lambda match: f"{match[1]}{'#' * min(len(match[2]) + 1, 6)}", text)


def _is_seen(catalog: Catalog, server: str, visible: Callable[[Target], bool]) -> bool:
    return any(route.server == server and visible(Target.of(route)) for route in catalog.routes)
