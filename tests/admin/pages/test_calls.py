"""The page of calls that run."""

from __future__ import annotations

from dataclasses import replace

from gateway.admin.pages.calls import SIZE, calls
from tests.kit.pages import SHOWN, Told, page, visit


async def test_calls_that_run_are_shown_with_their_stage_and_lead_to_their_records() -> None:
    shown = page(await calls(Told().gateway, visit("/calls"))).body.text
    assert SHOWN in shown
    assert "waiting" in shown
    assert "1.5 s" in shown
    assert "/ui/audit?call=c1" in shown


async def test_thousands_of_them_have_pages() -> None:
    told = Told()
    told.live = tuple(replace(told.live[0], id=f"c{number}") for number in range(10 * SIZE))
    shown = page(await calls(told.gateway, visit("/calls", page="9"))).body.text
    assert shown.count("<tr>") == SIZE + 1
    assert f"call=c{9 * SIZE}" in shown


async def test_nothing_running_is_said() -> None:
    told = Told()
    told.live = ()
    assert "nothing to show" in page(await calls(told.gateway, visit("/calls"))).body.text
