"""Hours hold in the zone they are written in, over midnight and through clock changes."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from gateway.policy.hours import HoursError, parse_hours

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: str = "UTC") -> datetime:
    """Read a time of the week of Monday, 2026-11-30."""
    day, _, clock = text.partition(" ")
    number = 30 + ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].index(day)
    hour, _, minute = clock.partition(":")
    month, date = (11, 30) if number == 30 else (12, number - 30)
    return datetime(2026, month, date, int(hour), int(minute), tzinfo=ZoneInfo(zone))


@pytest.mark.parametrize(
    ("hours", "inside", "outside"),
    [
        ("Mon-Fri 08:00-18:00", ["Mon 8:00", "Fri 17:59"], ["Mon 7:59", "Fri 18:00", "Sat 12:00"]),
        ("08:00-18:00 UTC", ["Sun 8:00"], ["Sun 18:00"]),
        ("Fri-Mon 00:00-24:00", ["Fri 0:00", "Sat 23:59", "Mon 12:00"], ["Tue 0:00", "Thu 23:59"]),
        ("Fri 22:00-06:00", ["Fri 22:00", "Sat 5:59"], ["Fri 21:59", "Sat 6:00", "Sat 22:00", "Fri 3:00"]),
        ("Sun 22:00-06:00", ["Sun 23:00", "Mon 5:00"], ["Mon 22:00"]),
        ("Mon-Fri 8:00-12:00, Sat 10:00-11:00", ["Mon 9:00", "Sat 10:30"], ["Sat 9:00", "Mon 12:30"]),
        ("Mon, Wed, Fri 08:00-12:00", ["Mon 9:00", "Wed 9:00", "Fri 9:00"], ["Tue 9:00", "Thu 9:00"]),
        ("mon-tue 08:00 - 12:00 UTC", ["Tue 9:00"], ["Wed 9:00"]),
        ("", ["Mon 0:00", "Sun 23:59"], []),
    ],
)
def test_a_time_is_inside_or_outside(hours: str, inside: list[str], outside: list[str]) -> None:
    parsed = parse_hours(hours)
    assert [time for time in inside if not parsed.hold(at(time))] == []
    assert [time for time in outside if parsed.hold(at(time))] == []


def test_times_are_those_of_the_zone_whatever_zone_the_clock_is_in() -> None:
    hours = parse_hours("Mon-Fri 08:00-18:00 Europe/Berlin")
    assert hours.hold(at("Mon 7:00"))
    assert not hours.hold(at("Mon 6:59"))
    assert hours.hold(at("Mon 8:00", "Europe/Berlin"))
    assert not hours.hold(at("Mon 8:00", "Asia/Tokyo"))


def test_a_zone_at_the_end_is_for_all_ranges_before_it_without_one() -> None:
    hours = parse_hours("Mon 08:00-09:00, Tue 08:00-09:00 Europe/Berlin, Wed 08:00-09:00 Asia/Tokyo")
    assert hours.hold(at("Mon 8:30", "Europe/Berlin"))
    assert hours.hold(at("Tue 8:30", "Europe/Berlin"))
    assert hours.hold(at("Wed 8:30", "Asia/Tokyo"))
    assert not hours.hold(at("Wed 8:30", "Europe/Berlin"))


def test_hours_follow_the_wall_clock_through_summer_time() -> None:
    hours = parse_hours("08:00-18:00 Europe/Berlin")
    assert hours.hold(datetime(2026, 7, 1, 6, 0, tzinfo=ZoneInfo("UTC")))
    assert not hours.hold(datetime(2026, 1, 1, 6, 0, tzinfo=ZoneInfo("UTC")))
    assert hours.hold(datetime(2026, 3, 29, 8, 0, tzinfo=BERLIN))
    assert hours.hold(datetime(2026, 10, 25, 17, 59, tzinfo=BERLIN))


@pytest.mark.parametrize(
    "text",
    [
        "Mon-Fri",
        "Mon-Fri Europe/Berlin",
        "Europe/Berlin",
        "8-18",
        "08:00-25:00",
        "08:60-09:00",
        "24:00-08:00",
        "08:00-08:00",
        "Mon-Fri 08:00-18:00 Mars/Olympus",
        "Mon-Fri 08:00-18:00 ../../etc/passwd",
        "Foo 08:00-18:00",
        "08:00-18:00,",
        ", 08:00-18:00",
        "08:00-18:00, Mon",
        "08:00-18:00\n09:00-10:00",
    ],
)
def test_what_names_no_hours_is_an_error(text: str) -> None:
    with pytest.raises(HoursError):
        parse_hours(text)
