"""The page of charts."""

from __future__ import annotations

from dataclasses import replace

from gateway.admin.pages.traffic import traffic
from gateway.admin.views import Chosen
from tests.kit.pages import HOSTILE, SHOWN, Told, page, visit


async def test_calls_are_drawn_and_stand_in_numbers_too() -> None:
    shown = page(await traffic(Told().gateway, visit("/traffic"))).body.text
    assert "10 calls in 1h: 8 ok, 1 refused, 1 failed" in shown
    assert shown.count("<svg") == 3
    assert SHOWN in shown
    assert "500 ms" in shown
    assert "The charts in numbers" in shown


async def test_what_is_chosen_is_asked_and_what_is_no_choice_is_the_first() -> None:
    told = Told()
    chosen = {"window": "6h", "by": "client", "client": HOSTILE, "server": "a", "tool": "a/x"}
    shown = page(await traffic(told.gateway, replace(visit("/traffic"), query=chosen))).body.text
    assert told.asked == [("traffic", Chosen(21_600.0, "client", HOSTILE, "a", "a/x"))]
    assert "server=a" in shown
    await traffic(told.gateway, visit("/traffic", window="9y", by="colour"))
    assert told.asked[-1] == ("traffic", Chosen(3600.0, "tool"))
