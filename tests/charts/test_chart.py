"""The chart, rendered by the real helm: what it deploys is valid, locked down, and in step with the gateway."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

import gateway
from tests.environments import prepare
from tests.kit.gateway import COMMAND
from tests.kit.peers import environment

Json: TypeAlias = dict[str, Any]

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "aiohttp-mcp-gateway"
FULL = CHART / "ci" / "full-values.yaml"


def helm(*arguments: str | Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run helm; it keeps its files in ``home``."""
    if prepare.platform() not in prepare.HELM_PLATFORMS:
        pytest.skip(f"no helm binary for {prepare.platform()} comes from a package registry")
    return subprocess.run(
        [environment("helm") / "helm", *arguments],
        env={**os.environ, "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def rendered(home: Path, values: Mapping[str, Any] | None = None) -> dict[str, Json]:
    """Render the chart with the full values and ``values`` on top; returns manifests by kind and name."""
    extra = home / "values.yaml"
    extra.write_text(yaml.safe_dump(dict(values or {})))
    done = helm("template", "gw", CHART, "-f", FULL, "-f", extra, home=home)
    assert done.returncode == 0, done.stderr
    (home / "rendered.yaml").write_text(done.stdout)
    manifests = [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]
    return {f"{manifest['kind']}/{manifest['metadata']['name']}": manifest for manifest in manifests}


def test_the_chart_lints_strictly(tmp_path: Path) -> None:
    done = helm("lint", "--strict", CHART, "-f", FULL, home=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", ["1.25", "1.31", "1.37"])
def test_every_manifest_is_valid_for_kubernetes(tmp_path: Path, version: str) -> None:
    rendered(tmp_path)
    validate = environment("charts") / "bin" / "kubernetes-validate"
    command: list[str | Path] = [validate, "-k", version, "--strict", tmp_path / "rendered.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_pod_is_locked_down_and_its_grace_outlasts_the_drain(tmp_path: Path) -> None:
    manifests = rendered(tmp_path, {"drainSeconds": 33})
    pod = manifests["Deployment/gw"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    config = yaml.safe_load(manifests["ConfigMap/gw"]["data"]["gateway.yaml"])

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert config["listen"]["drain"] == "33s"
    assert pod["terminationGracePeriodSeconds"] == 48
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert {config["state"]["dir"], config["audit"]["dir"]} <= {
        f"{path}/{name}" for path in writable for name in ("state", "audit")
    }


def test_probes_ask_the_admin_listener_and_clients_reach_only_the_endpoint(tmp_path: Path) -> None:
    manifests = rendered(tmp_path, {"admin": {"service": False}})
    container = manifests["Deployment/gw"]["spec"]["template"]["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    config = yaml.safe_load(manifests["ConfigMap/gw"]["data"]["gateway.yaml"])

    assert ports == {"mcp": config["listen"]["port"], "admin": config["admin"]["port"]}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "admin"}
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": "admin"}
    assert [port["targetPort"] for port in manifests["Service/gw"]["spec"]["ports"]] == ["mcp"]
    assert "Service/gw-admin" not in manifests


def test_a_changed_config_rolls_the_pod(tmp_path: Path) -> None:
    def checksum(values: Mapping[str, Any]) -> str:
        template = rendered(tmp_path, values)["Deployment/gw"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum({}) == checksum({})
    assert checksum({}) != checksum({"config": {"naming": {"page_size": 10}}})


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"config": {"clients": None}}, "callers must prove who they are"),
        ({"config": {"admin": {"users": None}}}, "config.admin.users"),
        ({"config": {"listen": {"public_url": ""}}}, "config.listen.public_url"),
        ({"config": {"listen": {"host": "127.0.0.1"}}}, "host"),
        ({"config": {"state": {"dir": "/elsewhere"}}}, "dir"),
        ({"drainSeconds": 0}, "drainSeconds"),
        ({"replicas": 3}, "replicas"),
        ({"image": {"digest": "latest"}}, "digest"),
    ],
)
def test_values_that_cannot_work_are_refused_by_name(tmp_path: Path, values: Json, says: str) -> None:
    extra = tmp_path / "values.yaml"
    extra.write_text(yaml.safe_dump(values))
    done = helm("template", "gw", CHART, "-f", FULL, "-f", extra, home=tmp_path)

    assert done.returncode != 0
    assert says in done.stderr


def test_the_config_that_the_chart_writes_is_one_the_gateway_takes(tmp_path: Path) -> None:
    config = rendered(tmp_path)["ConfigMap/gw"]["data"]["gateway.yaml"]
    file = tmp_path / "gateway.yaml"
    file.write_text(config.replace("/var/lib/mcp-gateway", str(tmp_path)))
    variables = {**os.environ, "CI_BOT_KEY": "k" * 43, "WIKI_TOKEN": "t" * 20}
    done = subprocess.run(
        [COMMAND, "check", "-c", file], env=variables, capture_output=True, text=True, timeout=30, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_chart_and_image_are_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["appVersion"] == gateway.__version__


def test_the_image_installs_with_hashes_and_runs_as_nobody_in_particular() -> None:
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    installs = [line for line in lines if "pip install" in line]
    users = [line.split()[1] for line in lines if line.startswith("USER")]

    assert users
    assert re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", users[-1])
    for command in re.findall(r"pip install[^&]*", " ".join(installs)):
        assert "--require-hashes" in command or "--no-deps" in command, command
    assert any(line.strip().startswith("HEALTHCHECK") for line in lines)
    pod = (CHART / "templates" / "deployment.yaml").read_text()
    assert f"runAsUser: {users[-1].partition(':')[0]}" in pod
