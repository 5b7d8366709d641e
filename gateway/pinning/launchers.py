"""Which programs only run other programs, and which of their arguments name something that can change. Pure.

An update of Python is no update of the server that it runs; and ``npx PACKAGE`` is another program every week.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

_INTERPRETER: Final = re.compile(
    r"(python|pypy|ruby|perl|lua|php)[0-9.]*|node|nodejs|deno|bun|java|dotnet|(ba|da|z|k)?sh|env|busybox"
    r"|npx|npm|pnpm|yarn|bunx|uvx?|pipx|docker|podman|bwrap|firejail"
)
_NODE: Final = frozenset({"npx", "bunx", "pnpx"})
_PYTHON: Final = frozenset({"uvx", "pipx"})
_CONTAINER: Final = frozenset({"docker", "podman"})
_NODE_VERSION: Final = re.compile(r"(@[^/@]+/)?[^/@]+@[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*")
_PYTHON_VERSION: Final = re.compile(r"[A-Za-z0-9._-]+(\[[^]]*\])?(==|@)[0-9][0-9A-Za-z.!+_-]*")
_IMAGE_DIGEST: Final = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
_TAKES_VALUE: Final = frozenset(
    {"-p", "--package", "--python", "-c", "--call", "--from", "--with", "--index-url", "--spec", "--index"}
    | {"-e", "--env", "-v", "--volume", "--name", "--mount", "-w", "--workdir", "-u", "--user", "--network", "--cpus"}
    | {"-m", "--memory", "--entrypoint", "--platform", "--env-file", "--label", "-l", "--net", "--security-opt"}
)
_NAMES_PACKAGE: Final = frozenset({"-p", "--package", "--from", "--with", "--spec"})


def is_interpreter(executable: str) -> bool:
    """Tell whether a program is known to run others: its own content says little about the server."""
    return _INTERPRETER.fullmatch(os.path.basename(executable).removesuffix(".exe")) is not None


def mutable(argv: Sequence[str]) -> str:
    """Return the word of a command that names something that can change under the same name; "" where none does."""
    name = os.path.basename(argv[0]) if argv else ""
    rest = list(argv[1:])
    if name in ("npm", "pnpm", "yarn", "uv") and rest[:1] and rest[0] in ("exec", "dlx", "x", "tool"):
        rest = rest[2:] if rest[0] == "tool" else rest[1:]
        name = "uvx" if name == "uv" else "npx"
    elif name == "pipx" and rest[:1] == ["run"]:
        rest = rest[1:]
    if name in _NODE:
        return _first_loose(_packages(rest), _NODE_VERSION)
    if name in _PYTHON:
        return _first_loose(_packages(rest), _PYTHON_VERSION)
    if name in _CONTAINER and rest[:1] == ["run"]:
        return _first_loose(_packages(rest[1:], named=False), _IMAGE_DIGEST)
    return ""


def _packages(words: Sequence[str], *, named: bool = True) -> list[str]:
    """Return the packages that a launcher is told to run: those of options, else the first word that is none."""
    found: list[str] = []
    first = ""
    rest = iter(words)
    for word in rest:
        option, separator, value = word.partition("=")
        if option in _TAKES_VALUE:
            value = value if separator else next(rest, "")
            if named and option in _NAMES_PACKAGE:
                found.append(value)
        elif not word.startswith("-"):
            first = word
            break
    given = [word for word in found if word]
    return given or ([first] if first else [])


def _first_loose(packages: Sequence[str], exact: re.Pattern[str]) -> str:
    """Return the first one without an exact version; a path to something local can be pinned with ``pin.files``."""
    for package in packages:
        if package.startswith((".", "/", "~")):
            continue
        if not exact.fullmatch(package):
            return package
    return ""
