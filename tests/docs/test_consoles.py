"""The commands that the documentation shows are run, page by page, and say what the pages say they say."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from tests.kit.gateway import ROOT
from tests.kit.scenes import SCENES, Scene
from tests.kit.snippets import Block, commands, every_block, fits

pytestmark = pytest.mark.timeout(180)
BLOCKS: Final = every_block()
COLUMNS: Final = 250
SECONDS: Final = 60
SHARED: Final = ("log",)
"""Scenes that pages look at and leave as they are."""


def _walks() -> list[ParameterSet]:
    """Return each page with each of its scenes: one scene serves all of its blocks, in their order."""
    seen: dict[tuple[Path, str], list[Block]] = {}
    for block in BLOCKS:
        if block.mark[:1] == ("run",):
            seen.setdefault((block.page, block.mark[1]), []).append(block)
    return [
        pytest.param(scene, blocks, id=f"{page.relative_to(ROOT).as_posix()}-{scene}")
        for (page, scene), blocks in seen.items()
    ]


class Commands:
    """Runs command lines where they see a wide terminal without colours: bash does, or for commands of ours alone a
    process that has them loaded."""

    def __init__(self, loaded: subprocess.Popen[bytes]) -> None:
        self._loaded = loaded

    def run(self, line: str, scene: Scene) -> tuple[int, str]:
        """Run one; returns its exit code and what it printed."""
        variables = {**os.environ, **scene.variables}
        variables["PATH"] = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{variables['PATH']}"
        variables |= {"NO_COLOR": "1", "TERM": "dumb"}
        words = shlex.split(line, comments=True)
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        try:
            if Path(words[0]).name == "mcp-gateway" and not re.search(r"[|&;<>$`\n]", line):
                return self._ours(words, scene.folder, variables, (ours, theirs))
            return self._bash(line, scene.folder, variables, (ours, theirs))
        finally:
            os.close(ours)

    def _ours(
        self, words: list[str], folder: Path, variables: dict[str, str], terminal: tuple[int, int]
    ) -> tuple[int, str]:
        ours, theirs = terminal
        order = {"words": words, "folder": str(folder), "variables": variables, "terminal": os.ttyname(theirs)}
        assert self._loaded.stdin is not None
        assert self._loaded.stdout is not None
        self._loaded.stdin.write(json.dumps(order).encode() + b"\n")
        self._loaded.stdin.flush()
        printed = b""
        done = self._loaded.stdout
        while done.fileno() not in (ready := select.select([ours, done.fileno()], [], [], SECONDS)[0]):
            assert ready, f"{words} said nothing for {SECONDS} s"
            printed += _read(ours)
        code = int(done.readline())
        os.close(theirs)
        while chunk := _read(ours):
            printed += chunk
        return code, _text(printed)

    def _bash(self, line: str, folder: Path, variables: dict[str, str], terminal: tuple[int, int]) -> tuple[int, str]:
        ours, theirs = terminal
        process = subprocess.Popen(
            ["/bin/bash", "-c", line],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        printed = b""
        try:
            while chunk := _read(ours):
                printed += chunk
            return process.wait(SECONDS), _text(printed)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(5)


def _text(printed: bytes) -> str:
    return printed.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def shell() -> Iterator[Commands]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.kit.loaded"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    yield Commands(process)
    process.communicate(timeout=10)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError as error:
        # Linux says so when nobody has the other end open any more.
        if error.errno == errno.EIO:
            return b""
        raise


class Stage:
    """Makes scenes: one for each page, but for those that no page changes."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self._shared: dict[str, Scene] = {}

    @contextmanager
    def scene(self, name: str, page: list[Block], folder: Path) -> Iterator[Scene]:
        if name not in SHARED:
            with SCENES[name](folder, page) as own:
                yield own
            return
        if name not in self._shared:
            self._shared[name] = self._stack.enter_context(SCENES[name](self._folder / name, page))
        yield self._shared[name]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(stack, tmp_path_factory.mktemp("scenes"))


@pytest.mark.parametrize(("name", "blocks"), _walks())
def test_commands_do_what_the_page_shows(
    name: str, blocks: list[Block], stage: Stage, shell: Commands, tmp_path: Path
) -> None:
    page = [block for block in BLOCKS if block.page == blocks[0].page]
    with stage.scene(name, page, tmp_path) as scene:
        for block in blocks:
            if block.language == "yaml":
                scene.paste(block.text)
                continue
            codes = [int(word) for word in block.mark[2:] if word.isdigit()]
            for command in commands(block):
                if command.line.split("#")[0].split()[-1] == "serve":
                    code, printed = 0, scene.serve()
                else:
                    code, printed = shell.run(scene.here(command.line), scene)
                said = scene.there(printed)
                told = f"{block.name}: $ {command.line}\n{said}"
                assert code == (codes.pop(0) if codes else 0), told
                assert not command.output or fits(command.output, said), told


def test_every_scene_is_asked_for() -> None:
    asked = {block.mark[1] for block in BLOCKS if block.mark[:1] == ("run",)}

    assert asked == set(SCENES)


def test_a_command_line_of_ours_is_never_left_out_of_a_walk() -> None:
    """What can be run is run: only what does not exist on a test machine may be shown without."""
    ours = [
        block.name
        for block in BLOCKS
        if block.language in ("console", "sh", "bash", "shell")
        and block.mark[:1] == ("not-run",)
        and re.search(r"^\$ (\S*/)?mcp-gateway ", block.text, re.MULTILINE)
    ]

    assert ours == []
