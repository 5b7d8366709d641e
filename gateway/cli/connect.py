"""``connect URL``: a program for clients that can only start programs; behind it is an endpoint over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import ssl
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from gateway import __version__
from gateway.cli.hop import Credential, Key, NoCredential, read_key
from gateway.cli.output import Exit, Output
from gateway.cli.pipes import Lines, LineTooLong, Printer
from gateway.cli.relay import Relay
from gateway.cli.signin import SignIn, shown_in_browser, vault_of
from gateway.config.server_auth import AuthorizationCode
from gateway.config.types import is_loopback, split_http_url
from gateway.telemetry.logs import configure

_CONNECT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Destination:
    """Where to, and how it is made sure that it is there."""

    url: str
    tls: ssl.SSLContext | None


class Unfit(Exception):
    """The command line does not fit together; the text says why."""


def run(args: argparse.Namespace) -> int:
    """Relay until the client's input ends."""
    try:
        destination = _destination(args)
        credential = _credential(args, os.environ)
        if isinstance(credential, Key):
            _check_plain(args)
    except Unfit as error:
        Output.errors().line(f"connect: {error}")
        return Exit.UNKNOWN
    return asyncio.run(_connected(destination, credential))


async def _connected(destination: Destination, credential: Credential) -> int:
    current = asyncio.current_task()
    assert current is not None
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, current.cancel)
    # Streams wait for as long as nothing happens; only the way there has a bound.
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
    connector = aiohttp.TCPConnector(limit=0, ssl=destination.tls if destination.tls is not None else True)
    head = {"User-Agent": f"aiohttp-mcp-gateway/{__version__}", "Accept-Encoding": "identity"}
    lines = Lines()
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, headers=head, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    ) as http:
        relay = Relay(http, destination.url, credential, Printer().write)
        try:
            await lines.open()
            while (line := await lines.read()) is not None:
                await relay.take(line)
            await relay.finish()
        except LineTooLong:
            Output.errors().line("connect: a message is longer than can be read")
            return Exit.UNKNOWN
        except (BrokenPipeError, asyncio.CancelledError):
            # The client has gone, or asks for the end.
            current.uncancel()
        finally:
            await relay.aclose()
            await credential.aclose()
            lines.close()
    return Exit.FINE


def _destination(args: argparse.Namespace) -> Destination:
    url: str = args.url
    try:
        parts = split_http_url(url)
    except ValueError:
        raise Unfit("URL must be an http or https address") from None
    if "@" in parts.netloc:
        raise Unfit("a key in the URL would be seen by everybody on this machine: use --key-env or --key-file")
    tls = None
    if args.ca is not None:
        try:
            tls = ssl.create_default_context(cafile=args.ca)
        except (OSError, ssl.SSLError):
            raise Unfit(f"{args.ca} cannot be read as certificates") from None
    return Destination(url, tls)


def _credential(args: argparse.Namespace, environ: os._Environ[str]) -> Credential:
    if args.key_env:
        text = environ.get(args.key_env, "").strip()
        if not text:
            raise Unfit(f"the variable {args.key_env} is not set")
        return Key(text)
    if args.key_file is not None:
        path: Path = args.key_file
        try:
            if path.stat().st_mode & 0o077:
                raise Unfit(f"{path} may be read by others: chmod 600 it")
            return Key(read_key(path), path)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "holds no key"
            raise Unfit(f"{path}: {why}") from None
    if args.no_sign_in:
        return NoCredential()
    configure("console", "error")
    return SignIn(args.url, AuthorizationCode(client_id=args.client_id or ""), vault_of(environ), _Person())


class _Person:
    """Whoever sits in front of this machine: at a browser if there is one, and at standard error in any case."""

    def show(self, url: str) -> None:
        """Show the page to sign in."""
        Output.errors().line(f"connect: sign in at {url}")
        if shown_in_browser(os.environ):
            webbrowser.open(url)

    def tell(self, text: str) -> None:
        """Say why there is nothing to sign in at."""
        Output.errors().line(f"connect: {text}")


def _check_plain(args: argparse.Namespace) -> None:
    """Keep a credential off the network in the clear."""
    parts = urlsplit(args.url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or "") and not args.allow_http:
        raise Unfit("a credential would cross the network in the clear: use https, or say --allow-http")
