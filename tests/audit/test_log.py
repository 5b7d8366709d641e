"""The audit log as calls see it, up to a process that is killed in the middle of everything (S157–S162, R-C15)."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest

from gateway.audit.committer import NoMeters
from gateway.audit.log import AuditLog, AuditOptions
from gateway.audit.segment import Disk
from gateway.audit.sidecars import Sidecar, Sidecars
from gateway.audit.verify import verify
from gateway.config.root import Audit
from gateway.errors import AuditUnavailable, ConfigError
from gateway.protocol.rawjson import Object
from tests.kit.audit import FlakyDisk, end, events, notice, read_log, start

ROOT = Path(__file__).parents[2]
KILLS = 36


async def opened(options: AuditOptions) -> AuditLog:
    log = AuditLog(options)
    await log.open()
    return log


def is_healthy(log: AuditLog) -> bool:
    return log.healthy


class SlowDisk(FlakyDisk):
    """A disk whose syncs wait to be let through, one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    def disk(self) -> Disk:
        return Disk(sync=self._wait)

    def _wait(self, descriptor: int) -> None:
        self.syncs += 1
        if self.syncs > 1:
            self.reached.release()
            assert self.go.acquire(timeout=5)


async def test_a_record_has_its_number_its_time_and_its_place(tmp_path: Path) -> None:
    log = await opened(AuditOptions(tmp_path / "audit", facts={"config_sha256": "51d0"}))
    assert await log.append(start("a"), durable=True) == 2
    assert await log.append(end("a"), durable=False) == 3
    log.note(notice(1))
    await log.aclose()

    head, first, last, noted = read_log(tmp_path / "audit")
    assert isinstance(head["segment"], dict)
    assert head["segment"]["config_sha256"] == "51d0"
    assert (first["event"], last["event"], noted["event"]) == ("call.start", "call.end", "gateway.started")
    assert last["parent_seq"] == 2
    assert str(first["ts"]).endswith("Z")
    assert len(str(first["ts"])) == len("2026-08-23T10:00:00.123456Z")
    assert isinstance(first["mono_us"], int)


async def test_many_calls_at_once_leave_one_trail_each(tmp_path: Path) -> None:
    """S157: starts equal ends, and every end comes after its start."""
    log = await opened(AuditOptions(tmp_path, max_segment=100_000))

    async def call(number: int) -> None:
        begun = await log.append(start(f"c{number}"), durable=True)
        assert await log.append(end(f"c{number}"), durable=False) > begun

    await asyncio.gather(*(call(number) for number in range(1500)))
    await log.aclose()
    records = read_log(tmp_path)
    starts = {record["call_id"]: record["seq"] for record in records if record["event"] == "call.start"}
    ends = {record["call_id"]: record["parent_seq"] for record in records if record["event"] == "call.end"}

    assert len(starts) == 1500
    assert starts == ends
    assert verify(tmp_path).records == len(records)


@pytest.mark.parametrize(
    ("durability", "durable", "waits"),
    [("each", False, True), ("group", True, True), ("group", False, False), ("interval", True, False)],
)
async def test_durability_says_who_waits_for_the_disk(
    tmp_path: Path, durability: Literal["each", "group", "interval"], durable: bool, waits: bool
) -> None:
    slow = SlowDisk()
    log = await opened(AuditOptions(tmp_path, durability, disk=slow.disk(), sync_interval=0.0))
    async with asyncio.TaskGroup() as group:
        appended = group.create_task(log.append(notice(1), durable=durable))
        assert await asyncio.to_thread(slow.reached.acquire, timeout=5)
        if not waits:
            await asyncio.wait_for(asyncio.shield(appended), 5)
        assert appended.done() is not waits
        slow.go.release(10)
    assert appended.result() == 2
    await log.aclose()


