"""Every behaviour of the matrix, in the order of the table; a new one is one more row of a tuple."""

from __future__ import annotations

from typing import Final

from tests.matrix import asking, changing, extending, plain
from tests.matrix.cells import Behaviour

BEHAVIOURS: Final[tuple[Behaviour, ...]] = (
    *plain.BEHAVIOURS,
    *asking.BEHAVIOURS,
    *changing.BEHAVIOURS,
    *extending.BEHAVIOURS,
)
