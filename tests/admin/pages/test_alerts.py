"""The page of alerts."""

from __future__ import annotations

from gateway.admin.pages.alerts import alerts
from tests.kit.pages import SHOWN, Told, page, visit


async def test_alerts_are_shown_and_lead_to_the_pin_they_are_about() -> None:
    shown = page(await alerts(Told().gateway, visit("/alerts"))).body.text
    assert SHOWN in shown
    assert "pin hold" in shown
    assert "calls 7" in shown
    assert "/ui/pins/server?server=" in shown
    assert "/ui/audit?event=alert.raised" in shown
