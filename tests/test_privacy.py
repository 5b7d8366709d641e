"""What another process of the same user may look up of one that concealed itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_NOBODY = 65534

LOOK = "for name in environ maps auxv; do cat /proc/$PPID/$name >/dev/null 2>&1; echo $name $?; done"

HOLD = """
import ctypes, os, subprocess, sys
sys.path.insert(0, {root!r})
from gateway.privacy import conceal
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
# Who changed its user is concealed by the kernel already; a service that was started as its user is not.
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
if {concealed}:
    assert conceal()
subprocess.run(["/bin/sh", "-c", {look!r}], check=True, env={{"PATH": "/usr/bin:/bin"}}, cwd="/")
"""


def seen(concealed: bool) -> dict[str, str]:
    """What a child sees of a parent of its own user, who is not root."""
    code = HOLD.format(root=str(ROOT), nobody=_NOBODY, look=LOOK, concealed=concealed)
    made = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env={"KEY": "v"})
    return dict(line.split() for line in made.stdout.splitlines())


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="becomes another user, on Linux, as root")
def test_a_server_cannot_look_up_what_the_gateway_was_given() -> None:
    """S105."""
    assert seen(concealed=False)["environ"] == "0", "without it there is something to see"
    assert seen(concealed=True) == dict.fromkeys(("environ", "maps", "auxv"), "1")
