"""The table of ``docs/protocol.md``, written from the behaviours that ``test_cells`` tries in every cell."""

from __future__ import annotations

from typing import Final

from tests.matrix.behaviours import BEHAVIOURS
from tests.matrix.cells import CELLS, Behaviour, Cell

BEGIN: Final = "<!-- written by docs/generate_protocol.py from the tests: begin -->"
END: Final = "<!-- end -->"
YES: Final = "yes"


def render() -> str:
    """Return the table, and the reasons that it refers to by number."""
    reasons: dict[str, int] = {}
    head = ["behaviour", *map(str, CELLS)]
    lines = [_row(head), _row(["---"] * len(head))]
    for behaviour in BEHAVIOURS:
        cells = [_shown(behaviour, cell, reasons) for cell in CELLS]
        lines.append(_row([f"**{behaviour.name}**: {behaviour.means}", *cells]))
    notes = [f"{number}. {reason[0].upper()}{reason[1:]}." for reason, number in reasons.items()]
    return "\n".join([*lines, "", *notes])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _shown(behaviour: Behaviour, cell: Cell, reasons: dict[str, int]) -> str:
    instead = behaviour.in_cell(cell)
    return YES if instead is None else f"no ({reasons.setdefault(instead.reason, len(reasons) + 1)})"


def written(page: str) -> str:
    """Return a page with the table between its marks, whatever was there."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, "the page has no mark where the table begins"
    assert end, "the page has no mark where the table ends"
    return f"{before}{BEGIN}\n\n{render()}\n\n{END}{after}"
