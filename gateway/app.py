"""The process: two listeners around one runtime, signals, and an orderly end in bounded time."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import signal
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import http_parser, web

from gateway.admin.access import Access
from gateway.admin.pages.site import Site
from gateway.admin.pages.visit import Gateway
from gateway.admin.server import AdminServer
from gateway.admin.session import Sessions
from gateway.config.root import AdminUser, Listen, LoadedConfig
from gateway.config.watch import Watch
from gateway.dashboard import Dashboard
from gateway.endpoint import tls
from gateway.endpoint.connection import Bounds, Report, Server
from gateway.endpoint.server import Endpoint
from gateway.errors import ConfigError, Problem
from gateway.operations import Operator
from gateway.privacy import conceal
from gateway.reloading import SIGNALLED, Reloading, restless
from gateway.runtime import Runtime
from gateway.state.files import ADMIN_TOKEN_FILE, write_atomic
from gateway.tasks import TaskSet
from gateway.telemetry.logs import configure, get_logger, on_crash

_log = get_logger("app")

MIN_AIOHTTP: Final = (3, 14, 3)
_CUT_SECONDS: Final = 2.0
"""How long aiohttp may take to close connections after everything of ours has ended."""
_ADMIN_BOUNDS: Final = Bounds(total=256, per_source=None)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the gateway listens, once it does. ``admin_token_file`` is empty where users are configured."""

    endpoint: str
    admin: str
    admin_token_file: str


Announce = Callable[[Addresses], None]


def check_parser() -> None:
    """Refuse an aiohttp whose HTTP parser is known to be unsafe (S09).

    Raises:
        ConfigError: older than 3.14.3, or running on the parser in Python.
    """
    found = tuple(int(part) for part in aiohttp.__version__.split(".")[:3] if part.isdigit())
    if found < MIN_AIOHTTP:
        wanted = ".".join(map(str, MIN_AIOHTTP))
        raise ConfigError([Problem(f"aiohttp {aiohttp.__version__} is too old", hint=f"install {wanted} or newer")])
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        hint = "unset AIOHTTP_NO_EXTENSIONS, or install a wheel for this platform"
        raise ConfigError([Problem("aiohttp runs without its C parser", hint=hint)])


async def serve(loaded: LoadedConfig, announce: Announce, *, watch: bool = True) -> None:
    """Serve until SIGTERM or SIGINT, then drain. SIGHUP reads the config again, and so does a change of its files.

    Without ``watch`` files may change and nothing happens.

    Raises:
        ConfigError: something cannot be used: a directory, a key, an address.
    """
    check_parser()
    conceal()
    signals = Signals()
    async with AsyncExitStack() as stack:
        # Outermost, so that neither an early signal nor a second one during the end cuts anything short.
        await stack.enter_async_context(signals.installed())
        runtime = Runtime(loaded)
        runtime.reloads(lambda: _configure_logs(runtime))
        stack.push_async_callback(runtime.aclose)
        await runtime.start()
        endpoint = Endpoint(runtime)
        stack.push_async_callback(endpoint.aclose)
        url = await stack.enter_async_context(_endpoint_listener(loaded, endpoint, runtime))
        operator = Operator(runtime, url)
        pages = Gateway(operator, Dashboard(runtime, operator.brief))

        def refused(reason: str) -> None:
            runtime.metrics.http_rejected_total.inc(reason=reason)

        admin_url, token_file = await stack.enter_async_context(_admin_listener(runtime, pages, refused))
        signals.reload_on_hangup(runtime.reloading)
        if watch:
            signals.reload_on_change(runtime.reloading)
        announce(Addresses(url, admin_url, token_file))
        _log.info("serving", endpoint=url, admin=admin_url, pid=os.getpid())
        await signals.stop.wait()
        runtime.leaving = True
        await signals.told_now(loaded.config.listen.linger)
        runtime.begin_drain()
        _log.info("draining", seconds=loaded.config.listen.drain)
        await _drain(endpoint, runtime, signals)
    _log.info("stopped")


def _configure_logs(runtime: Runtime) -> None:
    telemetry = runtime.current().config.telemetry
    configure(telemetry.log_format, telemetry.log_level)


async def _drain(endpoint: Endpoint, runtime: Runtime, signals: Signals) -> None:
    """Let calls finish, those that wait here for clients of other replicas too; a second signal ends the wait."""
    tasks = TaskSet(on_crash(_log))
    drained = tasks.start(_drained(endpoint, runtime), "drain")
    now = tasks.start(_wait(signals.now), "second signal")
    await asyncio.wait((drained, now), return_when=asyncio.FIRST_COMPLETED)
    await tasks.aclose()


async def _drained(endpoint: Endpoint, runtime: Runtime) -> None:
    seconds = runtime.current().config.listen.drain
    await asyncio.gather(endpoint.drain(), runtime.neighbours.drain(seconds))


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