async def test_a_slow_disk_makes_groups_larger_and_stops_no_loop(tmp_path: Path) -> None:
    """G133: fifty calls meet a disk that is stuck; they share the next sync, and the loop runs on."""
    slow = SlowDisk()
    log = await opened(AuditOptions(tmp_path, disk=slow.disk()))
    async with asyncio.TaskGroup() as group:
        group.create_task(log.append(start("first"), durable=True))
        assert await asyncio.to_thread(slow.reached.acquire, timeout=5)
        for number in range(50):
            group.create_task(log.append(start(f"c{number}"), durable=True))
        for _ in range(100):
            await asyncio.sleep(0)
        slow.go.release(10)

    assert slow.syncs == 3, "one for the segment's head, one for the first call, one for the other fifty"
    await log.aclose()


async def test_a_cancelled_caller_leaves_its_record(tmp_path: Path) -> None:
    slow = SlowDisk()
    log = await opened(AuditOptions(tmp_path, disk=slow.disk()))
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(log.append(start("a"), durable=True))
        assert await asyncio.to_thread(slow.reached.acquire, timeout=5)
        waiting.cancel()
    assert waiting.cancelled()
    slow.go.release(10)
    await log.append(end("a"), durable=False)
    await log.aclose()

    assert events(tmp_path) == ["call.start", "call.end"]


async def test_a_closed_log_refuses_calls_while_the_disk_is_full_and_recovers_alone(tmp_path: Path) -> None:
    """S158, G107."""
    flaky = FlakyDisk()
    log = await opened(AuditOptions(tmp_path, disk=flaky.disk(), probe_interval=0.01))
    await log.append(start("before"), durable=True)
    flaky.room = 100
    for number in range(20):
        with pytest.raises(AuditUnavailable):
            await log.append(start(f"refused-{number}"), durable=True)
    assert not is_healthy(log)

    flaky.room = None
    async with asyncio.timeout(5):
        while not is_healthy(log):
            await asyncio.sleep(0)
    await log.append(end("before"), durable=False)
    await log.aclose()
    assert events(tmp_path) == ["call.start", "audit.gap", "call.end"]
    assert verify(tmp_path).ok


async def test_an_open_log_answers_zero_and_states_the_gap_first(tmp_path: Path) -> None:
    """S159."""
    flaky = FlakyDisk()
    log = await opened(AuditOptions(tmp_path, on_failure="open", disk=flaky.disk(), probe_interval=0.0))
    flaky.sync_error = errno.EIO
    assert [await log.append(start(f"c{number}"), durable=True) for number in range(3)] == [0, 0, 0]

    flaky.sync_error = None
    assert await log.append(start("after"), durable=True) > 0
    await log.aclose()
    assert events(tmp_path)[0] == "audit.gap"
    assert "call.start" in events(tmp_path)
    assert verify(tmp_path).ok


async def test_a_failing_system_call_is_never_repeated_as_if_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S160: EIO from the kernel's own call."""
    log = await opened(AuditOptions(tmp_path))
    synced: list[tuple[int, int]] = []
    real = os.fsync

    def fail_once(descriptor: int) -> None:
        found = os.fstat(descriptor)
        synced.append((found.st_dev, found.st_ino))
        if len(synced) == 1:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", fail_once, raising=False)
    with pytest.raises(AuditUnavailable):
        await log.append(start("a"), durable=True)
    assert await log.append(start("b"), durable=True) > 0
    await log.aclose()

    assert synced.count(synced[0]) == 1
    assert "call.start" in events(tmp_path)
    assert verify(tmp_path).ok


