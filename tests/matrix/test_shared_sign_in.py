"""Two gateways that share a store and documents: people sign in at either, and what they grant both use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from tests.kit import valkey, wire
from tests.kit.documents import KEYS
from tests.kit.gateway import Gateway, Json, eventually
from tests.kit.oauth import LOOPBACK, Protected, protected

pytestmark = valkey.needed

KEY = "k" * 40
PUBLIC = "https://gw.example"
CALL: Json = {
    "name": "a__echo",
    "arguments": {"n": 1},
    "_meta": wire.modern_meta({"elicitation": {"form": {}, "url": {}}}),
}


@dataclass(frozen=True)
class Pair:
    """Two replicas and the protected server behind them."""

    one: Gateway
    two: Gateway
    server: Protected


@asynccontextmanager
async def pair(folder: Path, auth: Json) -> AsyncIterator[Pair]:
    with valkey.running() as store:
        async with protected() as server:
            config: Json = {
                "listen": {"public_url": f"{PUBLIC}/mcp", "allowed_hosts": ["gw.example", "127.0.0.1", "localhost"]},
                "servers": {"a": {"url": server.url, "allow_networks": LOOPBACK, "auth": {"authorization_code": auth}}},
                "clients": {"bot": {"key": KEY}},
                "state": {
                    "dir": "state",
                    "url": store.url,
                    "database": f"file://{folder / 'documents'}",
                    "sealing_keys": KEYS,
                },
            }
            gateways = []
            for name in ("one", "two"):
                (folder / name).mkdir()
                gateways.append(Gateway(folder / name, config))
            try:
                for each in gateways:
                    each.launch()
                for each in gateways:
                    await asyncio.to_thread(each.await_ready)
                yield Pair(gateways[0], gateways[1], server)
            finally:
                for each in gateways:
                    await asyncio.to_thread(each.stop)


def no_consent_wanted(gateway: Gateway) -> bool:
    return consent_wanted(gateway) == ""


async def signed_in(url: str, start: Gateway, back: Gateway) -> str:
    """Follow an address as a browser whose requests a balancer sends to one replica first and to another then."""

    def at(gateway: Gateway, address: str) -> str:
        parts = urlsplit(address)
        assert f"{parts.scheme}://{parts.netloc}" == PUBLIC
        return f"http://127.0.0.1:{gateway.port}{parts.path}?{parts.query}"

    # The cookie is for https alone, which the balancer speaks.
    timeout, nothing = aiohttp.ClientTimeout(total=5), aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=nothing) as browser:
        async with browser.get(at(start, url), allow_redirects=False) as left:
            assert left.status == 302
            away, cookie = left.headers["Location"], left.headers["Set-Cookie"].partition(";")[0]
        async with browser.get(away, allow_redirects=False) as granted:
            returned = granted.headers["Location"]
        async with browser.get(at(back, returned), headers={"Cookie": cookie}) as page:
            text = await page.text()
            assert page.status == 200, text
    return text


async def test_an_operator_consents_at_one_and_both_connect(tmp_path: Path) -> None:
    async with pair(tmp_path, {}) as both:
        one, two = both.one, both.two

        for each in (one, two):
            await asyncio.to_thread(eventually, partial(consent_wanted, each), "consent is asked for")
        # The address is the first one's, the browser leaves from the second, and comes back to it.

        async def consents() -> None:
            text = await signed_in(await asyncio.to_thread(consent_wanted, one), two, two)
            assert "Signed in" in text

        await patiently(both, consents)
        for each in (one, two):
            await asyncio.to_thread(each.await_servers, "a")
            gone = partial(no_consent_wanted, each)
            await asyncio.to_thread(eventually, gone, "nobody is asked any more")
        assert [form["grant_type"] for form in both.server.idp.forms] == ["authorization_code"]
        assert len(both.server.idp.registered) == 1, "they are one client"
        assert len(set(both.server.sent) - {""}) == 1, "both send the same token"


async def test_a_principal_signs_in_with_page_and_code_at_different_replicas(tmp_path: Path) -> None:
    async with pair(tmp_path, {"per": "principal"}) as both:
        await asyncio.to_thread(eventually, partial(consent_wanted, both.one), "consent is asked for")
        await patiently(both, partial(operator_consents, both))
        for each in (both.one, both.two):
            await asyncio.to_thread(each.await_servers, "a")
        await patiently(both, partial(principal_signs_in, both))
        async with (
            wire.http_client(both.one.url, "modern", KEY) as first,
            wire.http_client(both.two.url, "modern", KEY) as second,
        ):
            for client in (first, second):
                assert "isError" not in (await client.request("tools/call", CALL)).result
        assert {form["grant_type"] for form in both.server.idp.forms} == {"authorization_code"}


async def patiently(both: Pair, sign_in: Callable[[], Awaitable[None]]) -> None:
    """Sign in; where the store was too slow for a replica meanwhile, as on a busy machine, start again as people do."""

    def outages() -> int:
        return sum(each.log.read_text().count("store_degraded") for each in (both.one, both.two))

    for _ in range(5):
        before = outages()
        try:
            await sign_in()
            break
        except (AssertionError, KeyError):
            if outages() == before:
                raise
            for each in (both.one, both.two):
                await asyncio.to_thread(eventually, partial(has_store, each), "the store is back")


def has_store(gateway: Gateway) -> bool:
    return bool(gateway.status()["store"]["state"] == "up")


async def operator_consents(both: Pair) -> None:
    await signed_in(await asyncio.to_thread(consent_wanted, both.one), both.one, both.two)


async def principal_signs_in(both: Pair) -> None:
    """Call at one, open the page at two, come back to one, say so at two, and give the code at one."""
    async with (
        wire.http_client(both.one.url, "modern", KEY) as first,
        wire.http_client(both.two.url, "modern", KEY) as second,
    ):
        asked = (await first.request("tools/call", CALL)).result
        [(name, question)] = asked["inputRequests"].items()
        page = await signed_in(question["params"]["url"], both.two, both.one)
        answers: Json = {name: {"action": "accept"}}
        again = {**CALL, "inputResponses": answers, "requestState": asked["requestState"]}
        asked = (await second.request("tools/call", again)).result
        [(name, question)] = asked["inputRequests"].items()
        [word] = question["params"]["requestedSchema"]["required"]
        code = page.partition("<strong>")[2].partition("</strong>")[0]
        answers = {name: {"action": "accept", "content": {word: code}}}
        again = {**CALL, "inputResponses": answers, "requestState": asked["requestState"]}
        done = (await first.request("tools/call", again)).result
        assert "isError" not in done, done
        assert done["structuredContent"] == {"n": 1}


def consent_wanted(gateway: Gateway) -> str:
    """Return where an operator can consent, "" where that is not needed."""
    return str(gateway.status()["servers"]["a"].get("consent_url") or "")
