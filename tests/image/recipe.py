"""The Dockerfile as BuildKit's own parser reads it, as data: stages, instructions, and what a container starts with."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCKERFILE: Final = ROOT / "Dockerfile"
_PARSE: Final = """
import dockerfile, json, sys
steps = [{"word": c.cmd, "values": c.value, "flags": c.flags, "json": c.json, "line": c.start_line}
         for c in dockerfile.parse_file(sys.argv[1])]
print(json.dumps(steps))
"""
BASE_ENV: Final = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction. ``exec`` tells whether it was written as a JSON array."""

    word: str
    values: tuple[str, ...]
    flags: tuple[str, ...] = ()
    exec: bool = False
    line: int = 0

    def flag(self, name: str) -> str:
        """Return the value of ``--name=``, or nothing."""
        found = [flag.removeprefix(f"--{name}=") for flag in self.flags if flag.startswith(f"--{name}=")]
        return found[0] if found else ""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: what it stands on (a stage or an image) and its instructions after FROM."""

    name: str
    base: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The whole file. ``arguments`` are the ARGs before the first stage."""

    arguments: dict[str, str]
    stages: dict[str, Stage]

    def lineage(self, name: str) -> list[Stage]:
        """Return a stage with the stages it stands on, the lowest first."""
        found: list[Stage] = []
        while name in self.stages:
            found.insert(0, self.stages[name])
            name = self.stages[name].base
        return found


@dataclass(slots=True)
class Settings:
    """What an image says about its containers."""

    env: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    workdir: str = "/"
    volumes: list[str] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)
    stop_signal: str = ""
    healthcheck: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    def take(self, step: Step, arguments: dict[str, str]) -> None:
        """Apply an instruction that is about settings; others change nothing."""
        values = [expanded(value, {**arguments, **self.env}) for value in step.values]
        match step.word:
            case "ENV":
                self.env.update(zip(values[::2], values[1::2], strict=True))
            case "LABEL":
                self.labels.update(zip(values[::2], [value.strip('"') for value in values[1::2]], strict=True))
            case "ARG":
                for value in values:
                    name, _, default = value.partition("=")
                    arguments.setdefault(name, default)
            case "USER":
                self.user = values[0]
            case "WORKDIR":
                self.workdir = values[0]
            case "VOLUME":
                self.volumes += values
            case "EXPOSE":
                self.ports += values
            case "STOPSIGNAL":
                self.stop_signal = values[0]
            case "HEALTHCHECK":
                self.healthcheck = tuple(values[1:])
            case "ENTRYPOINT":
                self.entrypoint, self.command = tuple(values), ()
            case "CMD":
                self.command = tuple(values)
            case _:
                pass


def expanded(text: str, variables: dict[str, str]) -> str:
    """Return text with ``$NAME`` and ``${NAME}`` replaced; unknown ones are empty, as in a build."""
    return _VARIABLE.sub(lambda match: variables.get(match[1] or match[2], ""), text)


def read(python: Path, file: Path = DOCKERFILE) -> Recipe:
    """Parse a Dockerfile with the parser that ``python`` has."""
    command: list[str | Path] = [python, "-c", _PARSE, file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    arguments: dict[str, str] = {}
    stages: dict[str, tuple[str, list[Step]]] = {}
    name = ""
    for raw in json.loads(done.stdout):
        step = Step(raw["word"], tuple(raw["values"]), tuple(raw["flags"]), raw["json"], raw["line"])
        if step.word == "FROM":
            name = step.values[2] if len(step.values) == 3 else str(len(stages))
            stages[name] = (expanded(step.values[0], arguments), [])
        elif name:
            stages[name][1].append(step)
        else:
            key, _, default = step.values[0].partition("=")
            arguments[key] = default
    return Recipe(arguments, {name: Stage(name, base, tuple(steps)) for name, (base, steps) in stages.items()})


def settings(recipe: Recipe, name: str) -> Settings:
    """Return what containers of a stage start with, on a base image that says no more than PATH."""
    found = Settings(env=dict(BASE_ENV))
    for stage in recipe.lineage(name):
        arguments: dict[str, str] = {}
        for step in stage.steps:
            found.take(step, arguments)
    return found


def ignored(path: str, patterns: list[str]) -> bool:
    """Tell whether ``.dockerignore`` keeps a path out of the context: the last pattern that fits decides."""
    out = False
    for pattern in patterns:
        wanted = pattern.startswith("!")
        if _fits(path, pattern.lstrip("!").strip("/")):
            out = not wanted
    return out


def _fits(path: str, pattern: str) -> bool:
    """Match a path or any folder above it, with ``*`` within a name and ``**`` across folders."""
    expression = re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    parts = path.split("/")
    return any(re.fullmatch(expression, "/".join(parts[:length])) for length in range(1, len(parts) + 1))
