"""Every behaviour of the protocol in every cell: clients of both eras, servers of both eras, on both transports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.matrix.behaviours import BEHAVIOURS
from tests.matrix.cells import CELLS, Behaviour, Bench, Cell, Matrix, matrix

CASES: Final = {f"{behaviour.name}: {cell}": (behaviour, cell) for behaviour in BEHAVIOURS for cell in CELLS}

TRIED: Final[set[tuple[Behaviour, Cell]]] = set()
"""What has run and held."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    """Serve all four kinds of servers through one gateway."""
    with matrix(tmp_path_factory.mktemp("cells")) as running:
        yield running


@pytest.mark.parametrize(("behaviour", "cell"), CASES.values(), ids=CASES)
async def test_a_cell_behaves_as_the_protocol_says(table: Matrix, behaviour: Behaviour, cell: Cell) -> None:
    instead = behaviour.in_cell(cell)
    await (instead or behaviour).run(Bench(cell, table))
    TRIED.add((behaviour, cell))


def test_every_cell_of_the_table_was_tried(request: pytest.FixtureRequest) -> None:
    """The documentation says no more than what has run: in a whole run all of it, in a part that part."""
    chosen = [item.name.partition("[")[2][:-1] for item in request.session.items if item.path == request.path]

    assert {CASES[name] for name in chosen if name} <= TRIED
