"""Chain, open calls and segment move together or not at all, whatever the disk does (S158, S160, S166)."""

from __future__ import annotations

import errno
import os
import random
import stat
from pathlib import Path

import pytest

from gateway.audit.journal import Journal
from gateway.audit.segment import Disk
from gateway.audit.verify import verify
from gateway.errors import ConfigError
from tests.kit.audit import FlakyDisk, end, events, journal, notice, read_log, start, write_log


def opened(directory: Path, disk: Disk | None = None, *, max_segment: int = 2**26) -> Journal:
    log = journal(directory, max_segment=max_segment, disk=disk)
    log.open()
    return log


def is_healthy(log: Journal) -> bool:
    return log.healthy


def heads(directory: Path) -> list[dict[str, object]]:
    return [dict(record["segment"]) for record in read_log(directory) if isinstance(record.get("segment"), dict)]  # type: ignore[arg-type]  # the filter says that it is an object


def test_a_new_log_begins_with_its_segment_head(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "audit"
    log = opened(directory)
    assert log.write([notice(1), notice(2)]) == [2, 3]
    log.sync()
    log.close()

    first = read_log(directory)[0]
    assert (first["event"], first["seq"], first["prev"]) == ("audit.segment", 1, "0" * 64)
    assert str(first["chain"]).startswith("gw1-")
    assert first["segment"] == {"number": 1, "reason": "start", "first_seq": 1, "part": 1, "parts": 1, "open": {}}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def test_a_second_run_continues_the_chain_in_a_segment_of_its_own(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    write_log(tmp_path, 3)
    records = read_log(tmp_path)

    assert [record["seq"] for record in records] == list(range(1, 9))
    assert len({record["chain"] for record in records}) == 1
    assert [head["number"] for head in heads(tmp_path)] == [1, 2]


def test_a_second_writer_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    """S171."""
    first = opened(tmp_path)
    with pytest.raises(ConfigError, match="a running gateway"):
        journal(tmp_path).open()
    first.close()

    opened(tmp_path).close()


def test_a_directory_that_cannot_be_written_is_a_config_error(tmp_path: Path) -> None:
    flaky = FlakyDisk()
    flaky.room = 0
    with pytest.raises(ConfigError, match="No space"):
        journal(tmp_path, disk=flaky.disk()).open()

    opened(tmp_path).close()
    assert verify(tmp_path).ok


def test_the_end_of_a_call_points_to_its_start(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.write([start("a"), start("b")])
    log.write([end("b"), end("a"), end("unknown")])
    log.close()

    assert [record.get("parent_seq") for record in read_log(tmp_path)] == [None, None, None, 3, 2, None]


def test_a_full_segment_is_followed_by_the_next(tmp_path: Path) -> None:
    """S166: a hundred rotations lose and double nothing."""
    log = opened(tmp_path, max_segment=1000)
    log.write([start("long")])
    for number in range(500):
        log.write([notice(number)])
    log.sync()
    log.close()
    records = read_log(tmp_path)
    written = [record["gateway"] for record in records if record["event"] == "gateway.started"]

    assert len(heads(tmp_path)) > 100
    assert {head["reason"] for head in heads(tmp_path)} == {"start", "size"}
    assert written == [{"number": number} for number in range(500)]
    assert [head["open"] for head in heads(tmp_path)][-1] == {"long": 2}
    assert verify(tmp_path).records == len(records)


def test_after_a_full_disk_the_chain_goes_on_in_a_new_segment(tmp_path: Path) -> None:
    flaky = FlakyDisk()
    log = opened(tmp_path, flaky.disk())
    log.write([start("a")])
    log.sync()
    flaky.room = 50
    with pytest.raises(OSError, match="No space"):
        log.write([end("a"), notice(1)])
    assert not is_healthy(log)
    assert log.is_open("a")
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            log.restore([])
    with pytest.raises(OSError, match="waits"):
        log.write([notice(2)])
    with pytest.raises(OSError, match="waits"):
        log.sync()

    flaky.room = None
    log.restore([notice(3)])
    assert is_healthy(log)
    log.write([end("a")])
    log.close()
    assert events(tmp_path) == ["call.start", "gateway.started", "call.end"]
    assert [head["reason"] for head in heads(tmp_path)] == ["start", "failure"]
    assert read_log(tmp_path)[-1]["parent_seq"] == 2
    assert verify(tmp_path).ok


def test_a_failed_write_does_not_take_earlier_ones_with_it(tmp_path: Path) -> None:
    flaky = FlakyDisk()
    log = opened(tmp_path, flaky.disk())
    log.write([notice(1)])
    assert log.durable_seq == 1
    flaky.room = 10
    with pytest.raises(OSError, match="No space"):
        log.write([notice(2)])

    assert log.durable_seq == 2
    log.close()
    assert events(tmp_path) == ["gateway.started"]


def test_after_a_failed_sync_nothing_of_the_group_counts(tmp_path: Path) -> None:
    flaky = FlakyDisk()
    log = opened(tmp_path, flaky.disk())
    log.write([start("a")])
    log.sync()
    log.write([end("a"), start("b")])
    flaky.sync_error = errno.EIO
    with pytest.raises(OSError, match="error"):
        log.sync()
    assert (log.durable_seq, log.is_open("a"), log.is_open("b")) == (2, True, False)

    syncs = flaky.syncs
    flaky.sync_error = None
    log.restore([notice(1)])
    log.close()
    assert flaky.syncs == syncs + 1, "the failed file must not be synced as if that could still be good"
    assert events(tmp_path) == ["call.start", "gateway.started"]
    removed = heads(tmp_path)[1]["removed_bytes"]
    assert isinstance(removed, int)
    assert removed > 0
    assert verify(tmp_path).ok


def test_a_write_whose_rest_cannot_be_saved_loses_what_was_not_durable(tmp_path: Path) -> None:
    flaky = FlakyDisk()
    log = opened(tmp_path, flaky.disk())
    log.write([notice(1)])
    flaky.room, flaky.sync_error = 10, errno.EIO
    with pytest.raises(OSError, match="No space"):
        log.write([notice(2)])
    assert log.durable_seq == 1

    flaky.room = flaky.sync_error = None
    log.restore([])
    log.close()
    assert events(tmp_path) == []
    assert verify(tmp_path).ok


def test_a_crash_between_failure_and_recovery_leaves_a_log_that_goes_on(tmp_path: Path) -> None:
    flaky = FlakyDisk()
    log = opened(tmp_path, flaky.disk())
    log.write([start("a")])
    flaky.sync_error = errno.EIO
    with pytest.raises(OSError, match="error"):
        log.sync()
    log.close()

    opened(tmp_path).close()
    assert events(tmp_path) == ["call.start", "call.orphaned"]
    assert verify(tmp_path).ok


def test_a_rotation_that_fails_stops_at_the_old_segments_end(tmp_path: Path) -> None:
    flaky = FlakyDisk()
    log = opened(tmp_path, flaky.disk(), max_segment=500)
    log.write([notice(1)])
    log.write([notice(2)])
    flaky.room = 20
    with pytest.raises(OSError, match="No space"):
        log.write([notice(3)])
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == ["00000001.jsonl", "00000002.jsonl"]

    flaky.room = None
    log.restore([])
    log.write([notice(4)])
    log.close()
    assert [record["gateway"] for record in read_log(tmp_path) if "gateway" in record] == [
        {"number": 1},
        {"number": 2},
        {"number": 4},
    ]
    assert verify(tmp_path).ok


class PowerCut:
    """A disk that remembers every write and sync, to tell what a power cut at any moment could have left."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names: dict[int, str] = {}
        self.steps: list[tuple[str, bytes | None]] = []

    def disk(self) -> Disk:
        return Disk(self._open, self._write, self._sync)

    def _open(self, path: Path, flags: int, mode: int) -> int:
        descriptor = os.open(path, flags, mode)
        self._names[descriptor] = path.name
        self.steps.append((path.name, b""))
        return descriptor

    def _write(self, descriptor: int, data: bytes | memoryview) -> int:
        self.steps.append((self._names[descriptor], bytes(data)))
        return os.write(descriptor, data)

    def _sync(self, descriptor: int) -> None:
        self.steps.append((self._names[descriptor], None))

    def leave(self, target: Path, steps: int, dice: random.Random) -> None:
        """Write what is left after so many steps: all that was synced, and the beginning of what was not."""
        safe: dict[str, bytes] = {}
        loose: dict[str, bytes] = {}
        for name, data in self.steps[:steps]:
            if data is None:
                safe[name] = safe.get(name, b"") + loose.pop(name, b"")
            else:
                loose[name] = loose.get(name, b"") + data
        target.mkdir()
        for name in {*safe, *loose}:
            rest = loose.get(name, b"")
            (target / name).write_bytes(safe.get(name, b"") + rest[: dice.randrange(len(rest) + 1)])


def test_a_power_cut_at_any_moment_leaves_every_record_that_was_durable(tmp_path: Path) -> None:
    """S160: a replay of all writes, cut after each of them."""
    cut = PowerCut(tmp_path / "log")
    log = opened(tmp_path / "log", cut.disk(), max_segment=3000)
    durable_after: list[tuple[int, int]] = []
    for number in range(40):
        log.write([start(f"c{number}")])
        log.write([end(f"c{number}"), notice(number)])
        log.sync()
        durable_after.append((len(cut.steps), log.durable_seq))
    log.close()

    dice = random.Random(3)
    for steps in range(1, len(cut.steps) + 1):
        left = tmp_path / f"left-{steps}"
        cut.leave(left, steps, dice)
        opened(left).close()
        promised = max([seq for at, seq in durable_after if at <= steps], default=0)
        assert verify(left).ok
        assert verify(left).records > promised
    assert len(heads(tmp_path / "log")) > 5


def test_a_removed_directory_is_waited_for(tmp_path: Path) -> None:
    directory = tmp_path / "audit"
    log = opened(directory)
    log.write([notice(1)])
    log.sync()
    directory.rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        log.write([notice(2)])
    with pytest.raises(FileNotFoundError):
        log.restore([])
    assert not directory.exists()

    (tmp_path / "away").rename(directory)
    log.restore([])
    log.write([notice(3)])
    log.close()
    assert events(directory) == ["gateway.started", "gateway.started"]
    assert verify(directory).ok


def test_a_segment_moved_by_log_rotation_is_not_written_any_more(tmp_path: Path) -> None:
    """S166."""
    log = opened(tmp_path)
    log.write([notice(1)])
    log.sync()
    (tmp_path / "00000001.jsonl").rename(tmp_path / "rotated")
    with pytest.raises(FileNotFoundError):
        log.write([notice(2)])
    log.restore([])
    log.close()
    (tmp_path / "rotated").rename(tmp_path / "00000001.jsonl")

    assert verify(tmp_path).ok


def test_the_lock_is_taken_again_in_a_new_directory(tmp_path: Path) -> None:
    directory = tmp_path / "audit"
    log = opened(directory)
    directory.rename(tmp_path / "away")
    directory.mkdir()
    other = opened(directory)
    with pytest.raises(OSError, match="moved"):
        log.write([notice(1)])
    with pytest.raises(ConfigError, match="a running gateway"):
        log.restore([])
    other.close()
    log.close()


def test_dev_full_is_a_full_disk(tmp_path: Path) -> None:
    def open_full(path: Path, flags: int, mode: int) -> int:
        path.touch()
        return os.open("/dev/full", os.O_WRONLY)

    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with pytest.raises(ConfigError, match="No space"):
        journal(tmp_path, disk=Disk(open=open_full)).open()
