"""The pin file: whole, private, never changed by itself, never trusted when damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.pinning.fingerprint import Known
from gateway.pinning.pins import Pin, Pins

PIN = Pin(
    {"origin": "https://a:443"},
    Known("d", "text\u200b"),
    {"tool:a": (Known("1", '{"name":"a"}'), Known("2", '{"name":"a","x":1}'))},
    {"tool:b": "3"},
    "2026-01-01T00:00:00+00:00",
)


def test_a_pin_survives_a_restart_whole(tmp_path: Path) -> None:
    """S131: the file round-trips."""
    path = tmp_path / "pins.json"
    pins = Pins(path)
    assert pins.get("a") is None
    pins.save("a", PIN)
    pins.save("b", Pin())
    assert path.stat().st_mode & 0o077 == 0
    again = Pins(path)
    assert (again.get("a"), again.get("b")) == (PIN, Pin())
    again.save("a", None)
    assert (Pins(path).get("a"), Pins(path).get("b")) == (None, Pin())


def test_a_pin_counts_only_once_it_is_durable(tmp_path: Path) -> None:
    """S142."""
    pins = Pins(tmp_path / "gone" / "pins.json")
    with pytest.raises(FileNotFoundError):
        pins.save("a", PIN)
    assert pins.get("a") is None


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b'{"v":3,"servers":{}}',
        b'{"v":2,"servers":[]}',
        b'{"v":2,"servers":{"a":1}}',
        b'{"v":2,"servers":{"a":{}}}',
        b'{"v":2,"servers":{"a":{"at":"","facts":{"x":1},"instructions":{"digest":"","text":""},"definitions":{},"rejected":{}}}}',
        b'{"v":2,"servers":{"a":{"at":"","facts":{},"instructions":{"digest":""},"definitions":{},"rejected":{}}}}',
        b'{"v":2,"servers":{"a":{"at":"","facts":{},"instructions":{"digest":"","text":""},"definitions":{"x":[]},"rejected":{}}}}',
        b'{"v":2,"servers":{"a":{"at":"","facts":{},"instructions":{"digest":"","text":""},"definitions":{"x":{}},"rejected":{}}}}',
        b'{"v":2,"servers":{"a":{"at":"","facts":{},"instructions":{"digest":"","text":""},"definitions":{},"rejected":[]}}}',
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
    Pins(path).save("a", PIN)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 2, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(ConfigError):
            Pins(path)


def test_a_file_of_the_form_before_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "pins.json"
    path.write_text('{"v":1,"servers":{}}')
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="remove it to have every server recorded anew"):
        Pins(path)


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    """G113."""
    path = tmp_path / "pins.json"
    Pins(path).save("a", PIN)
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="others than its owner"):
        Pins(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pins.json"
    path.mkdir(0o700)
    with pytest.raises(ConfigError, match="pin file"):
        Pins(path)