class Signals:
    """What the process was told: ``stop`` once, ``now`` for the second time, and reloads.

    Handled from the first moment of the loop on, since what they do by themselves is to kill the process.
    """

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.now = asyncio.Event()
        self._tasks = TaskSet(on_crash(_log))
        self._reloading: Reloading | None = None
        self._reload_wanted = self._reloads = False
        self._watch: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def installed(self) -> AsyncIterator[None]:
        """Handle signals while the block runs."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ended)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)
            await self._tasks.aclose()

    async def told_now(self, seconds: float) -> None:
        """Wait so long, or until told for the second time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.now.wait()

    def _ended(self) -> None:
        if self.stop.is_set():
            self.now.set()
        self.stop.set()
        if self._watch is not None:
            self._watch.cancel()

    def reload_on_hangup(self, reloading: Reloading) -> None:
        """Have it reload from now on; at once where a reload was asked for during the start."""
        self._reloading = reloading
        if self._reload_wanted:
            self._reload()

    def reload_on_change(self, reloading: Reloading) -> None:
        """Have it reload whenever a file of the config changes, until the process is told to end."""
        self._watch = self._tasks.start(reloading.follow(Watch(reloading.sources, restless)), "config watch")

    def _reload(self) -> None:
        self._reload_wanted = True
        if self._reloading is not None and not self._reloads and not self.stop.is_set():
            self._reloads = True
            self._tasks.start(self._reload_on(self._reloading), "reload")

    async def _reload_on(self, reloading: Reloading) -> None:
        """Reload, and once more for all the signals that came while that went on."""
        try:
            while self._reload_wanted and not self.stop.is_set():
                self._reload_wanted = False
                # A refusal has been told where everybody looks for it.
                with suppress(ConfigError):
                    await reloading.reload(SIGNALLED)
        finally:
            self._reloads = False


@asynccontextmanager
async def _endpoint_listener(loaded: LoadedConfig, endpoint: Endpoint, runtime: Runtime) -> AsyncIterator[str]:
    """Listen for clients; yields the URL. New connections are refused as soon as the block ends."""
    listen = loaded.config.listen
    secured = _secured(listen, runtime)
    runner = web.ServerRunner(endpoint.server, shutdown_timeout=_CUT_SECONDS)
    await runner.setup()
    try:
        await _listen(runner, listen.host, listen.port, "listen", secured)
        scheme = "https" if listen.tls else "http"
        yield f"{scheme}://{_address(runner, listen.host)}{listen.path}"
    finally:
        await runner.cleanup()


def _secured(listen: Listen, runtime: Runtime) -> ssl.SSLContext | None:
    """Make the TLS context of the endpoint, whose certificates each reload reads again."""
    first = tls.context(listen, runtime.certificate_refused)
    if first is None:
        return None
    renewable, ends = tls.Renewable.of(first), runtime.metrics.certificate_expiry_timestamp_seconds
    ends.set(tls.expires(listen))

    def prepare(wanted: LoadedConfig) -> Callable[[], None]:
        made, until = tls.context(wanted.config.listen, runtime.certificate_refused), tls.expires(wanted.config.listen)

        def commit() -> None:
            renewable.renew(made or first)
            ends.set(until)

        return commit

    runtime.reloading.prepares(prepare)
    return renewable


@asynccontextmanager
async def _admin_listener(runtime: Runtime, gateway: Gateway, report: Report) -> AsyncIterator[tuple[str, str]]:
    """Listen for operators; yields the URL and the file of the token made for them, if one was.

    Connections are those of the endpoint: bounded, and with error pages that echo nothing (S17).
    """
    config = runtime.current().config
    admin = config.admin
    users, token_file = dict(admin.users), ""
    if not users:
        token_file, users = _make_token(Path(config.state.dir))
    access = Access(admin.host, users, admin.metrics_token.get_secret_value())
    pages = Site(gateway, access, Sessions(users, runtime.store, runtime.sealer))
    server = Server(AdminServer(gateway.operations, access, pages.handle).handle, _ADMIN_BOUNDS, report)
    runner = web.ServerRunner(server, shutdown_timeout=_CUT_SECONDS)
    await runner.setup()
    try:
        await _listen(runner, admin.host, admin.port, "admin", None)
        yield f"http://{_address(runner, admin.host)}", token_file
    finally:
        await runner.cleanup()


async def _listen(runner: web.BaseRunner, host: str, port: int, section: str, secured: ssl.SSLContext | None) -> None:
    try:
        await web.TCPSite(runner, host, port, ssl_context=secured).start()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "cannot be used"
        hint = "another gateway may be running: end it, or change the port"
        problem = Problem(f"{host}:{port} cannot be bound: {reason}", path=f"{section}.port", hint=hint)
        raise ConfigError([problem]) from None


def _address(runner: web.BaseRunner, host: str) -> str:
    """Return host and the port really bound."""
    port = runner.addresses[0][1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _make_token(state: Path) -> tuple[str, dict[str, AdminUser]]:
    """Make the token of an installation without users; only who can read ``state.dir`` has it."""
    token = secrets.token_urlsafe(32)
    path = state / ADMIN_TOKEN_FILE
    write_atomic(path, token.encode() + b"\n")
    digest = hashlib.sha256(token.encode()).hexdigest()
    return str(path), {"admin": AdminUser(token_sha256=digest, roles=["view", "approve", "pins", "reload"])}
