"""Charts as SVG, drawn from numbers alone: stacked bars, and lines over a scale that doubles by tens. Pure.

Colours come from the style sheet by class, so that they follow dark mode; what a chart shows stands in a table too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from gateway.admin.pages.markup import Html, el
from gateway.admin.views import Tally

WIDTH, HEIGHT = 1160, 150
_LEFT, _TOP, _FOOT = 52, 8, 20
_SLOW_MS: Final = 100_000.0
_LABELS: Final = (
    (1.0, "1 ms"),
    (10.0, "10 ms"),
    (100.0, "100 ms"),
    (1000.0, "1 s"),
    (10_000.0, "10 s"),
    (100_000.0, "100 s"),
)


def ends(tallies: Sequence[Tally], step: float, label: str) -> Html:
    """Draw how calls ended in each step: bars of those that went well, were refused, and failed."""
    most = _round_up(max((each.calls for each in tallies), default=0))
    width = (WIDTH - _LEFT) / max(1, len(tallies))
    shapes: list[Html] = [_rule(most, most), _rule(most // 2, most) if most > 1 else _rule(0, most), _rule(0, most)]
    for index, each in enumerate(tallies):
        y = float(_TOP + HEIGHT)
        for kind, count in (("ok", each.ok), ("refused", each.refused), ("failed", each.failed)):
            height = HEIGHT * count / most
            y -= height
            if count:
                ago = _ago((len(tallies) - 1 - index) * step)
                title = el("title", None, f"{ago}: {count:,} {kind}")
                box = _box(_LEFT + index * width, y, max(width - 1, 0.5), height)
                shapes.append(el("rect", {**box, "class": f"bar {kind}"}, title))
    return _drawing(shapes, len(tallies) * step, label)


def durations(tallies: Sequence[Tally], step: float, label: str) -> Html:
    """Draw under how many milliseconds half and 95 of 100 calls were, where there were any."""
    width = (WIDTH - _LEFT) / max(1, len(tallies))
    shapes = [el("line", {**_across(_height_of(at)), "class": "rule"}) for at, _ in _LABELS]
    shapes += [_label(_height_of(at), words) for at, words in _LABELS]
    for kind in ("half", "most"):
        values = [each.half_ms if kind == "half" else each.most_ms for each in tallies]
        for start, run in _runs(values):
            points = [(_LEFT + (start + at + 0.5) * width, _height_of(value)) for at, value in enumerate(run)]
            if len(points) == 1:
                shapes.append(el("circle", {"cx": _n(points[0][0]), "cy": _n(points[0][1]), "r": "2.5", "class": kind}))
            path = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
            shapes.append(el("polyline", {"points": path, "class": f"line {kind}"}))
    return _drawing(shapes, len(tallies) * step, label)


def share(tally: Tally, most: int) -> Html:
    """Draw one small bar of how calls ended, as long as they are many."""
    shapes, x = [], 0.0
    for kind, count in (("ok", tally.ok), ("refused", tally.refused), ("failed", tally.failed)):
        width = 120 * count / max(most, 1)
        if count:
            shapes.append(el("rect", {**_box(x, 0, max(width, 0.5), 12), "class": f"bar {kind}"}))
        x += width
    return el("svg", {"viewBox": "0 0 120 12", "class": "share", "aria-hidden": "true"}, shapes)


def _drawing(shapes: Sequence[Html], seconds: float, label: str) -> Html:
    foot = _TOP + HEIGHT + 14
    then = el("text", {"x": _n(_LEFT), "y": _n(foot), "class": "axis"}, _ago(seconds))
    now = el("text", {"x": _n(WIDTH), "y": _n(foot), "class": "axis end"}, "now")
    box = f"0 0 {WIDTH} {_TOP + HEIGHT + _FOOT}"
    drawn = el("svg", {"viewBox": box, "class": "chart", "role": "img", "aria-label": label}, list(shapes), then, now)
    return el("div", {"class": "plot"}, drawn)


def _rule(count: int, most: int) -> Html:
    y = _TOP + HEIGHT - HEIGHT * count / most
    return el("g", None, el("line", {**_across(y), "class": "rule"}), _label(y, f"{count:,}"))


def _label(y: float, words: str) -> Html:
    return el("text", {"x": _n(_LEFT - 6), "y": _n(y + 4), "class": "axis end"}, words)


def _across(y: float) -> dict[str, str]:
    return {"x1": _n(_LEFT), "x2": _n(WIDTH), "y1": _n(y), "y2": _n(y)}


def _box(x: float, y: float, width: float, height: float) -> dict[str, str]:
    return {"x": _n(x), "y": _n(y), "width": _n(width), "height": _n(height)}


def _height_of(ms: float) -> float:
    place = math.log10(min(max(ms, 1.0), _SLOW_MS)) / math.log10(_SLOW_MS)
    return _TOP + HEIGHT * (1 - place)


def _runs(values: Sequence[float | None]) -> list[tuple[int, list[float]]]:
    """Split where there is nothing; each run with where it begins."""
    found: list[tuple[int, list[float]]] = []
    for index, value in enumerate(values):
        if value is None:
            continue
        if index and found and values[index - 1] is not None:
            found[-1][1].append(value)
        else:
            found.append((index, [value]))
    return found


def _round_up(count: int) -> int:
    """Return the next of 1, 2, 5, 10, 20 …"""
    power = 1
    while power < count:
        for first in (1, 2, 5):
            if first * power >= count:
                return first * power
        power *= 10
    return power


def _ago(seconds: float) -> str:
    if seconds < 60:
        return "now"
    minutes = round(seconds / 60)
    return f"{minutes} min ago" if minutes < 120 else f"{minutes // 60} h ago"


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
