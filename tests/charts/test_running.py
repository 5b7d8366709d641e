"""The rendered chart, run: `check` takes every config, and a gateway started as the pod starts it is ready and ends."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from tests.kit import certificates
from tests.kit.chart import CHART, gateway_of, manifests, pod_of, values_of
from tests.kit.gateway import COMMAND, eventually, free_port

Json: TypeAlias = dict[str, Any]

TOKEN = "a-token-of-alice"
ENVIRONMENT = {
    "CI_BOT_KEY": "k" * 43,
    "WIKI_TOKEN": "t" * 20,
    "ALICE_SHA256": hashlib.sha256(TOKEN.encode()).hexdigest(),
    "MCP_GATEWAY_STATE_URL": "redis://127.0.0.1:1/0",
    "MCP_GATEWAY_STATE_DATABASE": "postgres://gateway:secret@127.0.0.1:1/gateway",
    "MCP_GATEWAY_METRICS_TOKEN": "m" * 32,
    "MCP_GATEWAY_SEALING_KEY_0": "s" * 43,
    "MCP_GATEWAY_SEALING_KEY_1": "o" * 43,
}


def mounted(found: dict[str, Json], folder: Path) -> Path:
    """Lay the config out as a ConfigMap volume does, behind a link that is swapped; return the config's path."""
    (data,) = [each["data"] for each in found.values() if "gateway.yaml" in each.get("data", {})]
    version = folder / f"..{len(list(folder.glob('..[0-9]*')))}"
    version.mkdir()
    for key, given in data.items():
        text = given.replace("/var/lib/mcp-gateway", str(folder / "data"))
        (version / key).write_text(text.replace("/etc/mcp-gateway-tls", str(folder / "tls")))
    beside = folder / "..new"
    beside.symlink_to(version.name)
    beside.replace(folder / "..data")
    for path in version.iterdir():
        if not (folder / path.name).is_symlink():
            (folder / path.name).symlink_to(f"..data/{path.name}")
    return folder / "gateway.yaml"


@pytest.mark.parametrize("name", ["minimal", "single", "ha", "everything"])
def test_the_gateway_takes_every_config_that_the_chart_writes(tmp_path: Path, name: str) -> None:
    found = manifests("helm", values_of(name))
    (data,) = [each["data"] for each in found.values() if "gateway.yaml" in each.get("data", {})]
    data["gateway.yaml"] = yaml.safe_dump(yaml.safe_load(data["gateway.yaml"]))
    _certificate(tmp_path / "tls")
    done = subprocess.run(
        [COMMAND, "check", "-c", mounted(found, tmp_path)],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def _certificate(folder: Path) -> None:
    folder.mkdir()
    authority = certificates.make("authority")
    authority.write(folder / "ca.crt")
    server = certificates.make("mcp.example.com", authority)
    server.write(folder / "tls.crt")
    server.write_key(folder / "tls.key")


def on_loopback(found: dict[str, Json], ports: tuple[int, int]) -> None:
    """Move the listeners to this machine; everything else stays as the chart wrote it."""
    (data,) = [each["data"] for each in found.values() if "gateway.yaml" in each.get("data", {})]
    config = yaml.safe_load(data["gateway.yaml"])
    assert (config["listen"]["host"], config["admin"]["host"]) == ("0.0.0.0", "0.0.0.0")
    config["listen"].update(host="127.0.0.1", port=ports[0])
    config["admin"].update(host="127.0.0.1", port=ports[1])
    data["gateway.yaml"] = yaml.safe_dump(config)


@contextmanager
def running(found: dict[str, Json], folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run the gateway for a block, with the arguments of its container; yields it and its log."""
    file = mounted(found, folder)
    arguments = [str(file) if word == "/etc/mcp-gateway/gateway.yaml" else word for word in gateway_of(found)["args"]]
    log = folder / "gateway.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [COMMAND, *arguments],
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        yield process, log
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(5)


def _test_host(found: dict[str, Json]) -> str:
    (pod,) = [each for name, each in found.items() if name.startswith("Pod/")]
    return str(next(each["value"] for each in pod["spec"]["containers"][0]["env"] if each["name"] == "MCP_HOST"))


def answer(url: str, token: str = "") -> tuple[int, str]:
    question = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(question, timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError:
        return 0, ""


def test_a_gateway_started_as_the_pod_starts_it_is_ready_and_ends_within_its_grace(tmp_path: Path) -> None:
    """S186, S188, G130: probes need no session and no token, and a server that cannot be reached holds nothing up."""
    more = {
        "metrics": {"token": {"secret": "gateway-metrics"}},
        "config": {"listen": {"public_url": "https://mcp.example.com:8443/mcp"}},
    }
    found = manifests("helm", values_of("minimal"), more)
    ports = (free_port(), free_port())
    on_loopback(found, ports)
    admin = f"http://127.0.0.1:{ports[1]}"
    with running(found, tmp_path) as (process, log):
        paths = {
            gateway_of(found)[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")
        }
        eventually(lambda: all(answer(admin + path)[0] == 200 for path in paths), "every probe is answered with 200")
        assert answer(f"{admin}/metrics", ENVIRONMENT["MCP_GATEWAY_METRICS_TOKEN"])[0] == 200
        asked = subprocess.run(
            [sys.executable, "-c", (CHART / "files" / "access.py").read_text()],
            env={
                **os.environ,
                "READY_URL": f"{admin}/readyz",
                "MCP_URL": f"http://127.0.0.1:{ports[0]}/mcp",
                "MCP_HOST": _test_host(found),
            },
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert asked.returncode == 0, asked.stdout + asked.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(pod_of(found)["terminationGracePeriodSeconds"]) == 0, log.read_text()


def test_a_changed_config_map_is_in_force_without_a_restart(tmp_path: Path) -> None:
    """S185."""
    ports = (free_port(), free_port())

    def version(more: Json) -> dict[str, Json]:
        found = manifests("helm", values_of("minimal"), more)
        on_loopback(found, ports)
        return found

    admin = f"http://127.0.0.1:{ports[1]}"
    with running(version({}), tmp_path):
        eventually(lambda: answer(f"{admin}/readyz")[0] == 200, "ready")
        more = {"policyFiles": {"more.yaml": "policies: [{name: more, clients: [ci-bot], allow: ['wiki/*']}]"}}
        mounted(version(more), tmp_path)

        reloaded = 'mcp_gateway_config_reloads_total{result="ok"} 1'
        eventually(lambda: reloaded in answer(f"{admin}/metrics")[1], "reloaded")
