"""The command line as it is declared agrees with the modules that run it, and is light."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import import_module

import pytest

from gateway.audit.export import WRITERS
from gateway.cli import completion, snippet
from gateway.cli.commands import CLIENTS, COMMANDS, FORMATS, SHELLS

HEAVY = ("aiohttp", "asyncio", "cryptography", "pydantic", "yaml", "gateway.app", "gateway.config.root")


def loaded(*words: str) -> set[str]:
    """Return the modules that are loaded once a command has run in a process of its own."""
    code = "import sys; from gateway.cli.main import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=30, check=True)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_declared_under_its_name_and_has_a_module_that_runs_it(name: str) -> None:
    command = COMMANDS[name]
    subparsers = argparse.ArgumentParser().add_subparsers()
    command.declare(subparsers)
    assert list(subparsers.choices) == [name]
    for module in (command.module, *(command.unless or ())[2:]):
        assert callable(import_module(f"gateway.cli.{module}").run)


def test_what_is_written_down_twice_is_the_same_twice() -> None:
    assert list(FORMATS) == list(WRITERS)
    assert list(CLIENTS) == list(snippet.CLIENTS)
    assert list(SHELLS) == list(completion.WRITERS)


@pytest.mark.parametrize("words", [["--help"], ["completion", "bash"], ["keys", "new", "x"], ["audit", "--help"]])
def test_commands_that_need_no_config_load_none(words: list[str]) -> None:
    assert loaded(*words).isdisjoint(HEAVY)


def test_a_check_loads_no_server_but_a_live_one() -> None:
    assert loaded("check").isdisjoint({"aiohttp", "gateway.downstream.pool", "gateway.rollcall"})
    assert "gateway.rollcall" in loaded("check", "--live")


@pytest.mark.parametrize("words", [["status"], ["health"], ["audit", "tail"], ["snippet", "cursor"]])
def test_commands_that_only_ask_load_neither_a_server_nor_a_client_with_a_loop(words: list[str]) -> None:
    assert loaded(*words).isdisjoint({"aiohttp", "cryptography", "gateway.app", "gateway.runtime", "asyncio"})
