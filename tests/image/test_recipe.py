"""The Dockerfile without an engine: linted by hadolint, read by BuildKit's parser, and held to rules of our own.

That its steps work and its result runs is shown by ``make image-steps``.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
from pathlib import Path

import pytest

import gateway
from tests.environments import prepare
from tests.image import recipe
from tests.image.recipe import ROOT, Recipe
from tests.kit import sbom
from tests.kit.chart import programs

FINAL = ("runtime", "node", "uv", "full")


@pytest.fixture(scope="module")
def read() -> Recipe:
    return recipe.read(programs("image") / "bin" / "python")


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(
        [programs("image") / "bin" / "hadolint", "--no-color", recipe.DOCKERFILE],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout == ""
    assert done.returncode == 0, done.stderr


def test_every_exception_from_the_lint_says_why() -> None:
    lines = recipe.DOCKERFILE.read_text().splitlines()
    exceptions = [number for number, line in enumerate(lines) if "hadolint ignore" in line]

    assert all(lines[number - 1].startswith("# ") for number in exceptions)
    assert len(exceptions) <= 2


def test_node_finds_its_libraries_before_it_is_run(read: Recipe) -> None:
    """From version 25 on it needs libatomic, which the slim image lacks."""
    commands = [step.values[0] for step in read.stages["node"].steps if step.word == "RUN"]
    (installed,) = [number for number, command in enumerate(commands) if "libatomic1" in command]
    (run,) = [number for number, command in enumerate(commands) if "node --version" in command]

    assert installed < run


def test_without_a_target_the_plain_image_is_built(read: Recipe) -> None:
    assert list(read.stages)[-1] == "runtime"
    assert set(FINAL) <= set(read.stages)
    assert [stage.name for stage in read.lineage("full")] == ["base", "node", "full"]


@pytest.mark.parametrize("name", FINAL)
def test_each_variant_runs_as_a_number_and_ends_by_the_signal_that_drains(read: Recipe, name: str) -> None:
    """S191."""
    found = recipe.settings(read, name)

    assert re.fullmatch(r"[1-9][0-9]{3,}:[1-9][0-9]{3,}", found.user)
    assert found.stop_signal == "SIGTERM"
    assert found.entrypoint == ("tini", "--", "mcp-gateway")
    assert found.command == ("serve",)
    assert found.healthcheck == ("mcp-gateway", "health")
    assert found.ports == ["8080", "9090"]
    assert found.env["PYTHONDONTWRITEBYTECODE"] == "1"
    assert found.env["PATH"].startswith("/opt/gateway/bin:")


@pytest.mark.parametrize("name", FINAL)
def test_what_is_written_is_on_volumes_and_the_config_is_apart(read: Recipe, name: str) -> None:
    found = recipe.settings(read, name)

    assert found.volumes == ["/var/lib/mcp-gateway", "/var/cache/mcp-gateway"]
    # Servers get HOME: packages that they fetch must not lie beside keys and audit log.
    assert found.env["HOME"] == "/var/cache/mcp-gateway"
    assert found.workdir == "/etc/mcp-gateway"


def test_no_shell_stands_between_a_signal_and_the_gateway(read: Recipe) -> None:
    steps = [step for stage in read.stages.values() for step in stage.steps]

    assert [step.word for step in steps if step.word in ("ENTRYPOINT", "CMD") and not step.exec] == []


def test_every_install_is_held_to_hashes(read: Recipe) -> None:
    """S190."""
    commands = [step.values[0] for stage in read.stages.values() for step in stage.steps if step.word == "RUN"]
    installs = re.findall(r"pip[^&]* install[^&]*", " ".join(commands))

    assert len(installs) >= 5
    for command in installs:
        assert "--require-hashes" in command or "--no-deps /dist/" in command, command


def test_nothing_comes_from_an_address_or_says_where_packages_are(read: Recipe) -> None:
    text = recipe.DOCKERFILE.read_text()
    steps = [step for stage in read.stages.values() for step in stage.steps]

    assert not re.search(r"https?://|index-url|registry=", text)
    assert [step for step in steps if step.word == "ADD"] == []


def test_bases_are_arguments_so_that_a_release_pins_them_by_digest(read: Recipe) -> None:
    bases = {stage.base for stage in read.stages.values()} - set(read.stages)

    assert bases == set(read.arguments.values())
    assert all(re.fullmatch(r"[a-z]+:[0-9.]+-[a-z]+-slim|[a-z]+:[0-9.]+-slim-[a-z]+", base) for base in bases)


def test_labels_say_what_it_is(read: Recipe) -> None:
    given = recipe.settings(read, "runtime").labels
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in given.items()}

    assert labels["version"] == gateway.__version__
    assert labels["licenses"] == "Apache-2.0"
    assert set(labels) == {"title", "description", "licenses", "version", "revision"}


def test_the_context_has_what_is_copied_and_nothing_else(read: Recipe) -> None:
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line]
    copied = {
        source
        for stage in read.stages.values()
        for step in stage.steps
        if step.word == "COPY" and not step.flags
        for source in step.values[:-1]
    }
    allowed = {path.name for path in ROOT.iterdir() if not recipe.ignored(path.name, patterns)}

    assert allowed == copied
    assert recipe.ignored(".git/config", patterns)
    assert recipe.ignored(".envs/image/bin/python", patterns)
    assert recipe.ignored("gateway/__pycache__/app.cpython-313.pyc", patterns)
    assert not recipe.ignored("gateway/cli/serve.py", patterns)


def test_the_locks_of_the_image_agree_with_those_that_are_tested() -> None:
    def pins(name: str) -> dict[str, str]:
        return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", (ROOT / name).read_text(), re.MULTILINE))

    ours, tested = pins("requirements-image.lock"), pins("requirements.lock")

    assert tested.items() <= ours.items()
    assert {"redis", "asyncpg", "opentelemetry-sdk", "uvloop"} <= set(ours)
    assert "cyclonedx-bom" in pins("requirements-sbom.lock")
    assert "uv" in pins("requirements-uv.lock")


def test_the_bill_of_materials_is_one(tmp_path: Path) -> None:
    """Made of this environment as the image makes it of its own; the image's is judged by ``make image-steps``."""
    file = tmp_path / "sbom.json"
    command: list[str | Path] = [programs("image") / "bin" / "cyclonedx-py", "environment"]
    command += ["--pyproject", ROOT / "pyproject.toml"]
    options: list[str | Path] = [
        "--output-reproducible",
        "--no-validate",
        "-o",
        file,
        ROOT / ".venv" / "bin" / "python",
    ]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    listed = json.loads(file.read_text())

    assert sbom.fault(file) == ""
    assert {"aiohttp", "pydantic", "cryptography"} <= {component["name"] for component in listed["components"]}
    assert all(component.get("purl", "").startswith("pkg:pypi/") for component in listed["components"])

    listed["components"][0].pop("name")
    file.write_text(json.dumps(listed))
    assert "name" in sbom.fault(file)