@pytest.mark.parametrize("fault", ["removed", "read_only", "forbidden"])
async def test_a_directory_that_cannot_be_written_refuses_calls_until_it_can(tmp_path: Path, fault: str) -> None:
    """S158: the directory is gone, mounted read-only, or not ours to write any more."""
    directory, flaky = tmp_path / "audit", FlakyDisk()
    # With segments this small every record needs a new file.
    log = await opened(AuditOptions(directory, probe_interval=0.0, max_segment=1, disk=flaky.disk()))
    match fault:
        case "removed":
            directory.rename(tmp_path / "away")
        case "read_only":
            flaky.open_error = errno.EROFS
        case "forbidden":
            flaky.open_error = errno.EACCES
    for _ in range(3):
        with pytest.raises(AuditUnavailable):
            await log.append(start("a"), durable=True)

    flaky.open_error = None
    if fault == "removed":
        (tmp_path / "away").rename(directory)
    assert await log.append(start("b"), durable=True) > 0
    await log.aclose()
    assert "audit.gap" in events(directory)
    assert verify(directory).ok


class Counting(NoMeters):
    def __init__(self) -> None:
        self.failures: list[str] = []
        self.lost = 0

    def failed(self, reason: str) -> None:
        self.failures.append(reason)

    def dropped(self, records: int) -> None:
        self.lost += records


async def test_a_full_queue_refuses_at_once(tmp_path: Path) -> None:
    slow, counting = SlowDisk(), Counting()
    log = await opened(AuditOptions(tmp_path, queue=2, disk=slow.disk(), meters=counting))
    async with asyncio.TaskGroup() as group:
        group.create_task(log.append(start("writing"), durable=True))
        assert await asyncio.to_thread(slow.reached.acquire, timeout=5)
        group.create_task(log.append(start("queued-1"), durable=True))
        group.create_task(log.append(start("queued-2"), durable=True))
        await asyncio.sleep(0)
        with pytest.raises(AuditUnavailable):
            await log.append(start("refused"), durable=True)
        slow.go.release(10)
    await log.aclose()

    assert (counting.failures, counting.lost) == (["queue_full"], 1)
    assert sorted(map(str, events(tmp_path))) == ["audit.gap", "call.start", "call.start", "call.start"]


async def test_a_second_log_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    """S171."""
    first = await opened(AuditOptions(tmp_path))
    with pytest.raises(ConfigError, match="a running gateway"):
        await AuditLog(AuditOptions(tmp_path)).open()
    await first.aclose()

    await (await opened(AuditOptions(tmp_path))).aclose()


async def test_a_log_that_is_not_open_takes_no_records(tmp_path: Path) -> None:
    log = AuditLog(AuditOptions(tmp_path))
    assert not is_healthy(log)
    with pytest.raises(AuditUnavailable):
        await log.append(notice(1), durable=True)

    await log.open()
    assert is_healthy(log)
    await log.aclose()
    await log.aclose()
    with pytest.raises(AuditUnavailable):
        await log.append(notice(2), durable=True)


async def test_an_event_outside_the_catalogue_is_a_fault_of_its_builder(tmp_path: Path) -> None:
    log = await opened(AuditOptions(tmp_path))
    with pytest.raises(ValueError, match="unknown audit event"):
        await log.append({"event": "call.finished"}, durable=True)
    with pytest.raises(ValueError, match="unknown audit event"):
        log.note({})
    await log.aclose()


async def test_a_record_that_is_too_large_is_made_to_fit(tmp_path: Path) -> None:
    log = await opened(AuditOptions(tmp_path))
    big: Object = {
        **start("a"),
        "payload": {"args_shape": {f"key-{n}": "x" * 100 for n in range(400)}, "mode": "shape"},
    }
    await log.append(big, durable=True)
    await log.aclose()

    record = read_log(tmp_path)[1]
    assert (record["shrunk"], record["payload"], record["call_id"]) == (True, {"mode": "shape"}, "a")


def test_the_configs_section_is_read(tmp_path: Path) -> None:
    section = Audit(dir=str(tmp_path), durability="interval(1s)", on_failure="open")
    options = AuditOptions.from_config(section, tmp_path, {"config_sha256": "51d0"}, NoMeters())

    assert (options.directory, options.durability, options.on_failure) == (tmp_path, "interval", "open")
    assert AuditOptions.from_config(Audit(durability="each"), tmp_path, {}, NoMeters()).durability == "each"
    assert AuditOptions.from_config(Audit(), tmp_path, {}, NoMeters()).durability == "group"


