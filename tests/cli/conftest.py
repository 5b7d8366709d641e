"""One running gateway for the commands that ask it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.kit.gateway import ROOT, Gateway, serving

KEY = "k" * 40


@pytest.fixture(scope="package")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Serve a notes server and one that cannot start, with a client and a policy."""
    folder = tmp_path_factory.mktemp("cli")
    notes = {"command": sys.executable, "args": [str(ROOT / "demo" / "notes.py"), "--dataset", "d", "--file", "d.json"]}
    config = {
        "servers": {"notes": notes, "broken": {"command": "no-such-command-anywhere"}},
        "clients": {"bot": {"key": KEY}},
        "policies": [
            {"name": "p", "clients": ["bot"], "allow": ["notes/*"], "deny": ["notes/delete_note"]},
        ],
    }
    with serving(folder, config) as running:
        running.await_servers("notes")
        yield running
