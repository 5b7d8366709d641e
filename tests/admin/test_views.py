"""The values that pages are made from."""

from __future__ import annotations

from gateway.admin.views import Tally, Views
from gateway.dashboard import Dashboard


def test_a_tally_counts_every_end_once() -> None:
    assert Tally(3, 2, 1).calls == 6


def test_the_running_gateway_can_be_asked_all_of_it() -> None:
    wanted = {name for name in vars(Views) if not name.startswith("_")}
    assert wanted
    assert wanted <= set(dir(Dashboard))
