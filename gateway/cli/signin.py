"""Signs ``connect`` in at an endpoint that wants a person's token: a page in the browser, and back to this machine.

The flow is that of the gateway's own sign-ins to servers (``downstream.oauth``): discovery, registration, PKCE, one
renewal for all who wait, step-up. Tokens are kept sealed, in files that this user alone can read.
"""

from __future__ import annotations

import asyncio
import errno
import html
import ipaddress
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import parse_qsl, urlsplit

from gateway.config.server_auth import AuthorizationCode, ServerAuth
from gateway.config.servers import Server
from gateway.downstream.authorizer import Refusal
from gateway.downstream.oauth.bearer import Bearer, Terms
from gateway.downstream.oauth.consents import CALLBACK_PATH, LIFETIME, START_PATH, Arrival, Consents
from gateway.downstream.oauth.discovery import Discovery
from gateway.downstream.oauth.errors import ConsentNeeded, NoToken
from gateway.downstream.oauth.fetch import Fetcher
from gateway.downstream.oauth.metadata import canonical
from gateway.downstream.oauth.registration import Registry
from gateway.downstream.oauth.sources import Consented
from gateway.downstream.oauth.vault import SealedVault, Vault
from gateway.state.files import read_or_create_key, secure_directory
from gateway.state.folder import FolderDocuments
from gateway.state.sealing import Sealer
from gateway.tasks import TaskSet

PATIENCE: Final = 300.0
"""Seconds in which a person may sign in."""
_PRIVATE: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
_LOOPBACK: Final = ("127.0.0.0/8", "::1/128")
MAX_HEAD: Final = 16 * 1024
_HEAD_SECONDS: Final = 10.0
_WRITING_SECONDS: Final = 2.0
_COOKIE: Final = "mcp_gateway_connect"
_KEY_BYTES: Final = 32
_STALE: Final = Arrival(False, "This link is unknown or too old. Ask your client to connect again.")
_PAGE: Final = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>MCP gateway</title></head>
<body><h1>{title}</h1><p>{text}</p><p>You can close this page.</p></body></html>
"""


def vault_of(environ: Mapping[str, str]) -> Vault:
    """Return where tokens are kept: the user's state folder.

    Raises:
        ConfigError: the folder or its key cannot be used.
    """
    base = Path(environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".local" / "state")
    base.mkdir(parents=True, exist_ok=True)
    folder = secure_directory(secure_directory(base / "mcp-gateway") / "connect")
    sealer = Sealer([read_or_create_key(folder / "sealing.key", _KEY_BYTES)])
    return SealedVault(FolderDocuments(folder), sealer, prefix="")


class Person(Protocol):
    """Somebody in front of this machine."""

    def show(self, url: str) -> None:
        """Show the page to sign in."""

    def tell(self, text: str) -> None:
        """Say why there is nothing to sign in at."""


class SignIn:
    """The credential of one endpoint. ``person`` is who can sign in."""

    def __init__(self, url: str, way: AuthorizationCode, vault: Vault, person: Person) -> None:
        self._url, self._name = url, canonical(url)
        self._way, self._vault, self._person = way, vault, person
        self._tasks = TaskSet(lambda _, error: None)
        self._consents = Consents()
        self._granted = asyncio.Event()
        self._asking = asyncio.Lock()
        self._listener: asyncio.Server | None = None
        self._bearer: Bearer | None = None

    async def headers(self) -> dict[str, str]:
        """Return the token, renewed where it is about to end; nothing where nobody has signed in yet."""
        bearer = self._bearer or await self._made()
        try:
            return dict(await bearer.headers())
        except NoToken:
            return {}

    async def renewed(self, status: int, challenges: Sequence[str], shown: Mapping[str, str]) -> bool:
        """Get a better token than the one that was refused; asks a person where that is needed."""
        async with self._asking:
            if await self.headers() != shown:
                return True
            refusal = Refusal(status, shown, tuple(challenges))
            bearer = self._bearer or await self._made()
            try:
                return await bearer.refused(refusal)
            except ConsentNeeded as needed:
                return await self._signed_in(needed.ticket)
            except NoToken as error:
                self._person.tell(error.message)
                return False

    async def aclose(self) -> None:
        """Stop listening for browsers."""
        if self._listener is not None:
            self._listener.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_WRITING_SECONDS):
                # What was granted a moment ago may still have to be written.
                await self._tasks.settled()
        await self._tasks.aclose()

    async def _made(self) -> Bearer:
        """Make the bearer for the port that registrations know, or for one that is free now."""
        kept = (await asyncio.to_thread(self._vault.load, self._name, "port")).get("port")
        port = kept if isinstance(kept, int) and 0 < kept < 65536 else await self._listen(0)
        if port != kept:
            await asyncio.to_thread(self._vault.store, {"port": port}, self._name, "port")
        auth = ServerAuth(authorization_code=self._way)
        server = Server.model_validate({"url": self._url, "allow_networks": await _near(self._url), "auth": auth})
        fetcher = Fetcher(self._name, server)
        terms = Terms(self._name, "", (), Discovery(self._name, server, fetcher), self._vault, self._tasks)
        bearer = Bearer(terms)
        redirect = f"http://127.0.0.1:{port}{CALLBACK_PATH}"
        registry = Registry(self._name, self._way, redirect, fetcher, self._vault)
        bearer.source = Consented(self._name, self._way, registry, self._consents, "", bearer.receive)
        bearer.on_granted = self._granted.set
        self._bearer = bearer
        return bearer

    async def _signed_in(self, ticket: str) -> bool:
        """Show the page and wait until somebody has been there."""
        url = self._consents.url(ticket)
        if not url:
            return False
        if self._listener is None:
            try:
                await self._listen(urlsplit(url).port or 0)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                # Another program has the port: the next attempt registers anew, with another one.
                await asyncio.to_thread(self._vault.store, {}, self._name, "port")
                self._bearer = None
                return False
        self._granted.clear()
        self._person.show(url)
        try:
            async with asyncio.timeout(PATIENCE):
                await self._granted.wait()
        except TimeoutError:
            return False
        return True

    async def _listen(self, port: int) -> int:
        self._listener = await asyncio.start_server(self._visited, "127.0.0.1", port, limit=MAX_HEAD)
        found: int = self._listener.sockets[0].getsockname()[1]
        return found

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a browser; whatever it is, the connection ends with it."""
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            writer.write((await self._answer(head)).encode())
            await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, TimeoutError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: str) -> str:
        first, *lines = head.split("\r\n")
        method, _, rest = first.partition(" ")
        path, _, text = rest.partition(" ")[0].partition("?")
        pairs = parse_qsl(text, keep_blank_values=True)
        query = dict(pairs) if len(dict(pairs)) == len(pairs) else {}
        if method != "GET" or path not in (START_PATH, CALLBACK_PATH):
            return _response("404 Not Found", "", "")
        if path == CALLBACK_PATH:
            return _page(await self._consents.complete(query, _cookies(lines)))
        departure = await self._consents.begin(query.get("ticket", ""))
        if departure is None:
            return _page(_STALE)
        cookie = f"{_COOKIE}={departure.cookie}; Max-Age={int(LIFETIME)}; Path=/oauth/; HttpOnly; SameSite=Lax"
        return _response("302 Found", f"Location: {departure.url}\r\nSet-Cookie: {cookie}\r\n", "")


