"""``audit tail``: the last records, and those that come. A module of its own, since it is what people leave running."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from gateway.audit.tail import Tail
from gateway.cli.audit_lines import describe_line, wait
from gateway.cli.audit_place import directory_of, told
from gateway.cli.commands import LAST
from gateway.cli.output import Exit, wants_json
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError
from gateway.telemetry.text import printable

_POLL_SECONDS: Final = 0.5
_WIDEST: Final = 256


def run(args: argparse.Namespace) -> int:
    """Print the last records, and with ``--follow`` new ones until it is interrupted."""
    return told(lambda args: _tail(directory_of(args), as_json=wants_json(args), follow=args.follow), args)


def _tail(directory: Path, *, as_json: bool, follow: bool) -> int:
    tail = Tail(directory)
    lines = tail.last(LAST)
    try:
        while True:
            for line in lines:
                print(_as_json(line) if as_json else describe_line(line))
            if not follow:
                return Exit.FINE
            sys.stdout.flush()
            wait(_POLL_SECONDS)
            lines = tail.more()
    except KeyboardInterrupt:
        return Exit.FINE


def _as_json(line: bytes) -> str:
    """Pass a record on as it is; a line that is none must not reach a JSON reader or a terminal raw."""
    try:
        return rawjson.encode(rawjson.decode_value(line)).decode()
    except JsonError:
        return rawjson.encode({"unreadable": printable(line.decode(errors="replace"), _WIDEST)}).decode()
