"""How long to wait after a failure: longer each time, never in step with others. Pure but for chance."""

from __future__ import annotations

import random
from typing import Final

FIRST: Final = 0.5
LONGEST: Final = 300.0
_MAX_DOUBLINGS: Final = 16


def delay(failures: int, first: float = FIRST, longest: float = LONGEST, jitter: float | None = None) -> float:
    """Return the seconds to wait after so many failures in a row (1 or more).

    ``jitter`` is between 0 and 1; by default it is drawn. The result lies between half of the full wait and all of it.
    """
    full = min(longest, first * 2.0 ** min(failures - 1, _MAX_DOUBLINGS))
    share = random.random() if jitter is None else jitter
    return full * (0.5 + share / 2)
