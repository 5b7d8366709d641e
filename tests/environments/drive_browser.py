"""A real browser on standard input and output: one JSON command a line, one JSON answer a line.

    drive_browser.py CHROMIUM [scripts]

Runs inside the environment ``browser``. Scripts are off, as the dashboard promises to work without any, unless they are
asked for.
"""

from __future__ import annotations

import json
import sys

from playwright.sync_api import Error, Page, Request, sync_playwright

SECONDS = 5_000
WIDTH, HEIGHT = 1280, 860


def show(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


class Browser:
    """The commands; each returns what the test is told."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("requestfailed", self.failed)

    def failed(self, request: Request) -> None:
        # Going on to another page ends what the last one still loads.
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"failed: {request.url}: {request.failure}")

    def goto(self, url: str) -> int:
        response = self.page.goto(url)
        return response.status if response else 0

    def fill(self, label: str, value: str) -> None:
        self.page.get_by_label(label, exact=True).fill(value)

    def click(self, role: str, name: str) -> None:
        """Click on what leads to another page, and wait for that."""
        with self.page.expect_navigation():
            self.page.get_by_role(role, name=name, exact=True).first.click()

    def enter(self) -> None:
        """Press Enter where that leads to another page, and wait for that."""
        with self.page.expect_navigation():
            self.page.keyboard.press("Enter")

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)

    def settled(self, selector: str) -> None:
        """Wait until something is shown."""
        self.page.locator(selector).first.wait_for(state="visible")

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)

    def tab_to(self, name: str, most: int = 80) -> bool:
        """Go on by keyboard until what has the focus is called that, or begins with it."""
        for _ in range(most):
            self.page.keyboard.press("Tab")
            if self.focused().startswith(name):
                return True
        return False

    def focused(self) -> str:
        found = self.page.locator(":focus")
        if not found.count():
            return ""
        label = found.get_attribute("aria-label") or found.inner_text().strip()
        identifier = found.get_attribute("id")
        if not label and identifier:
            label = self.page.locator(f"label[for={identifier}]").inner_text()
        return label

    def text(self, selector: str = "main") -> str:
        return self.page.locator(selector).first.inner_text()

    def count(self, selector: str) -> int:
        return self.page.locator(selector).count()

    def url(self) -> str:
        return self.page.url

    def title(self) -> str:
        return self.page.title()

    def look(self, scheme: str = "light", width: int = WIDTH, height: int = HEIGHT) -> None:
        self.page.emulate_media(color_scheme=scheme)
        self.page.set_viewport_size({"width": width, "height": height})

    def colour(self, selector: str, name: str) -> str:
        # The browser's own answer; scripts of pages stay off, those of the driver run.
        return self.page.locator(selector).first.evaluate("(e, n) => getComputedStyle(e)[n]", name)

    def wide(self) -> bool:
        return self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")

    def shot(self, path: str, whole: bool = False) -> None:
        self.page.screenshot(path=path, full_page=whole)

    def cookies(self) -> list[object]:
        return list(self.page.context.cookies())

    def complained(self) -> list[str]:
        found, self.complaints[:] = list(self.complaints), []
        return found


def main(chromium: str, scripts: bool) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        context = browser.new_context(java_script_enabled=scripts, viewport={"width": WIDTH, "height": HEIGHT})
        context.set_default_timeout(SECONDS)
        driven = Browser(context.new_page())
        show({"ok": browser.version})
        for line in sys.stdin:
            command = json.loads(line)
            try:
                show({"ok": getattr(driven, command.pop("do"))(**command)})
            except Error as error:
                show({"error": str(error)[:2000]})
        browser.close()


main(sys.argv[1], sys.argv[2:] == ["scripts"])
