"""``health``: does the gateway live, or take calls? For containers and supervisors without an HTTP client of their own.

Reads of the config only where the admin listener is, needs no token, and waits seconds, not minutes.
"""

from __future__ import annotations

import argparse
import os
from typing import Final

from gateway.cli.asking import NoAnswer, Request, send, url_of
from gateway.cli.output import Exit, Output, config_path, wants_json
from gateway.config.loader import load_sections

_PATIENCE: Final = 3.0
_OK: Final = 200


def run(args: argparse.Namespace) -> int:
    """Print what is the matter, if anything; no answer is a finding too, since whoever asks wants a yes.

    Raises:
        ConfigError: the config does not say where the gateway is.
    """
    admin = load_sections(config_path(args), os.environ, ("admin",)).config.admin
    try:
        status, answer = send(admin, Request("/readyz" if args.ready else "/healthz", _PATIENCE))
        text = answer.decode("utf-8", "replace")
    except NoAnswer:
        status, text = 0, f"no gateway answers at {url_of(admin)}"
    well = status == _OK
    if wants_json(args):
        Output.standard().value({"ok": well, "reasons": [] if well else text.splitlines()})
    else:
        Output.standard().block(text)
    return Exit.FINE if well else Exit.FINDING
