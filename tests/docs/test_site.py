"""The static site: every page is valid, reachable and complete, fits a real browser, and asks nobody anything."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from tinyhtml5.parser import HTMLParser as StrictParser

from tests.kit.browser import browsing
from tests.kit.gateway import ROOT
from tests.kit.peers import Driver

pytestmark = pytest.mark.timeout(180)
BUILD: Final = ROOT / "docs" / "site" / "build.py"
NAVIGATION: Final = ROOT / "docs" / "navigation.yaml"


def built(folder: Path, script: Path = BUILD) -> subprocess.CompletedProcess[str]:
    """Run the builder as ``make site`` does."""
    return subprocess.run(
        [sys.executable, script, folder],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = built(folder)
    assert done.returncode == 0, done.stderr
    return folder


class Links(HTMLParser):
    """What a page refers to, what can be referred to in it, and what it may not have."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.page = page
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.wrong: list[str] = []
        self.feed(page.read_text("utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if named.get("id"):
            if named["id"] in self.anchors:
                self.wrong.append(f"twice: #{named['id']}")
            self.anchors.add(str(named["id"]))
        if tag == "a" and named.get("href"):
            self.links.append(str(named["href"]))
        if tag in ("img", "script", "link", "iframe", "source"):
            self.loaded.append(str(named.get("src") or named.get("href")))
        if tag == "img" and "alt" not in named:
            self.wrong.append("a picture without a text in its place")
        self.wrong += [f"{tag} {key}" for key in named if key.startswith("on") or key == "style"]


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {page: Links(page) for page in sorted(site.rglob("*.html"))}


def _target(page: Path, href: str) -> tuple[Path, str]:
    parts = urlsplit(href)
    path = Path(os.path.normpath(page.parent / unquote(parts.path))) if parts.path else page
    return path, unquote(parts.fragment)


def test_every_page_is_html_that_a_strict_parser_takes(pages: dict[Path, Links]) -> None:
    faults = {}
    for page in pages:
        parser = StrictParser()
        parser.parse(page.read_text("utf-8"))
        if parser.errors:
            faults[page.name] = parser.errors[:3]

    assert len(pages) > 40
    assert faults == {}


def test_every_link_and_anchor_leads_somewhere_and_nothing_is_loaded_from_elsewhere(pages: dict[Path, Links]) -> None:
    lost: list[str] = []
    for page, content in pages.items():
        lost += [f"{page.name}: {wrong}" for wrong in content.wrong]
        for href in content.loaded:
            if urlsplit(href).scheme or not _target(page, href)[0].is_file():
                lost.append(f"{page.name}: loads {href}")
        for href in content.links:
            if urlsplit(href).scheme:
                assert href.startswith(("https://", "http://127.0.0.1")), href
                continue
            target, fragment = _target(page, href)
            known = pages.get(target)
            if known is None or (fragment and fragment not in known.anchors):
                lost.append(f"{page.name}: {href}")

    assert lost == []


def test_every_page_can_be_reached_from_the_first_one_by_navigation(site: Path, pages: dict[Path, Links]) -> None:
    seen = {site / "index.html"}
    waiting = [site / "index.html"]
    while waiting:
        page = waiting.pop()
        for href in pages[page].links:
            target = _target(page, href)[0]
            if not urlsplit(href).scheme and target not in seen:
                seen.add(target)
                waiting.append(target)

    assert sorted(page.name for page in set(pages) - seen) == []


def test_the_navigation_has_every_page_once() -> None:
    listed = [name for section in yaml.safe_load(NAVIGATION.read_text("utf-8")) for name in section["pages"]]
    there = {
        path.relative_to(ROOT / "docs").as_posix()
        for path in (ROOT / "docs").rglob("*.md")
        if not re.match(r"\d{4}-", path.name)
    }

    assert len(listed) == len(set(listed))
    assert sorted(there - set(listed)) == []


def test_the_search_knows_every_section(site: Path, pages: dict[Path, Links]) -> None:
    text = (site / "search-index.js").read_text("utf-8")
    index = json.loads(text.removeprefix("window.searchIndex = ").removesuffix(";\n"))

    assert len(index) > 250
    for _, _, address, words in index:
        path, _, anchor = address.partition("#")
        assert anchor in pages[site / path].anchors
        assert len(words) <= 4_000
    assert len(text) < 1_000_000


def test_a_link_that_leads_nowhere_stops_the_build(tmp_path: Path) -> None:
    copy = tmp_path / "tree"
    shutil.copytree(ROOT / "docs", copy / "docs")
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    for name in ("policies", "demo", "charts", "tests", "deploy"):
        if (ROOT / name).exists():
            (copy / name).symlink_to(ROOT / name)
    page = copy / "docs" / "start.md"
    page.write_text(page.read_text("utf-8") + "\n[a](nowhere.md) [b](audit.md#no-such-part)\n")
    (copy / "docs" / "stray.md").write_text("# Stray\n")
    first = built(tmp_path / "out", copy / "docs" / "site" / "build.py")
    (copy / "docs" / "stray.md").unlink()
    second = built(tmp_path / "out", copy / "docs" / "site" / "build.py")

    assert (first.returncode, first.stderr) == (1, "docs/navigation.yaml: stray.md\n")
    assert second.returncode == 1
    assert "docs/start.md: nowhere.md leads nowhere" in second.stderr
    assert "docs/start.md: audit.html#no-such-part names no heading" in second.stderr
    assert not (tmp_path / "out").exists()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name.
        del format, args


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Serve the site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(5)


def told(browser: Driver, command: str, **words: object) -> Any:
    """Carry out a command of the browser; what it answers is of the command's own type."""
    return browser.ok(command, **words)


def test_a_browser_shows_it_light_and_dark_and_narrow_without_a_complaint(address: str, tmp_path: Path) -> None:
    with browsing(tmp_path / "log", scripts=True) as browser:
        grounds = {}
        for scheme in ("light", "dark"):
            told(browser, "look", scheme=scheme)
            for page in ("index.html", "config.html", "reverse-proxy.html", "decisions/index.html"):
                assert told(browser, "goto", url=f"{address}/{page}") == 200
                assert told(browser, "wide") is False, page
            grounds[scheme] = told(browser, "colour", selector="body", name="backgroundColor")
            told(browser, "shot", path=str(tmp_path / f"{scheme}.png"))
        told(browser, "look", scheme="light", width=390, height=800)
        for page in ("index.html", "assurance.html", "policies.html"):
            told(browser, "goto", url=f"{address}/{page}")
            assert told(browser, "wide") is False, page
            assert told(browser, "count", selector=".menu[open]") == 0
        complaints = told(browser, "complained")

    assert grounds["light"] != grounds["dark"]
    assert complaints == []


def test_the_search_finds_a_part_by_keyboard_alone(address: str, tmp_path: Path) -> None:
    with browsing(tmp_path / "log", scripts=True) as browser:
        told(browser, "goto", url=f"{address}/decisions/index.html")
        told(browser, "press", key="/")
        told(browser, "type", text="spki pinned")
        told(browser, "settled", selector="#found a")
        found = told(browser, "text", selector="#found")
        told(browser, "press", key="ArrowDown")
        told(browser, "enter")
        there = told(browser, "url")
        complaints = told(browser, "complained")

    assert "Pins" in found or "Configuration" in found
    assert there.startswith(address)
    assert "#" in there
    assert complaints == []


def test_without_scripts_everything_but_the_search_is_there(address: str, tmp_path: Path) -> None:
    with browsing(tmp_path / "log") as browser:
        told(browser, "goto", url=f"{address}/audit.html")
        assert told(browser, "count", selector=".search[hidden]") == 1
        told(browser, "click", role="link", name="Policies")
        assert told(browser, "title").startswith("Policies")
