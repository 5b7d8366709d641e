"""Builds every variant of the image without an engine, and runs each as one would (``make image-steps``).

Needs root on a Debian with ``mmdebstrap``, and minutes. What is emulated is said in ``rootfs``. Prints a line for
each step and for each thing that was seen, and ends at the first that was not so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from gateway import __version__
from tests.environments import prepare
from tests.image.container import Container, Start, running
from tests.image.recipe import Settings, read, settings
from tests.image.rootfs import Bases, Builder, index_settings
from tests.kit.chart import CHART, manifests
from tests.kit.gateway import free_port
from tests.kit.sbom import fault, node_packages

Json: TypeAlias = dict[str, Any]

VARIANTS: Final = ("runtime", "node", "uv", "full")
READY_SECONDS: Final = 60.0
SERVER_SECONDS: Final = 240.0
_TOKEN: Final = "a-token-of-the-image-steps"
_NPX: Final = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything@2026.8.31"]}
_UVX: Final = {"command": "uvx", "args": ["mcp-server-time@2026.10.19", "--local-timezone", "UTC"]}
_SERVERS: Final[dict[str, dict[str, Json]]] = {
    "node": {"everything": _NPX},
    "uv": {"time": _UVX},
    "full": {"everything": _NPX, "time": _UVX},
}
_CALLS: Final = {
    "everything": ("everything/echo", '{"message": "from the image"}', "Echo: from the image"),
    "time": ("time/convert_time", '{"source_timezone":"UTC","time":"12:00","target_timezone":"Asia/Tokyo"}', "21:00"),
}


class NotSo(Exception):
    """Something was not as it should be."""


def seen(truth: object, what: str, detail: str = "") -> None:
    """Say that something was seen.

    Raises:
        NotSo: it was not.
    """
    if not truth:
        raise NotSo(f"not so: {what}\n{detail}")
    sys.stdout.write(f"  seen  {what}\n")
    sys.stdout.flush()


def _await(ask: Callable[[], object], container: Container, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and container.running():
        if ask():
            return True
        time.sleep(0.2)
    return False


@dataclass(frozen=True, slots=True)
class Trial:
    """One variant that was built, and where the trial keeps its files."""

    name: str
    root: Path
    settings: Settings
    folder: Path

    def write(self, config: Json) -> Path:
        """Write the folder that becomes /etc/mcp-gateway."""
        folder = self.folder / f"{self.name}-config"
        folder.mkdir()
        (folder / "gateway.yaml").write_text(yaml.safe_dump(config))
        for path in (folder, folder / "gateway.yaml"):
            path.chmod(0o755)
        return folder


def chart_config() -> tuple[Json, tuple[str, ...]]:
    """Return the config and the arguments that the chart gives the container with its smallest values."""
    values = CHART / "ci" / "minimal-values.yaml"
    admin = {"users": {"alice": {"token_sha256": hashlib.sha256(_TOKEN.encode()).hexdigest()}}}
    found = manifests("helm", values, {"fullnameOverride": "gw", "config": {"admin": admin}})
    config: Json = yaml.safe_load(found["ConfigMap/gw"]["data"]["gateway.yaml"])
    container = found["StatefulSet/gw"]["spec"]["template"]["spec"]["containers"][0]
    return config, tuple(container["args"])


def try_runtime(trial: Trial) -> None:
    """Run the plain image with the chart's config, on the chart's ports, cut off from every network."""
    config, command = chart_config()
    environment = {**trial.settings.env, "CI_BOT_KEY": "k" * 43}
    start = Start(
        trial.root, replace(trial.settings, env=environment), {trial.write(config): "/etc/mcp-gateway"}, command
    )
    with running(start, trial.folder / "runtime.log") as container:
        log, began = trial.folder / "runtime.log", time.monotonic()
        ready = _await(
            lambda: container.exec("mcp-gateway", "health", "--ready").returncode == 0, container, READY_SECONDS
        )
        words, took = " ".join(start.settings.entrypoint + command), time.monotonic() - began
        seen(ready, f"{words} is ready with the chart's config, {took:.1f} s later", log.read_text())
        _look_inside(container, trial)
        check = container.exec(*trial.settings.healthcheck)
        seen(check.returncode == 0, f"HEALTHCHECK {' '.join(trial.settings.healthcheck)} ends with 0", check.stderr)
        status = container.exec("mcp-gateway", "status", "--json", MCP_GATEWAY_ADMIN_TOKEN=_TOKEN)
        seen(json.loads(status.stdout)["ready"] is True, "status, from the image's working directory", status.stderr)
        probe = {
            "READY_URL": "http://127.0.0.1:9090/readyz",
            "MCP_URL": "http://127.0.0.1:8080/mcp",
            "MCP_HOST": "mcp.example.com",
        }
        done = container.exec("python", "-c", (CHART / "files" / "access.py").read_text(), **probe)
        seen(done.returncode == 0, "what `helm test` asks is answered as it should be", done.stdout + done.stderr)
        began = time.monotonic()
        code = container.stop()
        seen(
            code == 0,
            f"{trial.settings.stop_signal} ends it with 0 in {time.monotonic() - began:.1f} s",
            log.read_text(),
        )


def _look_inside(container: Container, trial: Trial) -> None:
    status = container.status()
    uid, gid = trial.settings.user.split(":")
    seen(set(status["Uid"].split()) == {uid} and set(status["Gid"].split()) == {gid}, f"it runs as {uid}:{gid}")
    capabilities = [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]
    seen(not any(int(each, 16) for each in capabilities), "it has no capability and can get none")
    seen(status["NoNewPrivs"] == "1" and status["Name"] == "tini", "process 1 is tini, without new privileges")
    for place in ("/x", "/opt/gateway/x", "/etc/mcp-gateway/x", "/usr/local/bin/x"):
        refused = container.exec("touch", place).stderr
        seen(
            "Read-only file system" in refused or "Permission denied" in refused, f"{place} cannot be written", refused
        )
    for place in ("/var/lib/mcp-gateway", "/var/cache/mcp-gateway", "/tmp"):
        seen(container.exec("touch", f"{place}/x").returncode == 0, f"{place} can be written")
    container.exec("/bin/sh", "-c", "(sleep 0.1 &)")
    zombies = "! grep -qs '^State:.Z' /proc/[0-9]*/status"
    seen(_await(lambda: container.exec("/bin/sh", "-c", zombies).returncode == 0, container, 10), "an orphan is reaped")


def try_servers(trial: Trial) -> None:
    """Run a variant with servers that ``npx`` and ``uvx`` fetch, and call each."""
    outside = {name: value for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS") if (value := os.environ.get(name))}
    servers = {
        name: {**server, "env": {**index_settings(), **outside}, "timeouts": {"start": "180s"}}
        for name, server in _SERVERS[trial.name].items()
    }
    config: Json = {
        "listen": {"port": free_port()},
        "admin": {"port": free_port()},
        "servers": servers,
        "state": {"dir": "/var/lib/mcp-gateway/state"},
        "audit": {"dir": "/var/lib/mcp-gateway/audit"},
    }
    log = trial.folder / f"{trial.name}.log"
    start = Start(trial.root, trial.settings, {trial.write(config): "/etc/mcp-gateway"}, network=True)
    with running(start, log) as container:

        def up() -> bool:
            status = container.exec("mcp-gateway", "status", "--json")
            if not status.stdout.startswith("{"):
                return False
            return all(
                each["state"] == "up" and each["tools"] for each in json.loads(status.stdout)["servers"].values()
            )

        arrived = _await(up, container, SERVER_SECONDS)
        for name, server in _SERVERS[trial.name].items():
            words = f"{server['command']} {' '.join(server['args'])}"
            seen(arrived, f"{words} is up on a read-only root", log.read_text()[-4000:])
            tool, arguments, answer = _CALLS[name]
            done = container.exec("mcp-gateway", "call", tool, arguments, "--as", "anonymous")
            seen(answer in done.stdout, f"{tool} answers {answer!r}", done.stdout + done.stderr)
        cached = container.exec(
            "/bin/sh", "-c", "ls -A /var/cache/mcp-gateway; ls -A /var/lib/mcp-gateway"
        ).stdout.split()
        seen({"state", "audit"} <= set(cached), f"packages and state are on their volumes: {' '.join(cached)}")
        check = container.exec(*trial.settings.healthcheck)
        seen(check.returncode == 0, "HEALTHCHECK ends with 0", check.stderr)
        code = container.stop()
        seen(code == 0, f"{trial.settings.stop_signal} ends it with 0", log.read_text()[-4000:])


def look_at(root: Path) -> None:
    """Judge what was built, without running it."""
    sbom = root / "usr/share/sbom/mcp-gateway.cdx.json"
    seen(not (wrong := fault(sbom)), "the bill of materials is CycloneDX by its schema", wrong)
    listed = json.loads(sbom.read_text())
    names = {component["name"] for component in listed["components"]}
    version = listed["metadata"]["component"].get("version")
    seen({"aiohttp", "cryptography", "redis", "asyncpg"} <= names, f"it lists {len(names)} packages")
    named = listed["metadata"]["component"]["name"]
    seen((named, version) == ("aiohttp-mcp-gateway", __version__), f"it is about aiohttp-mcp-gateway {version}")
    python = root / "usr/share/sbom/python.cdx.json"
    seen(not (wrong := fault(python)), "Python has a bill of materials of its own", wrong)
    itself = json.loads(python.read_text())["components"][0]
    seen(itself["name"] == "cpython", f"it lists Python {itself['version']}")
    if (root / "usr/local/bin/uvx").exists():
        wrong = fault(root / "usr/share/sbom/uv.cdx.json")
        seen(not wrong, "uv has a bill of materials of its own", wrong)
    if (root / "usr/local/bin/npx").exists():
        _look_at_node(root)
    installed = root / "opt/gateway/lib"
    seen(not list(installed.glob("python*/site-packages/pip")), "there is no pip beside what runs")
    compiled = list(installed.glob("python*/site-packages/gateway/**/*.pyc"))
    seen(len(compiled) > 100, f"{len(compiled)} modules of the gateway are compiled")
    odd = subprocess.run(
        ["find", root, "-xdev", "-type", "f", "-perm", "/6000", "-path", "*/opt/*"],
        capture_output=True,
        text=True,
        check=True,
    )
    seen(not odd.stdout, "nothing in /opt has another's rights", odd.stdout)
    weight = subprocess.run(
        ["du", "-sm", root / "opt/gateway"], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    seen(True, f"/opt/gateway weighs {weight} MB")


def _look_at_node(root: Path) -> None:
    sbom = root / "usr/share/sbom/node.cdx.json"
    seen(not (wrong := fault(sbom)), "Node has a bill of materials of its own", wrong)
    listed = {(each["name"], each["version"]) for each in json.loads(sbom.read_text())["components"]}
    found = node_packages(root / "usr/local/lib/node_modules")
    seen("npm" in dict(found) and found <= listed, f"it lists npm and the {len(found) - 1} packages that it brings")
    seen({"node", "openssl", "v8"} <= {name for name, _ in listed}, "it lists Node and what Node was built with")


def build_and_try(builder: Builder, folder: Path, names: tuple[str, ...]) -> None:
    """Build and try the variants, one after the other."""
    builder.bases.folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        began = time.monotonic()
        sys.stdout.write(f"{name}\n")
        root = builder.build(name)
        sys.stdout.write(f"  built in {time.monotonic() - began:.0f} s\n")
        trial = Trial(name, root, settings(builder.recipe, name), folder)
        trial.settings.env.setdefault("LANG", "C.UTF-8")
        look_at(root)
        (try_servers if name in _SERVERS else try_runtime)(trial)


def main() -> int:
    """Build and try what the command line names, everything without one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="folder for what is built; stages that are there are not built again")
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help=f"of {', '.join(VARIANTS)}; default: all")
    options = parser.parse_args()
    names = tuple(options.variants) or VARIANTS
    if set(names) - set(VARIANTS):
        parser.error(f"choose from {', '.join(VARIANTS)}")
    needed = [tool for tool in ("mmdebstrap", "unshare", "nsenter", "setpriv", "ip") if not shutil.which(tool)]
    if os.geteuid() != 0 or needed:
        sys.stdout.write(
            f"needs root on a Debian with mmdebstrap{': missing ' + ', '.join(needed) if needed else ''}\n"
        )
        return 2
    for name in ("image", "helm"):
        prepare.make(name)
    with tempfile.TemporaryDirectory(prefix="image-steps-", ignore_cleanup_errors=True) as scratch:
        Path(scratch).chmod(0o755)
        stages = options.keep or Path(scratch) / "stages"
        stages.mkdir(parents=True, exist_ok=True)
        recipe = read(prepare.ENVIRONMENTS / "image" / "bin" / "python")
        builder = Builder(recipe, Bases(prepare.ENVIRONMENTS / "rootfs"), stages)
        try:
            build_and_try(builder, Path(scratch), names)
        except (NotSo, RuntimeError) as error:
            sys.stdout.write(f"{error}\n")
            return 1
    sys.stdout.write(f"image steps: {len(names)} variants built and run, all as it should be\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
