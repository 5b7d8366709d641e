"""What a connection is made from."""

from __future__ import annotations

from gateway.downstream.setup import Setup
from tests.kit.transport import MODERN, Farm, server


def test_by_itself_a_setup_is_everybodys_and_neither_listens_nor_asks_nor_authorizes() -> None:
    setup = Setup("a", server(), Farm(MODERN))
    assert (setup.whose, setup.listens, setup.era, setup.authorizer, setup.fingerprint) == ("", False, None, None, "")
    assert setup.asking.declares == {}


def test_two_setups_share_nothing_that_could_change() -> None:
    first, second = (Setup("a", server(), Farm(MODERN)) for _ in range(2))
    assert first.asking is not second.asking
    assert first.inspector is not second.inspector
