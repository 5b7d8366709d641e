"""The programs that the documentation shows run against a gateway, with the SDKs that they import."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gateway.cli.snippet import VARIABLE
from tests.environments import prepare
from tests.kit.peers import environment
from tests.kit.scenes import KEY, Team
from tests.kit.snippets import Block, every_block

PROGRAMS: Final = [block for block in every_block() if block.language in ("python", "javascript") and not block.mark]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("programs")
    with Team(folder).served(folder / "gateway") as running:
        yield running.url


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.name)
def test_a_program_that_is_shown_lists_the_tools(block: Block, url: str, tmp_path: Path) -> None:
    assert "https://mcp.example.com/mcp" in block.text
    text = block.text.replace("https://mcp.example.com/mcp", url)
    command: list[str | Path]
    if block.language == "python":
        file = tmp_path / "client.py"
        command = [environment("mcp2") / "bin" / "python", file]
    else:
        # Packages are looked for beside the program.
        (tmp_path / "node_modules").symlink_to(environment("node") / "node_modules")
        file = tmp_path / "client.mjs"
        command = [prepare.node(), file]
    file.write_text(text)
    variables = {**os.environ, VARIABLE: KEY}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=50, check=False)

    assert done.returncode == 0, done.stderr
    assert "wiki__search" in done.stdout


def test_there_is_a_program_in_each_language() -> None:
    assert {block.language for block in PROGRAMS} == {"python", "javascript"}
