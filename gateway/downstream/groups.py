"""Process groups as the kernel tells of them: whether one is inhabited, how a process ended. Ends and reaps nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def inhabited(group: int) -> bool:
    """Tell whether a process group has a member that runs; the dead that process 1 never reaps do not count."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        return True
    for entry in proc.iterdir():
        if entry.name.isdigit():
            try:
                state, _, pgrp = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:3]
            except (OSError, ValueError):
                continue
            if int(pgrp) == group and state != b"Z":
                return True
    return False


def describe(code: int) -> str:
    """Say how a process ended: its exit code, or the signal."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
