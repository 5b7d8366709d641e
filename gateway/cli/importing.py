"""``import FILE``: the servers of another program's file as ours; secrets become variables, nothing is overwritten."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.cli.output import Exit, Output, config_path, count, wants_json
from gateway.config.document import parse
from gateway.config.importing import Imported, take
from gateway.config.places import Mapping
from gateway.config.reading import MAX_CONFIG, FileProblem, Reading
from gateway.config.writing import CannotInsert, insert, render
from gateway.errors import ConfigError, Problem

_MODE: Final = 0o600


@dataclass(slots=True)
class _Merge:
    """What of an import is new to a config, what it has already, and what it has under the same name otherwise."""

    text: str
    new: Mapping = field(default_factory=dict)
    same: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)


def run(args: argparse.Namespace) -> int:
    """Print the servers, or add them to the config; servers that it has otherwise are a finding."""
    imported = _read(args.file)
    config = config_path(args)
    merge = _merge(config, imported)
    if args.write and merge.new:
        try:
            _write(config, merge)
        except CannotInsert:
            text = "has its servers in a form that lines cannot be added to: paste them (import without --write)"
            Output.errors().line(f"import: {config} {text}")
            return Exit.UNKNOWN
        except OSError as error:
            Output.errors().line(f"import: {config} cannot be written: {error.strerror}")
            return Exit.UNKNOWN
    if wants_json(args):
        _value(imported, merge, written=args.write)
    else:
        if not args.write and imported.servers:
            Output.standard().stream.write(render(imported.servers))
        _say(config, imported, merge, written=args.write)
    return Exit.FINDING if merge.other or not imported.servers else Exit.FINE


def _read(path: Path) -> Imported:
    try:
        data = Reading().read(path, MAX_CONFIG).data
    except FileProblem as problem:
        raise ConfigError([Problem(f"cannot be read: {problem}", str(path))]) from None
    return take(parse(data, str(path)))


def _merge(config: Path, imported: Imported) -> _Merge:
    """Compare with the config, if there is one.

    Raises:
        ConfigError: there is one, and it cannot be read.
    """
    if not config.exists():
        return _Merge("", dict(imported.servers))
    data = Reading().read(config, MAX_CONFIG).data
    root = parse(data, str(config)).root if data.strip() else {}
    servers = root.get("servers", {})
    present: Mapping = servers if isinstance(servers, dict) else {}
    merge = _Merge(data.decode())
    for name, entry in imported.servers.items():
        if name not in present:
            merge.new[name] = entry
        elif present[name] == entry:
            merge.same.append(name)
        else:
            merge.other.append(name)
    return merge


def _write(config: Path, merge: _Merge) -> None:
    """Write the config anew beside itself and put it in place; one that is not there yet must still not be."""
    text = insert(merge.text, merge.new)
    if not merge.text and not config.exists():
        descriptor = os.open(config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        return
    real = config.resolve()
    beside = real.with_name(f".{real.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            os.fchmod(descriptor, real.stat().st_mode & 0o777)
        beside.replace(real)
    finally:
        beside.unlink(missing_ok=True)


def _say(config: Path, imported: Imported, merge: _Merge, *, written: bool) -> None:
    """Say to standard error what else to know."""
    errors = Output.errors()
    for note in imported.notes:
        errors.line(f"note: {note}")
    if written:
        errors.line(f"{config}: {count(len(merge.new), 'server')} added{_names(merge.new)}")
    for name in merge.same:
        errors.line(f"{name}: {config} has it already")
    for name in merge.other:
        errors.line(f"{name}: {config} has another server of this name, which stays as it is")
    if imported.variables:
        errors.line("set these variables where the gateway is started:")
        errors.table(
            ("variable", "for", "value"),
            [
                (each.name, each.where, "as in the file" if each.given else "not in the file")
                for each in imported.variables
            ],
        )
    if any(each.given for each in imported.variables):
        errors.line("the file that was read still holds secrets: remove them there once they are set")


def _names(servers: Mapping) -> str:
    return ": " + ", ".join(servers) if servers else ""


def _value(imported: Imported, merge: _Merge, *, written: bool) -> None:
    Output.standard().value(
        {
            "servers": imported.servers,
            "variables": [{"name": each.name, "for": each.where, "in_file": each.given} for each in imported.variables],
            "notes": imported.notes,
            "added": list(merge.new) if written else [],
            "unchanged": merge.same,
            "conflicts": merge.other,
        }
    )
