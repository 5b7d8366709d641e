"""The pin file: whole, private, never changed by itself, never trusted when damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.pinning.fingerprint import Known
from gateway.pinning.pins import PIN_FILE, Overtaken, Pin, Pins
from gateway.state.documents import Conflict
from gateway.state.folder import FolderDocuments

PIN = Pin(
    {"origin": "https://a:443"},
    Known("d", "text\u200b"),
    {"tool:a": (Known("1", '{"name":"a"}'), Known("2", '{"name":"a","x":1}'))},
    {"tool:b": "3"},
    "2026-01-01T00:00:00+00:00",
)


def pins_of(path: Path) -> Pins:
    assert path.name == PIN_FILE
    return Pins(FolderDocuments(path.parent))


def test_a_pin_survives_a_restart_whole(tmp_path: Path) -> None:
    """S131: the file round-trips."""
    path = tmp_path / "pins.json"
    pins = pins_of(path)
    assert pins.get("a") is None
    pins.save("a", PIN, None)
    pins.save("b", Pin(), None)
    assert path.stat().st_mode & 0o077 == 0
    again = pins_of(path)
    assert (again.get("a"), again.get("b")) == (PIN, Pin())
    again.save("a", None, PIN)
    assert (pins_of(path).get("a"), pins_of(path).get("b")) == (None, Pin())


def test_a_pin_counts_only_once_it_is_durable(tmp_path: Path) -> None:
    """S142."""
    pins = pins_of(tmp_path / "gone" / "pins.json")
    with pytest.raises(FileNotFoundError):
        pins.save("a", PIN, None)
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
        pins_of(path)
    assert path.read_bytes() == damage


def test_a_cut_file_is_refused_at_every_length(tmp_path: Path) -> None:
    """G113."""
    path = tmp_path / "pins.json"
    pins_of(path).save("a", PIN, None)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 2, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(ConfigError):
            pins_of(path)


def test_a_file_of_the_form_before_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "pins.json"
    path.write_text('{"v":1,"servers":{}}')
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="remove it to have every server recorded anew"):
        pins_of(path)


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    """G113."""
    path = tmp_path / "pins.json"
    pins_of(path).save("a", PIN, None)
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="others than its owner"):
        pins_of(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pins.json"
    path.mkdir(0o700)
    with pytest.raises(ConfigError, match="pin file"):
        pins_of(path)


def test_of_two_replicas_the_slower_one_learns_what_won(tmp_path: Path) -> None:
    """S142: the first sight is the same for everybody."""
    one, two = pins_of(tmp_path / PIN_FILE), pins_of(tmp_path / PIN_FILE)
    one.save("a", PIN, None)
    with pytest.raises(Overtaken):
        two.save("a", Pin(at="later"), None)
    assert two.get("a") == PIN
    assert two.take_changed() == {"a": None}
    assert two.take_changed() == {}
    two.save("a", Pin(at="approved"), PIN)
    two.save("b", Pin(), None)
    one.refresh()
    assert (one.get("a"), one.get("b")) == (Pin(at="approved"), Pin())
    assert one.take_changed() == {"a": PIN, "b": None}


def test_what_others_wrote_of_other_servers_is_kept(tmp_path: Path) -> None:
    one, two = pins_of(tmp_path / PIN_FILE), pins_of(tmp_path / PIN_FILE)
    one.save("a", PIN, None)
    two.save("b", Pin(), None)
    one.save("a", None, PIN)
    again = pins_of(tmp_path / PIN_FILE)
    assert (again.get("a"), again.get("b")) == (None, Pin())


def test_what_is_damaged_later_changes_nothing_and_is_not_written_over(tmp_path: Path) -> None:
    """G113."""
    pins = pins_of(tmp_path / PIN_FILE)
    pins.save("a", PIN, None)
    (tmp_path / PIN_FILE).write_text("{")
    with pytest.raises(ConfigError):
        pins.refresh()
    with pytest.raises(ConfigError):
        pins.save("b", Pin(), None)
    assert (pins.get("a"), pins.get("b")) == (PIN, None)
    assert (tmp_path / PIN_FILE).read_text() == "{"


class Busy(FolderDocuments):
    """Documents of which somebody else is faster, always."""

    def replace(self, name: str, data: bytes | None, expected: str | None) -> str:
        raise Conflict(name)


def test_who_is_always_too_slow_gives_up(tmp_path: Path) -> None:
    pins = Pins(Busy(tmp_path))
    with pytest.raises(OSError, match="all the time"):
        pins.save("a", PIN, None)
    assert pins.get("a") is None


def test_who_asks_what_others_changed_never_waits_for_a_write(tmp_path: Path) -> None:
    """It is asked on the event loop, and a database may be slow."""
    pins = Pins(FolderDocuments(tmp_path))
    with pins._lock:
        assert pins.take_changed() == {}
