"""The end of what a credential allowed, on time: streams when it expires, calls a little later (S52).

Every request proves itself; what outlives its request has nothing else to end it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from gateway.model.principal import Principal

CALL_GRACE: Final = 60.0
"""Seconds a running call may take longer than the token it came with, so that no short answer is lost."""


@contextmanager
def ended_with(principal: Principal, end: Callable[[], None], grace: float = 0.0) -> Iterator[None]:
    """Call ``end`` once the principal's credential is over by ``grace`` seconds, unless the block is left before."""
    if principal.expires is None:
        yield
        return
    delay = max(0.0, principal.expires + grace - time.time())
    timer = asyncio.get_running_loop().call_later(delay, end)
    try:
        yield
    finally:
        timer.cancel()
