"""What ``docs/protocol.md`` says of each cell is what the tests try there."""

from __future__ import annotations

from tests.kit.gateway import ROOT
from tests.matrix.behaviours import BEHAVIOURS
from tests.matrix.cells import CELLS
from tests.matrix.table import BEGIN, END, YES, render, written

PAGE = ROOT / "docs" / "protocol.md"


def test_the_page_has_the_table_of_the_tests() -> None:
    page = PAGE.read_text("utf-8")

    assert written(page) == page, "run `python docs/generate_protocol.py`"


def test_a_cell_says_yes_or_gives_a_reason() -> None:
    rows = [line for line in render().splitlines() if line.startswith("| **")]

    assert len(rows) == len(BEHAVIOURS)
    for row in rows:
        cells = row.strip("| ").split(" | ")[1:]
        assert len(cells) == len(CELLS)
        assert all(cell == YES or cell.startswith("no (") for cell in cells)


def test_every_reason_stands_for_some_cell_and_no_behaviour_is_missing_everywhere() -> None:
    for behaviour in BEHAVIOURS:
        found = [behaviour.in_cell(cell) for cell in CELLS]
        assert None in found, behaviour.name
        assert all(each in found for each in behaviour.instead), behaviour.name
        assert behaviour.means.endswith("."), behaviour.name


def test_names_of_behaviours_are_unique() -> None:
    names = [behaviour.name for behaviour in BEHAVIOURS]

    assert len(names) == len(set(names))


def test_a_page_whose_table_is_old_is_written_anew_and_nothing_else_of_it() -> None:
    page = written(f"before {BEGIN} old {END} after")

    assert page.startswith(f"before {BEGIN}\n")
    assert page.endswith(f"{END} after")
    assert " old " not in page
