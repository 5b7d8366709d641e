"""Every server is asked once, none outlives it, and those that do not answer are named."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gateway.config.loader import load
from gateway.rollcall import listed_now
from tests.kit.gateway import descendants
from tests.test_runtime import notes, write


def test_lists_and_failures_are_told_apart_and_no_process_is_left(tmp_path: Path) -> None:
    silent = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"], "timeouts": {"start": "1s"}}
    servers = {"a": notes(tmp_path, "one"), "gone": {"command": "no-such-command"}, "silent": silent}
    before = descendants(os.getpid())
    listings, failures = listed_now(load(write(tmp_path, servers=servers), {}))
    assert list(listings) == ["a"]
    assert "whoami" in [definition.name for definition in listings["a"].definitions]
    assert sorted(failures) == ["gone", "silent"]
    assert descendants(os.getpid()) <= before
