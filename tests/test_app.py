"""The process as a whole: what it refuses to run on, how it listens, and how it ends."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import pytest

from gateway.admin.operations import Act
from gateway.app import Addresses, Signals, check_parser, serve
from gateway.config.loader import load
from gateway.errors import ConfigError
from gateway.protocol.rawjson import Object
from gateway.reloading import Reloading
from tests.kit import wire
from tests.kit.certificates import make
from tests.kit.gateway import COMMAND, ROOT, Gateway, alive, descendants, eventually, serving

NOTES = {"command": sys.executable, "args": [str(ROOT / "demo" / "notes.py"), "--dataset", "d", "--file", "d.json"]}


def test_the_parser_in_python_is_refused() -> None:
    """S09."""
    code = "from gateway.app import check_parser; check_parser()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "AIOHTTP_NO_EXTENSIONS": "1"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    assert "without its C parser" in done.stderr


def test_an_old_aiohttp_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """S09."""
    monkeypatch.setattr(aiohttp, "__version__", "3.14.2")
    with pytest.raises(ConfigError, match="too old"):
        check_parser()
    monkeypatch.setattr(aiohttp, "__version__", "3.15.0a1")
    check_parser()


def test_a_taken_port_is_a_plain_problem(tmp_path: Path) -> None:
    with serving(tmp_path / "one", {}) as first:
        (tmp_path / "two").mkdir()
        second = Gateway(tmp_path / "two", {"listen": {"port": first.port}})
        done = second.cli("serve", "-c", second.file)
    assert done.returncode == 2
    assert f"127.0.0.1:{first.port} cannot be bound" in done.stderr
    assert "Traceback" not in done.stderr


ENDS = "mcp_gateway_certificate_expiry_timestamp_seconds "


async def test_tls_is_spoken_from_1_2_on(tmp_path: Path) -> None:
    authority = make("authority")
    server = make("server", authority)
    server.server_context(tmp_path)
    path = tmp_path / "gateway.yaml"
    tls = {"cert": "cert.pem", "key": "key.pem"}
    path.write_text(json.dumps({"listen": {"port": 0, "tls": tls}, "admin": {"port": 0}, "state": {"dir": "state"}}))
    told: asyncio.Queue[Addresses] = asyncio.Queue()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(serve(load(path, {}), told.put_nowait))
        addresses = await told.get()
        assert addresses.endpoint.startswith("https://127.0.0.1:")
        port = int(addresses.endpoint.split(":")[2].partition("/")[0])
        context = ssl.create_default_context(cafile=authority.write(tmp_path / "ca.pem"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % port)
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
        writer.close()
        await writer.wait_closed()
        page = await asyncio.to_thread(urllib.request.urlopen, f"{addresses.admin}/metrics", timeout=10)
        (ends,) = [line for line in page.read().decode().splitlines() if line.startswith(ENDS)]
        assert float(ends.removeprefix(ENDS)) == server.certificate.not_valid_after_utc.timestamp()
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_certificate_that_cannot_be_read_is_a_plain_problem(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, {"listen": {"tls": {"cert": "no.crt", "key": "no.key"}}})
    done = gateway.cli("serve", "-c", gateway.file)
    assert done.returncode == 2
    assert "listen.tls" in done.stderr


def test_the_token_made_for_operators_is_private_and_new_with_every_start(tmp_path: Path) -> None:
    """S189: and no child gets it."""
    seen = []
    for _ in range(2):
        with serving(tmp_path, {"servers": {"notes": NOTES}}) as gateway:
            file = tmp_path / "state" / "admin.token"
            assert file.stat().st_mode & 0o077 == 0
            token = file.read_text().strip()
            seen.append(hashlib.sha256(token.encode()).hexdigest())
            for pid in descendants(gateway.pid):
                assert token not in Path(f"/proc/{pid}/environ").read_text(errors="replace")
    assert len(set(seen)) == 2


def test_termination_ends_well_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """S186, G029."""
    with serving(tmp_path, {"servers": {"notes": NOTES}}) as gateway:
        gateway.await_servers("notes")
        below = descendants(gateway.pid)
        gateway.terminate()
        assert gateway.wait() == 0
        eventually(lambda: not any(alive(pid) for pid in below), "no child is left")
        assert said(gateway)[-2:] == ["gateway.draining", "gateway.stopped"]


async def test_a_gateway_that_lingers_serves_on_while_balancers_see_that_it_is_not_ready(tmp_path: Path) -> None:
    """S186: a second signal ends that too."""
    with serving(tmp_path, {"servers": {"notes": NOTES}, "listen": {"linger": "60s"}}) as gateway:
        await asyncio.to_thread(gateway.await_servers, "notes")
        async with wire.http_client(gateway.url, "modern") as client:
            gateway.terminate()
            await asyncio.to_thread(eventually, lambda: gateway.admin("/readyz")[0] == 503, "not ready")
            assert json.loads(gateway.admin("/status")[1])["reasons"] == ["draining"]
            assert (await wire.call(client, "notes__whoami")).status == 200
            assert gateway.metric("mcp_gateway_draining") == 0
        gateway.terminate()
        assert await asyncio.to_thread(gateway.wait) == 0


def test_a_second_signal_ends_at_once_and_still_leaves_nothing_behind(tmp_path: Path) -> None:
    """S187."""
    config = {"servers": {"notes": NOTES}, "listen": {"drain": "60s"}}
    with serving(tmp_path, config) as gateway:
        gateway.await_servers("notes")
        below = descendants(gateway.pid)
        gateway.terminate()
        gateway.terminate()
        assert gateway.wait() == 0
        eventually(lambda: not any(alive(pid) for pid in below), "no child is left")
        assert said(gateway)[-1] == "gateway.stopped"


def test_connections_over_the_cap_are_refused_on_the_loop_that_serves(tmp_path: Path) -> None:
    """S13: asked of the process, since event loops differ in what their transports are."""
    with serving(tmp_path, {"limits": {"connections": 2}}) as gateway, ExitStack() as stack:
        statuses = []
        for _ in range(3):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 5))
            client.sendall(b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % gateway.port)
            statuses.append(client.recv(12))
    assert statuses == [b"HTTP/1.1 404", b"HTTP/1.1 404", b"HTTP/1.1 503"]


@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGHUP, signal.SIGTERM]], ids=["stop", "reload"])
def test_signals_during_the_start_are_kept_for_its_end(tmp_path: Path, numbers: list[signal.Signals]) -> None:
    """S186: with servers that hang in their handshake; by itself either signal would kill the process."""
    scripted = str(ROOT / "tests" / "kit" / "stdio_server.py")
    hanging = {"command": sys.executable, "args": ["-I", "-S", scripted, "silent"]}
    gateway = Gateway(tmp_path, {"servers": {"hanging": hanging}})
    with gateway.log.open("wb") as log:
        command: list[str | Path] = [COMMAND, "serve", "-c", gateway.file]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=tmp_path)
    try:
        # Among the first things that are made once the loop runs.
        eventually((tmp_path / "state" / "sealing.key").exists, "the start has begun", 20)
        for number in numbers:
            process.send_signal(number)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait(5)
    text = gateway.log.read_text()
    assert "Traceback" not in text
    assert said(gateway)[-1] == "gateway.stopped"


def test_a_gateway_that_is_not_to_watch_reloads_only_when_it_is_told_to(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, {"limits": {"in_flight": 2}})
    gateway.options = ["--no-watch"]
    try:
        gateway.start()
        gateway.reload({"limits": {"in_flight": 3}})
        config = gateway.status()["config"]
        assert (config["watched"], config["last_load"]["cause"]) == (False, "signal")
        assert "reload        after a change of the config: kill -HUP" in gateway.log.read_text()
    finally:
        gateway.stop()
    assert [each["config"]["cause"] for each in gateway.records() if each["event"] == "config.loaded"] == ["signal"]


def said(gateway: Gateway) -> list[str]:
    """Return what the log says happened; that it is signed is no event."""
    return [record["event"] for record in gateway.records() if record["event"] != "audit.checkpoint"]


class Reloads(Reloading):
    """Counts the reloads, each of which takes until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.second, self.go_on = asyncio.Event(), asyncio.Event()

    async def reload(self, act: Act) -> Object:
        self.begun += 1
        if self.begun == 2:
            self.second.set()
        await self.go_on.wait()
        raise ConfigError([])


async def test_however_often_a_reload_is_wanted_while_one_goes_on_there_is_one_more() -> None:
    """Each may read megabytes, and writes a record."""
    signals, reloads = Signals(), Reloads()
    async with asyncio.timeout(5), signals.installed():
        signals.reload_on_hangup(reloads)
        for _ in range(20):
            os.kill(os.getpid(), signal.SIGHUP)
            while reloads.begun == 0:
                await asyncio.sleep(0)
        reloads.go_on.set()
        await reloads.second.wait()
        os.kill(os.getpid(), signal.SIGHUP)
        while reloads.begun < 3:
            await asyncio.sleep(0)
    assert reloads.begun == 3
