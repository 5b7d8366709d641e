"""Builds the static site from the documentation: ``python docs/site/build.py [FOLDER]``, default ``site``.

One page of HTML for each page of Markdown, in the order of ``docs/navigation.yaml``, with an index for the search. It
reads the repository and writes the folder; it asks no network, and neither does what it writes. A link that leads
nowhere, a page that the navigation leaves out and a picture that is not there are errors.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
HERE: Final = Path(__file__).parent
HOME: Final = ROOT / "README.md"
NAME: Final = "aiohttp-mcp-gateway"
MAX_WORDS: Final = 4_000
"""Characters of a section that the search knows."""
LEXERS: Final = {"console": "console", "nginx": "nginx", "caddyfile": "nginx", "haproxy": "text", "promql": "promql"}


class SiteError(Exception):
    """The documentation cannot become a site; every reason is in the text."""


@dataclass
class Site:
    """What is known of all pages before any is written: navigation, anchors, and files that pages link to."""

    sections: list[tuple[str, list[Path]]] = field(default_factory=list)
    targets: dict[Path, str] = field(default_factory=dict)
    """Page of Markdown to its address, relative to the site's root."""
    titles: dict[Path, str] = field(default_factory=dict)
    files: set[Path] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading with its anchor."""

    level: int
    text: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """One page: its HTML, its headings, and the sections that the search finds."""

    html: str
    headings: tuple[Heading, ...]
    sections: tuple[tuple[str, str, str], ...]
    """Heading, anchor, text."""


def read_navigation() -> Site:
    """Read the navigation.

    Raises:
        SiteError: a page is not in it, or is in it twice.
    """
    site = Site()
    listed: list[Path] = [HOME]
    for section in yaml.safe_load((DOCS / "navigation.yaml").read_text("utf-8")):
        pages = [path for name in section["pages"] if (path := (DOCS / name).resolve()).exists()]
        site.sections.append((section["title"], pages))
        listed += pages
    decisions = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    missing = {path.resolve() for path in DOCS.rglob("*.md")} - {*listed, *decisions}
    if missing or len(listed) != len(set(listed)):
        names = ", ".join(sorted(path.relative_to(DOCS).as_posix() for path in missing)) or "a page is there twice"
        raise SiteError(f"docs/navigation.yaml: {names}")
    for path in [*listed, *decisions]:
        site.targets[path] = _address(path)
        site.titles[path] = _title(path)
    return site


def _address(page: Path) -> str:
    if page == HOME:
        return "index.html"
    if page.is_relative_to(DOCS):
        inside = page.relative_to(DOCS)
        if inside.name == "README.md":
            return "documentation.html" if inside.parent == Path() else f"{inside.parent.as_posix()}/index.html"
        return inside.with_suffix(".html").as_posix()
    return f"project/{page.stem.lower()}.html"


def _title(page: Path) -> str:
    found = re.search(r"^# (.+)$", page.read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise SiteError(f"{page}: has no title")
    return found[1].replace("`", "")


def slug(text: str, seen: dict[str, int]) -> str:
    """Return the anchor that GitHub gives a heading."""
    base = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    count = seen.get(base, 0)
    seen[base] = count + 1
    return base if not count else f"{base}-{count}"


def render(page: Path, site: Site) -> Rendered:
    """Turn a page of Markdown into HTML."""
    parser = MarkdownIt("commonmark", {"html": True, "highlight": _code}).enable(["table", "strikethrough"])
    tokens = parser.parse(page.read_text("utf-8"))
    headings: list[Heading] = []
    sections: list[tuple[str, str, str]] = []
    seen: dict[str, int] = {}
    words: list[str] = []
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            if headings:
                sections.append((headings[-1].text, headings[-1].anchor, _joined(words)))
                words = []
            text = _plain(tokens[at + 1])
            headings.append(Heading(int(token.tag[1]), text, slug(text, seen)))
            token.attrSet("id", headings[-1].anchor)
        elif token.type == "inline":
            _links(token, page, site)
            words.append(_plain(token))
        elif token.type == "fence":
            words.append(token.content)
        elif token.type == "html_block":
            if not token.content.lstrip().startswith("<!--"):
                site.problems.append(f"{page}: HTML in Markdown: {token.content[:40]!r}")
            token.content = ""
        elif token.type in ("th_open", "td_open"):
            # Alignment as a class: the site has no styles in its markup.
            token.attrs.pop("style", None)
    if headings:
        sections.append((headings[-1].text, headings[-1].anchor, _joined(words)))
    html = parser.renderer.render(tokens, parser.options, {})
    html = html.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")
    return Rendered(_anchored(html), tuple(headings), tuple(sections))


def _joined(words: list[str]) -> str:
    return re.sub(r"\s+", " ", " ".join(words)).strip()[:MAX_WORDS]


def _plain(token: Token) -> str:
    return "".join(
        " " if child.type in ("softbreak", "hardbreak") else child.content
        for child in token.children or []
        if child.type != "html_inline"
    )


def _anchored(html: str) -> str:
    """Put a link to itself into every heading below the title."""
    return re.sub(
        r'<h([2-4]) id="([^"]+)">(.*?)</h\1>',
        r'<h\1 id="\2">\3 <a class="self" href="#\2" aria-label="Link to this part">#</a></h\1>',
        html,
    )


def _code(code: str, language: str, _attributes: str) -> str:
    try:
        lexer = get_lexer_by_name(LEXERS.get(language, language or "text"))
    except ClassNotFound:
        lexer = TextLexer()
    return f'<pre class="code" tabindex="0"><code>{_coloured(code, lexer)}</code></pre>'


def _coloured(code: str, lexer: Lexer) -> str:
    # The formatter's own frame is left out: ours scrolls by keyboard.
    return highlight(code, lexer, HtmlFormatter(nowrap=True))


def _links(inline: Token, page: Path, site: Site) -> None:
    children = inline.children or []
    for at, child in enumerate(children):
        if child.type == "link_open":
            href = str(child.attrGet("href"))
            child.attrSet("href", link(href, page, site))
            title = site.titles.get((page.parent / href.partition("#")[0]).resolve())
            # On GitHub the name of a file is what readers look for; here it is the title of a page.
            if title is not None and children[at + 1].content.endswith(".md"):
                children[at + 1].content = title
            if urlsplit(href).scheme:
                child.attrSet("rel", "noopener")
        elif child.type == "image":
            child.attrSet("src", link(str(child.attrGet("src")), page, site))
            child.attrSet("loading", "lazy")


def link(href: str, page: Path, site: Site) -> str:
    """Return where a link of a page leads on the site."""
    parts = urlsplit(href)
    if parts.scheme or not parts.path:
        return href
    target = (page.parent / parts.path).resolve()
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    if not target.exists() or not target.is_relative_to(ROOT):
        site.problems.append(f"{page.relative_to(ROOT)}: {href} leads nowhere")
        return href
    known = site.targets.get(target / "README.md" if target.is_dir() else target)
    if known is None:
        site.files.add(target)
        known = _file_address(target)
    return f"{_up(site.targets[page])}{known}{fragment}"


def _file_address(path: Path) -> str:
    inside = path.relative_to(ROOT).as_posix()
    if path.suffix in (".png", ".svg"):
        return f"images/{path.name}"
    return f"files/{inside}/index.html" if path.is_dir() else f"files/{inside}.html"


def _up(address: str) -> str:
    return "../" * address.count("/")


def frame(address: str, title: str, body: str, site: Site, aside: str = "") -> str:
    """Put a page's content between head, navigation and foot."""
    up = _up(address)
    whole = NAME if title == NAME else f"{title} · {NAME}"
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(whole)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<link rel="stylesheet" href="{up}style.css"><link rel="icon" href="{up}icon.svg" type="image/svg+xml">
<script src="{up}search.js" data-root="{up}" defer></script></head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="top">
<a class="brand" href="{up}index.html"><img src="{up}icon.svg" alt="" width="22" height="22"> mcp-gateway</a>
<form class="search" role="search" hidden>
<input type="search" id="search" placeholder="Search ( / )" aria-label="Search the documentation" autocomplete="off" \
aria-controls="found">
<ol id="found" hidden></ol></form>
</header><div class="columns">
<nav class="pages" aria-label="Pages">
<details class="menu" open><summary>Pages</summary>{_navigation(address, site)}</details>
</nav>
<main id="content">
{body}
{_neighbours(address, site)}
</main>
{aside}
</div>
<footer class="foot">{NAME} · Apache License 2.0</footer>
</body></html>
"""


def _navigation(address: str, site: Site) -> str:
    up = _up(address)
    parts = [f'<p><a href="{up}index.html"{_here(address == "index.html")}>Overview</a></p>']
    for title, pages in site.sections:
        rows = "".join(_row(page, address, site) for page in pages)
        parts.append(f"<h2>{escape(title)}</h2><ul>{rows}</ul>")
    return "\n".join(parts)


def _row(page: Path, address: str, site: Site) -> str:
    own = site.targets[page]
    is_here = own == address or (own.endswith("/index.html") and address.startswith(own.removesuffix("index.html")))
    return f'<li><a href="{_up(address)}{own}"{_here(is_here)}>{escape(site.titles[page])}</a></li>'


def _here(is_here: bool) -> str:
    return ' aria-current="page"' if is_here else ""


def _neighbours(address: str, site: Site) -> str:
    order = [HOME, *(page for _, pages in site.sections for page in pages)]
    places = [site.targets[page] for page in order]
    if address not in places:
        return ""
    at = places.index(address)
    up = _up(address)
    links = [
        f'<a class="{name}" rel="{name}" href="{up}{places[other]}"><span>{label}</span> '
        f"{escape(site.titles[order[other]])}</a>"
        for name, label, other in (("prev", "Before", at - 1), ("next", "Next", at + 1))
        if 0 <= other < len(order)
    ]
    return f'<nav class="neighbours" aria-label="Next pages">{"".join(links)}</nav>'


def _contents(headings: Sequence[Heading]) -> str:
    shown = [one for one in headings if one.level in (2, 3)]
    if len(shown) < 2:
        return '<aside class="contents"></aside>'
    rows = "".join(f'<li class="level{one.level}"><a href="#{one.anchor}">{escape(one.text)}</a></li>' for one in shown)
    return f'<aside class="contents"><nav aria-label="On this page"><h2>On this page</h2><ul>{rows}</ul></nav></aside>'


def _file_page(path: Path, site: Site) -> str:
    address = _file_address(path)
    title = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        inside = [one for one in sorted(path.iterdir()) if one.is_file() and not one.name.startswith(".")]
        site.files.update(inside)
        rows = "".join(
            f'<li><a href="{_up(address)}{_file_address(one)}">{escape(one.name)}</a></li>' for one in inside
        )
        return frame(address, title, f"<h1>{escape(title)}</h1><ul>{rows}</ul>", site)
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:
        lexer = TextLexer()
    code = _coloured(path.read_text("utf-8"), lexer)
    body = f'<h1>{escape(title)}</h1>\n<pre class="code" tabindex="0"><code>{code}</code></pre>'
    return frame(address, title, body, site)


def _write(folder: Path, address: str, text: str) -> None:
    file = folder / address
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


def build(folder: Path) -> int:
    """Write the site into ``folder``, anew; returns the number of pages.

    Raises:
        SiteError: something in the documentation leads nowhere.
    """
    site = read_navigation()
    rendered = {page: render(page, site) for page in site.targets}
    site.problems += _lost_anchors(rendered, site)
    if site.problems:
        raise SiteError("\n".join(site.problems))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    index: list[list[str]] = []
    for page, content in rendered.items():
        address, title = site.targets[page], site.titles[page]
        _write(folder, address, frame(address, title, content.html, site, _contents(content.headings)))
        index += [[title, heading, f"{address}#{anchor}", text] for heading, anchor, text in content.sections]
    done: set[Path] = set()
    while waiting := site.files - done:
        for path in sorted(waiting):
            if path.suffix in (".png", ".svg"):
                (folder / "images").mkdir(exist_ok=True)
                shutil.copy(path, folder / _file_address(path))
            else:
                _write(folder, _file_address(path), _file_page(path, site))
        done |= waiting
    for name in ("style.css", "search.js"):
        shutil.copy(HERE / name, folder / name)
    shutil.copy(ROOT / "gateway" / "admin" / "pages" / "icon.svg", folder / "icon.svg")
    _write(folder, "search-index.js", f"window.searchIndex = {json.dumps(index, ensure_ascii=False)};\n")
    return len(rendered)


def _lost_anchors(rendered: dict[Path, Rendered], site: Site) -> Iterator[str]:
    anchors = {site.targets[page]: {one.anchor for one in content.headings} for page, content in rendered.items()}
    for page, content in rendered.items():
        own = site.targets[page]
        for href in re.findall(r'href="([^"]+)"', content.html):
            path, _, fragment = href.partition("#")
            if not fragment or urlsplit(href).scheme:
                continue
            address = os.path.normpath(os.path.join(os.path.dirname(own), path)) if path else own
            if fragment not in anchors.get(address, set()):
                yield f"{page.relative_to(ROOT)}: {href} names no heading"


def main() -> int:
    """Build the site and say where it is."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site"
    try:
        count = build(folder)
    except SiteError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{count} pages: {(folder / 'index.html').resolve().as_uri()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