def test_python_itself_is_listed_with_what_lies_beside_it(read: Recipe, tmp_path: Path) -> None:
    (command,) = [step.values[0] for step in read.stages["base"].steps if "python.cdx.json" in step.values[0]]
    program, option, script, into, target = shlex.split(command)
    assert (program, option, into, target) == ("python", "-c", ">", "/usr/share/sbom/python.cdx.json")
    python = programs("image") / "bin" / "python"
    file = tmp_path / "python.json"
    file.write_text(subprocess.run([python, option, script], capture_output=True, text=True, check=True).stdout)
    itself, *beside = json.loads(file.read_text())["components"]

    assert sbom.fault(file) == ""
    assert itself["cpe"].split(":")[5] == itself["version"] == platform.python_version()
    assert "pip" in {each["name"] for each in beside}


def test_the_variants_with_node_list_npm_with_all_that_it_brings(read: Recipe, tmp_path: Path) -> None:
    """By the command of the Dockerfile, with the Node that is here; `make image-steps` has that of the image."""
    node = Path(prepare.node()).resolve()
    modules = node.parents[1] / "lib" / "node_modules"
    if not (modules / "npm").exists():
        pytest.skip("npm does not lie beside Node here")
    (command,) = [step.values[0] for step in read.stages["node"].steps if "node.cdx.json" in step.values[0]]
    program, option, script, into, target = shlex.split(command)
    assert (program, option, into, target) == ("node", "-e", ">", "/usr/share/sbom/node.cdx.json")
    file = tmp_path / "node.json"
    texts = [subprocess.run([node, option, script], capture_output=True, text=True, check=True).stdout for _ in "12"]
    file.write_text(texts[0])
    listed = json.loads(texts[0])["components"]

    assert sbom.fault(file) == ""
    assert texts[0] == texts[1]
    packages = {(each["name"], each["version"]) for each in listed if each["purl"].startswith("pkg:npm/")}
    assert packages == sbom.node_packages(modules)
    assert len(packages) > 100
    (itself,) = [each for each in listed if each["name"] == "node"]
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    assert itself["cpe"].split(":")[5] == itself["version"] == version.removeprefix("v")
    assert {"openssl", "v8", "zlib", "libuv"} <= {each["name"] for each in listed}


def test_the_steps_say_what_they_need_where_they_cannot_run() -> None:
    python = ROOT / ".venv" / "bin" / "python"
    done = subprocess.run(
        [python, "-m", "tests.image.steps"],
        cwd=ROOT,
        env={**os.environ, "PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert "mmdebstrap" in done.stdout
