"""The compose file: valid by the compose specification, locked down, and with a config that the gateway takes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

import gateway
from gateway.endpoint.guards import source_of
from tests.image import recipe
from tests.kit import valkey
from tests.kit.chart import programs
from tests.kit.gateway import COMMAND, ROOT, eventually

Json: TypeAlias = dict[str, Any]

DEPLOY = ROOT / "deploy"
COMPOSE: Json = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, Json] = COMPOSE["services"]
JUDGE = """
import sys, compose_spec
text = sys.stdin.read()
compose_spec.PyCompose.from_json(text).validate()
compose_spec.ComposeSpecification.model_validate_json(text)
"""


def judged(compose: Json) -> subprocess.CompletedProcess[str]:
    python = programs("image") / "bin" / "python"
    return subprocess.run(
        [python, "-c", JUDGE], input=json.dumps(compose), capture_output=True, text=True, timeout=60, check=False
    )


def test_it_is_valid_by_the_specification() -> None:
    assert judged(COMPOSE).returncode == 0, judged(COMPOSE).stderr

    broken = {**COMPOSE, "services": {**SERVICES, "gateway": {**SERVICES["gateway"], "readonly": True}}}
    assert judged(broken).returncode != 0


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_locked_down_watched_and_bounded(name: str) -> None:
    service = SERVICES[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    assert set(service["deploy"]["resources"]["limits"]) == {"memory", "pids"}
    assert not {"privileged", "cap_add", "pid", "network_mode"} & set(service)
    assert not re.search(r":(latest)?$", service["image"])


def test_nothing_but_the_endpoint_on_loopback_is_published() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}

    assert published == {"gateway": ["127.0.0.1:8080:8080"]}
    assert COMPOSE["networks"]["back"] == {"internal": True}
    assert [name for name in ("valkey", "postgres") if SERVICES[name]["networks"] != ["back"]] == []


def test_what_services_name_is_there() -> None:
    named = {
        volume.partition(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if not volume.startswith(".")
    }

    assert named == set(COMPOSE["volumes"])
    assert set(SERVICES["gateway"]["depends_on"]) == set(SERVICES) - {"gateway"}
    assert (DEPLOY / "config" / "gateway.yaml").exists()


def test_the_gateway_writes_to_volumes_alone_and_is_given_time_to_end() -> None:
    """S186, S191."""
    image = recipe.settings(recipe.read(programs("image") / "bin" / "python"), "runtime")
    service = SERVICES["gateway"]
    mounts = {volume.split(":")[1]: volume.split(":")[2:] for volume in service["volumes"]}
    drain = yaml.safe_load((DEPLOY / "config" / "gateway.yaml").read_text("utf-8"))["listen"]["drain"]

    assert set(image.volumes) <= set(mounts)
    assert mounts[image.workdir] == ["ro"]
    assert "command" not in service
    assert int(service["stop_grace_period"].rstrip("s")) >= int(drain.rstrip("s")) + 15
    assert service["image"].endswith(f":{gateway.__version__}")
    assert service["build"]["target"] in recipe.read(programs("image") / "bin" / "python").stages


def test_every_secret_comes_from_the_environment_file_and_must_be_there() -> None:
    text = (DEPLOY / "compose.yaml").read_text("utf-8")
    used = set(re.findall(r"(?<!\$)\$\{([A-Z_0-9]+)", text))
    required = set(re.findall(r"(?<!\$)\$\{([A-Z_0-9]+):\?", text))
    offered = set(re.findall(r"^([A-Z_0-9]+)=$", (DEPLOY / ".env.example").read_text("utf-8"), re.MULTILINE))

    assert used == required == offered


def test_callers_behind_the_proxy_on_the_host_are_told_apart() -> None:
    """It connects from the host's address in a network of Docker's, which would else be that of every caller."""
    listen = yaml.safe_load((DEPLOY / "config" / "gateway.yaml").read_text("utf-8"))["listen"]

    assert source_of("172.18.0.1", {"x-forwarded-for": "203.0.113.7"}, listen["trusted_proxies"]) == "203.0.113.7"


@valkey.needed
def test_no_password_is_among_the_arguments_that_everybody_can_read(tmp_path: Path) -> None:
    """Valkey as its container starts it, but for the port; the shell must not stand between it and signals."""
    password, port = "p%23#'x", valkey.free_port()
    shell, option, script = SERVICES["valkey"]["command"]
    server = valkey.binary()
    assert server is not None
    (tmp_path / "valkey-server").symlink_to(server)
    script = script.replace("$$", "$").replace('save ""', f'save ""\nport {port}\nbind 127.0.0.1\nlogfile log')
    process = subprocess.Popen(
        [shell, option, script],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "VALKEY_PASSWORD": password},
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    try:
        eventually(lambda: _said(port, "PING").startswith("-NOAUTH"), "it wants a password")
        assert _said(port, f"AUTH {password}") == "+OK"
        arguments = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert b"valkey-server" in arguments
        assert password.encode() not in arguments
    finally:
        process.terminate()
        assert process.wait(10) == 0


def _said(port: int, command: str) -> str:
    words = command.split(" ")
    wire = f"*{len(words)}\r\n" + "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 2) as line:
        line.settimeout(2)
        line.sendall(wire.encode())
        return line.recv(256).decode().strip()
    return ""


def test_the_gateway_takes_the_config_with_the_variables_that_it_gets(tmp_path: Path) -> None:
    config = yaml.safe_load((DEPLOY / "config" / "gateway.yaml").read_text("utf-8"))
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(config).replace("/var/lib/mcp-gateway", str(tmp_path)))
    (tmp_path / "policies").symlink_to(DEPLOY / "config" / "policies")
    # What is left of a value once its own references are filled in: any text that is long enough.
    values = {name: re.sub(r"\$\{[^}]*\}", "a" * 64, text) for name, text in SERVICES["gateway"]["environment"].items()}
    done = subprocess.run(
        [COMMAND, "check", "-c", file],
        env={**os.environ, **values},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
