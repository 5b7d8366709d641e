"""What several pages are made of: tables, forms, badges, pages of long lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.admin.pages.markup import Attribute, Child, Html, Url, el, link, text, typed
from gateway.admin.pages.visit import Visit

_GOOD: Final = frozenset({"up", "ok", "allowed", "yes", "recorded", "granted", "ready", "approved", "idle"})
_BAD: Final = frozenset({"failed", "down", "denied", "error", "quarantined", "mismatch", "no", "refused", "off"})
MAX_PAGE: Final = 100_000


def badge(word: str, kind: str = "") -> Html:
    """Show a state: always as a word, never by a colour alone."""
    tone = kind or ("good" if word in _GOOD else "bad" if word in _BAD else "plain")
    return el("span", {"class": f"badge {tone}"}, word)


Line: TypeAlias = "Sequence[Child]"
"""The cells of a row."""


def table(caption: str, heads: Sequence[Child], lines: Iterable[Line]) -> Html:
    """Show rows, the first cell of each being its head; scrolls by itself where it is wide."""
    body = [
        el("tr", None, el("th", {"scope": "row"}, line[0]), [el("td", None, cell) for cell in line[1:]])
        for line in lines
    ]
    if not body:
        return el("p", {"class": "nothing"}, f"{caption}: nothing to show.")
    head = el("tr", None, [el("th", {"scope": "col"}, each) for each in heads])
    inner = el("table", None, el("caption", None, caption), el("thead", None, head), el("tbody", None, body))
    return el("div", {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": caption}, inner)


def facts(pairs: Mapping[str, Child]) -> Html:
    """Show what is known of one thing; what is not known is left out."""
    shown = [(key, value) for key, value in pairs.items() if value is not None and value != ""]
    return el("dl", {"class": "facts"}, [[el("dt", None, key), el("dd", None, value)] for key, value in shown])


def anchor(to: Url, *children: Child) -> Html:
    """Show a link to one of our pages."""
    return el("a", {"href": to}, *children)


def notice(words: Child, kind: str = "plain") -> Html:
    """Show something that happened."""
    return el("p", {"class": f"notice {kind}", "role": "status"}, words)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form: a line of text, or with ``choices`` one of several, or with ``tall`` several lines."""

    key: str
    label: str
    value: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()
    tall: bool = False
    limit: int = 300


def field(entry: Field) -> Html:
    """Show a field with its label."""
    common: dict[str, Attribute] = {"name": entry.key, "id": f"f-{entry.key}", "maxlength": entry.limit}
    if entry.choices:
        options = [
            el("option", {"value": each, "selected": each == entry.value}, each or "any") for each in entry.choices
        ]
        control = el("select", {"name": entry.key, "id": f"f-{entry.key}"}, options)
    elif entry.tall:
        control = el("textarea", {**common, "rows": 4, "spellcheck": "false"}, typed(entry.value))
    else:
        attributes: dict[str, Attribute] = {
            "type": "text",
            "value": entry.value,
            "placeholder": entry.hint,
            "autocomplete": "off",
        }
        control = el("input", {**common, **attributes, "spellcheck": "false"})
    return el("div", {"class": "field"}, el("label", {"for": f"f-{entry.key}"}, entry.label), control)


def search(path: str, fields: Iterable[Field], button: str) -> Html:
    """Show a form that only asks."""
    inner = [field(each) for each in fields]
    send = el("button", {"type": "submit"}, button)
    return el("form", {"method": "get", "action": link(path), "class": "search"}, inner, send)


def act(visit: Visit, path: str, given: Mapping[str, str], *children: Child) -> Html:
    """Show a form that acts: with the session's own mark, and what it is about."""
    hidden = [el("input", {"type": "hidden", "name": key, "value": value}) for key, value in given.items()]
    return el("form", {"method": "post", "action": link(path), "class": "act"}, visit.token(), hidden, *children)


def button(label: str, kind: str = "", **attributes: str) -> Html:
    """Show a button that sends its form."""
    said = {key.replace("_", "-"): value for key, value in attributes.items()}
    return el("button", {"type": "submit", "class": kind or None, **said}, label)


def page_of(visit: Visit, key: str = "page") -> int:
    """Return which page of a long list is asked for, from 0."""
    given = visit.query.get(key, "")
    return min(int(given), MAX_PAGE) if given.isascii() and given.isdigit() and len(given) < 7 else 0


def pager(visit: Visit, total: int, size: int, key: str = "page") -> Html | None:
    """Show the way through a long list; nothing for a short one."""
    if total <= size:
        return None
    page, last = page_of(visit, key), (total - 1) // size
    kept = {name: value for name, value in visit.query.items() if name not in (key, "live", "done")}

    def to(number: int, label: str) -> Html:
        return el("a", {"href": link(visit.path, **kept | {key: str(number)})}, label)

    shown = f"{page * size + 1:,} to {min(total, (page + 1) * size):,} of {total:,}"
    back = to(page - 1, "← previous") if page > 0 else None
    forth = to(page + 1, "next →") if page < last else None
    return el("nav", {"class": "pager", "aria-label": "Pages"}, back, el("span", None, shown), forth)


def when(at: str) -> Html:
    """Show a time as records and status have it, to the second."""
    whole = at.replace("+00:00", "Z").partition(".")[0]
    shown = whole.removesuffix("Z").replace("T", " ")
    return el("time", {"datetime": at}, f"{shown} UTC") if at else text("–")


def size(count: int) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:,} {unit}"
        count //= 1024
    return f"{count:,} GiB"