def run_and_kill(directory: Path, durability: str, lines: int) -> list[str]:
    """Let a writer run until it has said so many lines, kill it, and return everything it ever said."""
    command = [sys.executable, "-m", "tests.kit.audit_writer", str(directory), durability]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(lines)]
        writer.kill()
        said += writer.stdout.readlines()
    return [line for line in said if line.endswith("\n")]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("durability", ["group", "each"])
def test_a_process_killed_at_any_moment_loses_nothing_it_acknowledged(tmp_path: Path, durability: str) -> None:
    """S160, S162, R-C15: kill -9 under load, again and again on the same log."""
    directory = tmp_path / "audit"
    dice = random.Random(durability)
    acknowledged: dict[int, tuple[str, str]] = {}

    for _ in range(KILLS // 2):
        for line in run_and_kill(directory, durability, dice.randrange(1, 600)):
            seq, call_id = line[1:].split()
            if line[0] != "?":
                acknowledged[int(seq)] = ("call.start" if line[0] == "+" else "call.end", call_id)
        assert verify(directory).fault is None

    asyncio.run(open_and_close(directory))
    records = {record["seq"]: record for record in read_log(directory)}
    assert verify(directory).records == len(records)
    for number, (event, call_id) in acknowledged.items():
        assert (records[number]["event"], records[number]["call_id"]) == (event, call_id)
    counts = [sum(record["event"] == event for record in records.values()) for event in ("call.start", "call.end")]
    orphans = sum(record["event"] == "call.orphaned" for record in records.values())
    assert counts[0] == counts[1] + orphans
    assert len(acknowledged) > 1000
    assert orphans > 0


async def open_and_close(directory: Path) -> None:
    await (await opened(AuditOptions(directory))).aclose()


async def test_what_stands_beside_the_chain_is_there_before_its_record_is_durable(tmp_path: Path) -> None:
    """S169; a payload that cannot be written stops calls like a record that cannot."""
    sidecars = Sidecars(tmp_path / "audit", tmp_path / "state")
    log = await opened(AuditOptions(tmp_path / "audit", sidecars=sidecars, probe_interval=0.05))
    assert log.keep(Sidecar("aa", "key:bot", b"{}"))
    await log.append(start("a"), durable=True)
    assert log.durable_seq == 2
    assert sidecars.read(frozenset({"aa"}), datetime.now(UTC)) == {"aa": b"{}"}

    (tmp_path / "audit" / "payloads").rename(tmp_path / "audit" / "moved")
    (tmp_path / "audit" / "payloads").write_text("in the way")
    assert log.keep(Sidecar("bb", "key:bot", b"{}"))
    with pytest.raises(AuditUnavailable):
        await log.append(start("b"), durable=True)
    await log.aclose()
    assert verify(tmp_path / "audit").ok


def test_the_configs_keys_sign_and_its_retention_counts(tmp_path: Path) -> None:
    options = AuditOptions.from_config(Audit(dir=str(tmp_path / "a"), retention=864_000.0), tmp_path, {}, NoMeters())
    assert options.keys is not None
    assert (options.retention, options.max_age) == (864_000.0, 86_400.0)
    assert AuditOptions.from_config(Audit(retention=3600.0), tmp_path, {}, NoMeters()).max_age == 360.0


async def test_a_fault_of_the_thread_answers_those_whose_records_it_held(tmp_path: Path) -> None:
    def broken(descriptor: int, data: bytes | memoryview) -> int:
        if b"call.start" in bytes(data):
            raise ValueError("no disk says this")
        return os.write(descriptor, data)

    log = await opened(AuditOptions(tmp_path, disk=Disk(write=broken)))
    async with asyncio.timeout(5):
        with pytest.raises(AuditUnavailable):
            await log.append(start("a"), durable=True)
    assert not is_healthy(log)
    await log.aclose()
