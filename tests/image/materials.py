"""Writes the bill of materials that the image has, without building the image (``make sbom``).

The same locks into an environment of its own, the same tool over it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from gateway import __version__
from tests.environments import prepare
from tests.image.recipe import ROOT


def write(target: Path) -> None:
    """Install what the image installs, and list it in ``target``.

    Raises:
        subprocess.CalledProcessError: something could not be installed or listed.
    """
    prepare.make("image")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        venv.create(folder / "venv", with_pip=False)
        python = folder / "venv" / "bin" / "python"
        pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python, "install", "-q"]
        subprocess.run([*pip, "--require-hashes", "-r", ROOT / "requirements-image.lock"], check=True)
        named = re.sub(r"(?m)^dynamic = .*", f'version = "{__version__}"', (ROOT / "pyproject.toml").read_text())
        (folder / "pyproject.toml").write_text(named)
        lister = prepare.ENVIRONMENTS / "image" / "bin" / "cyclonedx-py"
        options: list[str | Path] = ["--pyproject", folder / "pyproject.toml", "--output-reproducible", "-o", target]
        subprocess.run([lister, "environment", *options, python], check=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