async def _near(url: str) -> list[str]:
    """Return where the endpoint's authorization server may be besides public addresses: no further in than itself.

    What an endpoint in the Internet names must not lead into a private network (security_best_practices §SSRF); one
    that is in there itself has its authorization server there as well.
    """
    parts = urlsplit(url)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, parts.port or 443)
    except OSError:
        return []
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    if any(address.is_loopback for address in addresses):
        return [*_LOOPBACK, *_PRIVATE]
    return list(_PRIVATE) if any(address.is_private for address in addresses) else []


def _cookies(lines: Sequence[str]) -> tuple[str, ...]:
    values = [line.partition(":")[2] for line in lines if line.lower().startswith("cookie:")]
    pairs = [part.strip().partition("=") for value in values for part in value.split(";")]
    return tuple(value for name, _, value in pairs if name == _COOKIE)[:8]


def _page(arrival: Arrival) -> str:
    title = "Signed in" if arrival.ok else "Not signed in"
    status = "200 OK" if arrival.ok else "400 Bad Request"
    return _response(status, "", _PAGE.format(title=title, text=html.escape(arrival.text)))


def _response(status: str, head: str, body: str) -> str:
    return (
        f"HTTP/1.1 {status}\r\n{head}Content-Type: text/html; charset=utf-8\r\nContent-Length: {len(body.encode())}\r\n"
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n"
        f"Content-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n{body}"
    )


def shown_in_browser(environ: Mapping[str, str]) -> bool:
    """Tell whether there is a browser to open a page in: not without a display, where that is what shows one."""
    return os.name != "posix" or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")) or _is_mac()


def _is_mac() -> bool:
    return os.uname().sysname == "Darwin"
