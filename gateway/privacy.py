"""Keeps the memory and environment of this process from other processes of its user, which servers are (T24, S105).

Linux lets any process of a user read ``/proc/PID/environ`` and ``/proc/PID/mem`` of another, unless that one says no.
A server is given its own variables only; without this it could look up all others, the keys of every client included.
Root is not kept out, and neither are files that the user may read: that takes a sandbox.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_PR_SET_DUMPABLE: Final = 4


def conceal() -> bool:
    """Refuse to be read or traced by other processes of the same user, and to leave a core file (prctl(2)).

    What is executed from here decides anew for itself. Returns False where the system has no such thing.
    """
    if sys.platform != "linux":
        return False
    zero = ctypes.c_ulong(0)
    return bool(ctypes.CDLL(None).prctl(ctypes.c_int(_PR_SET_DUMPABLE), zero, zero, zero, zero) == 0)
