"""The pin file: written at first sight, never changed by itself, never trusted when damaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.pinning.fingerprint import Fingerprint
from gateway.pinning.pins import Pins

SEEN = Fingerprint("c", "2026-07-28", "s", "k", "i", {"tool:a": "1"})
CHANGED = replace(SEEN, definitions={"tool:a": "2"})


def test_the_first_sight_is_recorded_and_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "pins.json"
    pins = Pins(path)
    assert pins.state("a") == "unknown"
    assert pins.check("a", SEEN) is None
    assert path.stat().st_mode & 0o077 == 0
    again = Pins(path)
    assert again.check("a", SEEN) == ()
    assert again.state("a") == "recorded"


def test_a_change_is_news_once_and_stays_known(tmp_path: Path) -> None:
    """G110: nothing is silently trusted again, also not after a restart."""
    pins = Pins(tmp_path / "pins.json")
    pins.check("a", SEEN)
    assert [item.name for item in pins.check("a", CHANGED) or ()] == ["tool:a"]
    assert pins.check("a", CHANGED) == ()
    assert (pins.state("a"), [item.name for item in pins.changed("a")]) == ("changed", ["tool:a"])
    again = Pins(tmp_path / "pins.json")
    assert [item.name for item in again.check("a", CHANGED) or ()] == ["tool:a"]


def test_a_server_that_is_again_what_it_was_is_no_longer_changed(tmp_path: Path) -> None:
    pins = Pins(tmp_path / "pins.json")
    pins.check("a", SEEN)
    pins.check("a", CHANGED)
    assert pins.check("a", SEEN) == ()
    assert pins.state("a") == "recorded"
    assert len(pins.check("a", CHANGED) or ()) == 1


def test_a_pin_that_cannot_be_written_is_not_taken_for_recorded(tmp_path: Path) -> None:
    """S142."""
    pins = Pins(tmp_path / "gone" / "pins.json")
    with pytest.raises(FileNotFoundError):
        pins.check("a", SEEN)
    assert pins.state("a") == "unknown"


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b'{"v":2,"servers":{}}',
        b'{"v":1,"servers":[]}',
        b'{"v":1,"servers":{"a":1}}',
        b'{"v":1,"servers":{"a":{"config":1,"version":"","server_info":"","capabilities":"","instructions":"","definitions":{}}}}',
        b'{"v":1,"servers":{"a":{"config":"","version":"","server_info":"","capabilities":"","instructions":"","definitions":{"x":1}}}}',
        b"\xff",
    ],
)
def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path, damage: bytes) -> None:
    """G113."""
    path = tmp_path / "pins.json"
    path.write_bytes(damage)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="pin file cannot be used"):
        Pins(path)
    assert path.read_bytes() == damage


def test_a_cut_file_is_refused_at_every_length(tmp_path: Path) -> None:
    """G113."""
    path = tmp_path / "pins.json"
    Pins(path).check("a", SEEN)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 2, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(ConfigError):
            Pins(path)


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    """G113."""
    path = tmp_path / "pins.json"
    Pins(path).check("a", SEEN)
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="others than its owner"):
        Pins(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pins.json"
    path.mkdir(0o700)
    with pytest.raises(ConfigError, match="pin file"):
        Pins(path)
