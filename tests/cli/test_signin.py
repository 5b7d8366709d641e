"""Signing in through a page on this machine, against a scripted authorization server."""

from __future__ import annotations

import asyncio
import re
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from gateway.cli import signin
from gateway.cli.signin import SignIn, shown_in_browser, vault_of
from gateway.config.server_auth import AuthorizationCode
from gateway.downstream.oauth.vault import MemoryVault, Vault
from tests.kit.oauth import Protected, protected

CHALLENGE = ['Bearer realm="mcp"']


class Person:
    """Somebody who follows the page that is shown, as a browser does."""

    def __init__(self) -> None:
        self.shown: asyncio.Queue[str] = asyncio.Queue()
        self.told: list[str] = []
        self.pages: list[tuple[int, str]] = []

    def show(self, url: str) -> None:
        self.shown.put_nowait(url)

    def tell(self, text: str) -> None:
        self.told.append(text)

    async def sign_in(self) -> None:
        async with asyncio.timeout(5):
            url = await self.shown.get()
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser,
            browser.get(url) as page,
        ):
            self.pages.append((page.status, await page.text()))


@asynccontextmanager
async def signing_in(server: Protected, vault: Vault | None = None) -> AsyncIterator[tuple[SignIn, Person]]:
    person = Person()
    credential = SignIn(server.url, AuthorizationCode(), vault or MemoryVault(), person)
    try:
        yield credential, person
    finally:
        await credential.aclose()


async def refused(credential: SignIn, person: Person) -> bool:
    """Show nothing, be refused, and sign in meanwhile."""
    async with asyncio.timeout(10):
        better, _ = await asyncio.gather(credential.renewed(401, CHALLENGE, {}), person.sign_in())
    return better


async def test_a_person_signs_in_with_pkce_and_the_token_is_shown_from_then_on() -> None:
    async with protected() as server, signing_in(server) as (credential, person):
        assert await credential.headers() == {}
        assert await refused(credential, person) is True
        assert await credential.headers() == {"Authorization": f"Bearer {server.idp.good[0]}"}
        assert person.pages[0][0] == 200
        assert "Signed in" in person.pages[0][1]
        (form,) = server.idp.forms
        assert form["grant_type"] == "authorization_code"
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/oauth/callback", form["redirect_uri"])
        assert form["resource"] == server.url
        assert server.idp.registered[0]["application_type"] == "native"


async def test_a_token_outlives_the_program_in_files_of_this_user_alone(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    async with protected() as server:
        async with signing_in(server, vault_of(environ)) as (credential, person):
            assert await refused(credential, person) is True
        async with signing_in(server, vault_of(environ)) as (again, _):
            assert await again.headers() == {"Authorization": f"Bearer {server.idp.good[0]}"}
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(files) >= 3
        for path in files:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert server.idp.good[0].encode() not in path.read_bytes()


async def test_a_token_that_is_refused_is_refreshed_without_anybody() -> None:
    async with protected() as server, signing_in(server) as (credential, person):
        await refused(credential, person)
        shown = await credential.headers()
        assert await credential.renewed(401, CHALLENGE, shown) is True
        assert server.idp.forms[-1]["grant_type"] == "refresh_token"
        assert await credential.headers() != shown
        assert person.shown.empty()


async def test_who_was_refused_with_an_older_token_just_tries_again() -> None:
    async with protected() as server, signing_in(server) as (credential, person):
        await refused(credential, person)
        assert await credential.renewed(401, CHALLENGE, {"Authorization": "Bearer older"}) is True
        assert len(server.idp.forms) == 1


async def test_registration_and_port_are_the_same_the_next_time() -> None:
    vault = MemoryVault()
    async with protected() as server:
        for _ in range(2):
            async with signing_in(server, vault) as (credential, person):
                server.idp.refuses = ""
                vault.store({}, server.url, "token", "")
                assert await refused(credential, person) is True
        assert len(server.idp.registered) == 1


async def test_nobody_who_signs_in_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signin, "PATIENCE", 0.05)
    async with protected() as server, signing_in(server) as (credential, person):
        async with asyncio.timeout(5):
            assert await credential.renewed(401, CHALLENGE, {}) is False
        assert not person.shown.empty()


async def test_a_page_with_another_state_or_from_another_browser_gives_nothing() -> None:
    async with protected() as server, signing_in(server) as (credential, person):
        waiting = asyncio.gather(credential.renewed(401, CHALLENGE, {}), return_exceptions=True)
        async with asyncio.timeout(5):
            url = URL(await person.shown.get())
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as other:
            for path, status in (("/oauth/callback?state=x&code=y", 400), ("/oauth/start?ticket=x", 400), ("/", 404)):
                async with other.get(url.origin().join(URL(path))) as reply:
                    assert reply.status == status
            async with other.get(url) as reply:
                assert reply.status == 400
                assert "another browser" in await reply.text()
            async with other.post(url, data=b"") as reply:
                assert reply.status == 404
        assert server.idp.forms == []
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


def test_a_page_is_opened_only_where_it_can_be_seen() -> None:
    assert shown_in_browser({"DISPLAY": ":0"})
    assert shown_in_browser({"WAYLAND_DISPLAY": "wayland-0"})


async def test_why_nobody_can_sign_in_is_told() -> None:
    async with protected() as server, signing_in(server) as (credential, person):
        server.idp.metadata = {"code_challenge_methods_supported": ["plain"]}
        assert await credential.renewed(401, CHALLENGE, {}) is False
        assert "does not support PKCE" in person.told[0]


@pytest.mark.parametrize(
    ("url", "inside"),
    [("http://127.0.0.1:1/mcp", True), ("https://10.1.2.3/mcp", False), ("https://8.8.8.8/mcp", None)],
)
async def test_an_authorization_server_may_be_no_further_in_than_its_endpoint(url: str, inside: bool | None) -> None:
    """S118."""
    found = await signin._near(url)
    assert ("127.0.0.0/8" in found, "10.0.0.0/8" in found) == (inside is True, inside is not None)
