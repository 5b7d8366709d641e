"""Charts are drawn from numbers alone."""

from __future__ import annotations

import re

from gateway.admin.pages import chart
from gateway.admin.views import Tally
from tests.kit.pages import check


def test_each_end_of_each_step_is_a_bar_as_high_as_its_count() -> None:
    drawn = chart.ends([Tally(5, 0, 0), Tally(), Tally(5, 3, 2)], 60.0, "calls")
    check(drawn)
    heights = [(kind, float(height)) for height, kind in re.findall(r'height="([\d.]+)" class="bar (\w+)"', drawn.text)]
    assert heights == [("ok", 75.0), ("ok", 75.0), ("refused", 45.0), ("failed", 30.0)]
    assert "2 min ago: 5 ok" in drawn.text


def test_an_empty_chart_is_one_too() -> None:
    for drawn in (chart.ends([], 60.0, "none"), chart.ends([Tally()], 60.0, "none"), chart.durations([], 60.0, "none")):
        check(drawn)
        assert "bar" not in drawn.text


def test_durations_are_lines_that_break_where_nothing_was() -> None:
    steps = [Tally(1, 0, 0, 20.0, 50.0), Tally(1, 0, 0, 20.0, 1e9), Tally(), Tally(1, 0, 0, 5.0, 5.0)]
    drawn = chart.durations(steps, 60.0, "durations")
    check(drawn)
    assert len(re.findall("<polyline", drawn.text)) == 4
    assert len(re.findall("<circle", drawn.text)) == 2


def test_a_share_is_as_long_as_there_are_calls() -> None:
    whole, half = chart.share(Tally(10), 10).text, chart.share(Tally(3, 1, 1), 10).text
    assert 'width="120"' in whole
    assert re.findall(r'width="([\d.]+)"', half) == ["36", "12", "12"]
    assert "rect" not in chart.share(Tally(), 0).text
