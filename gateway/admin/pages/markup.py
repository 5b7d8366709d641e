"""HTML as values: text is escaped where it becomes part of a page, and what a reader cannot see is made visible.

There is no way to write a tag but ``el``, and no way to have text taken for markup but to have made it here. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias
from urllib.parse import urlencode, urlsplit

from gateway.telemetry.text import ELLIPSIS, printable

PREFIX: Final = "/ui"
"""Where all pages are."""
_VOID: Final = frozenset({"br", "hr", "input", "link", "meta"})
_PATHS: Final = frozenset({"action", "href", "src"})
_MAX_TEXT: Final = 4096
"""Characters of a text that is no body of its own."""


@dataclass(frozen=True, slots=True)
class Html:
    """A piece of a page. Made by this module alone."""

    text: str


@dataclass(frozen=True, slots=True)
class Url:
    """An address of ours, or one that was looked at: what may stand in ``href`` and ``action``."""

    text: str


MAIN: Final = Url("#main")
"""The content of a page, for who goes through it by keyboard."""
Child: TypeAlias = "Html | str | int | Sequence[Child] | None"
Attribute: TypeAlias = "str | int | bool | Url | None"
"""True writes the name alone; False and None leave the attribute out."""


def el(tag: str, attributes: Mapping[str, Attribute] | None = None, *children: Child) -> Html:
    """Make an element. Its texts are escaped; an address must be a ``Url``."""
    written = "".join(_attribute(name, value) for name, value in (attributes or {}).items())
    if tag in _VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{_inner(children)}</{tag}>")


def join(*children: Child) -> Html:
    """Make one piece of several."""
    return Html(_inner(children))


def text(value: str, limit: int = _MAX_TEXT) -> Html:
    """Show foreign text: escaped, cut, and with every character that cannot be seen written out and marked."""
    return Html(_visible(value, limit))


def name(value: str, limit: int = 128) -> Html:
    """Show a foreign name in a direction of its own, so that it cannot turn around what stands beside it."""
    return el("bdi", {"class": "name"}, text(value, limit))


def link(path: str, /, **query: str | int | None) -> Url:
    """Return the address of one of our pages, with what is not empty of a query."""
    kept = {key: value for key, value in query.items() if value not in ("", None)}
    return Url(f"{PREFIX}{path}" + (f"?{urlencode(kept)}" if kept else ""))


def painted(pieces: Iterable[tuple[str, str]]) -> Html:
    """Show foreign texts one behind the other, each in a class; those of the class "" are shown as they are.

    For hundreds of thousands of them: nothing is made of each but its text.
    """
    return Html(
        "".join(
            f'<span class="{kind}">{_visible(each, len(each))}</span>' if kind else escape(each)
            for kind, each in pieces
        )
    )


def typed(value: str) -> Html:
    """Return what a person typed, as it is, for the text area it was typed into; that drops a first line end."""
    return Html("\n" + escape(value))


def external(address: str) -> Url | None:
    """Return somebody else's address where a browser may be led to it: http and https, nothing else."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    fits = parts.scheme in ("http", "https") and parts.netloc and address.isascii() and address.isprintable()
    return Url(address) if fits else None


def document(html: Html) -> bytes:
    """Return what is sent. A lone surrogate cannot be, and none is left by ``text``."""
    return f"<!doctype html>\n{html.text}\n".encode("utf-8", "replace")


def _attribute(key: str, value: Attribute) -> str:
    match value:
        case None | False:
            return ""
        case True:
            return f" {key}"
        case Url(address):
            assert key in _PATHS, key
            return f' {key}="{escape(address)}"'
        case _:
            assert key not in _PATHS, key
            # What a form sends back must be what it was given; everything else is read by people.
            return f' {key}="{escape(str(value) if key == "value" else printable(str(value)))}"'


def _inner(children: Sequence[Child]) -> str:
    return "".join(map(_child, children))


def _child(child: Child) -> str:
    match child:
        case None:
            return ""
        case Html(done):
            return done
        case str():
            return _visible(child, _MAX_TEXT)
        case int():
            return str(child)
        case _:
            return _inner(child)


def _visible(value: str, limit: int) -> str:
    cut = value if len(value) <= limit else value[: limit - 1] + ELLIPSIS
    if printable(cut) == cut:
        return escape(cut)
    return escape(cut).translate({ord(char): _unseen(char) for char in set(cut) if printable(char) != char})


def _unseen(char: str) -> str:
    return f'<span class="hidden" title="a character that is not seen">U+{ord(char):04X}</span>'
