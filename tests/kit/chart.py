"""The chart, rendered by the real helm."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
import yaml

from tests.environments import prepare
from tests.kit.peers import environment

Json: TypeAlias = dict[str, Any]

CHART: Final = Path(__file__).parents[2] / "charts" / "aiohttp-mcp-gateway"
VALUE_SETS: Final = tuple(sorted((CHART / "ci").glob("*-values.yaml")))
HELMS: Final = tuple(prepare.HELM_WHEELS)


def programs(name: str) -> Path:
    """Return an environment whose programs come as binaries; without one for this platform a test is skipped."""
    if prepare.platform() not in prepare.HELM_PLATFORMS:
        pytest.skip(f"no binary for {prepare.platform()} comes from a package registry: {name}")
    return environment(name)


def helm(version: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run one of ``HELMS``; it keeps its files in a folder that ends with it."""
    program = programs(version) / "helm"
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run(
            [program, *arguments],
            env={**os.environ, "HOME": home},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def template(
    version: str, values: Path, more: Mapping[str, Any] | None = None, kubernetes: str = "1.34"
) -> subprocess.CompletedProcess[str]:
    """Render a file of values with others on top."""
    with tempfile.TemporaryDirectory() as folder:
        extra = Path(folder) / "more.yaml"
        extra.write_text(yaml.safe_dump(dict(more or {})))
        options: list[str | Path] = ["-f", values, "-f", extra, "--kube-version", kubernetes, "--namespace", "tools"]
        return helm(version, "template", "gw", CHART, *options)


@functools.cache
def _rendered(version: str, values: Path, more: str, kubernetes: str) -> str:
    done = template(version, values, json.loads(more), kubernetes)
    assert done.returncode == 0, done.stderr
    return done.stdout


def manifests(
    version: str, values: Path, more: Mapping[str, Any] | None = None, kubernetes: str = "1.34"
) -> dict[str, Json]:
    """Return what is rendered, by kind and name."""
    text = _rendered(version, values, json.dumps(dict(more or {}), sort_keys=True), kubernetes)
    # The loader in C where there is one: it is ten times as fast, and dashboards are long.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: list[Json] = [manifest for manifest in yaml.load_all(text, loader) if manifest]
    named = {f"{manifest['kind']}/{manifest['metadata']['name']}": manifest for manifest in found}
    assert len(named) == len(found), "two objects of one name"
    return named


def values_of(name: str) -> Path:
    """Return one of the chart's value sets."""
    return CHART / "ci" / f"{name}-values.yaml"


def pod_of(found: Mapping[str, Json]) -> Json:
    """Return the spec of the pods that are rendered."""
    (workload,) = (each for each in found.values() if each["kind"] in ("StatefulSet", "Deployment"))
    spec: Json = workload["spec"]["template"]["spec"]
    return spec


def gateway_of(found: Mapping[str, Json]) -> Json:
    """Return the gateway's container."""
    container: Json = pod_of(found)["containers"][0]
    assert container["name"] == "gateway"
    return container


def config_of(found: Mapping[str, Json]) -> Json:
    """Return the gateway's config."""
    (text,) = (each["data"]["gateway.yaml"] for each in found.values() if "gateway.yaml" in each.get("data", {}))
    config: Json = yaml.safe_load(text)
    return config
