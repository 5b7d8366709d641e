"""Asks the admin listener of the running gateway that a config describes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.cli.asking import NoAnswer, Request, send, url_of
from gateway.cli.output import Output, config_path
from gateway.config.loader import Unreadable, load, load_sections
from gateway.config.root import LoadedConfig
from gateway.errors import ConfigError
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value
from gateway.state.files import ADMIN_TOKEN_FILE

TOKEN_VARIABLE: Final = "MCP_GATEWAY_ADMIN_TOKEN"  # noqa: S105 - the variable's name.
_OK: Final = 200
_NEEDED: Final = ("admin", "state")
_PATIENCE: Final = 660.0
"""Seconds; a call may take as long as its server may."""


class Unreachable(Exception):
    """The admin listener did not answer, or not as one."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request to the admin listener; with a ``body`` it is a POST."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Object | None = None


def ask(loaded: LoadedConfig, question: Question) -> tuple[int, Object]:
    """Send one question and return status and answer.

    Raises:
        Unreachable: nobody listens there, or the answer is no JSON object.
    """
    admin = loaded.config.admin
    body = None if question.body is None else rawjson.encode(question.body)
    try:
        status, answer = send(admin, Request(question.path, _PATIENCE, question.query, body, _token(loaded)))
        return status, _object(rawjson.decode_value(answer))
    except NoAnswer as error:
        why = f" ({error})" if str(error) else ""
    except JsonError:
        why = " (JsonError)"
    raise Unreachable(f"no gateway answers at {url_of(admin)}{why}; is it running?")


def _object(value: Value) -> Object:
    if not isinstance(value, dict):
        raise JsonError("not_an_object")
    return value


def _token(loaded: LoadedConfig) -> str:
    """Return the token to act with: the variable's, else the one ``serve`` made in ``state.dir``."""
    from_variable = os.environ.get(TOKEN_VARIABLE, "")
    if from_variable:
        return from_variable
    try:
        return (Path(loaded.config.state.dir) / ADMIN_TOKEN_FILE).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _described(path: Path) -> LoadedConfig:
    """Load a config as far as it is needed: one that was broken since is still that of the gateway that runs."""
    try:
        return load(path, os.environ)
    except Unreadable:
        raise
    except ConfigError as error:
        try:
            loaded = load_sections(path, os.environ, _NEEDED)
        except ConfigError:
            raise error from None
        text = "has mistakes (see check): what follows is of the config in force"
        Output.errors().line(f"note: {path.name} {text}")
        return loaded


def inquire(command: str, args: argparse.Namespace, question: Question) -> Object | None:
    """Ask the gateway that a command's config describes; None once it was said why there is no answer.

    Raises:
        ConfigError: the config does not even say where the gateway is.
    """
    try:
        code, answer = ask(_described(config_path(args)), question)
    except Unreachable as error:
        Output.errors().line(f"{command}: {error}")
        return None
    if code == _OK:
        return answer
    Output.errors().line(f"{command}: {answer.get('error', 'refused')}")
    if answer.get("error") in ("A token is needed", "Unknown token"):
        Output.errors().line(f"set {TOKEN_VARIABLE} to the token of a user of the admin listener")
    return None
