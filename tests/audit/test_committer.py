"""The writing thread, driven step by step: who is answered what, and what a failure means for each record."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from gateway.audit.committer import Answers, CommitPolicy, Committer, NoMeters, reason_of
from gateway.audit.handover import Entry, Handover
from gateway.audit.verify import verify
from gateway.errors import AuditUnavailable, ConfigError
from gateway.protocol.rawjson import Object
from tests.kit.audit import FlakyDisk, end, events, journal, notice, read_log, start


class Observed(NoMeters):
    def __init__(self) -> None:
        self.events: list[str] = []
        self.failures: list[str] = []
        self.lost = 0
        self.lags: list[int] = []
        self.syncs = 0

    def recorded(self, event: str) -> None:
        self.events.append(event)

    def failed(self, reason: str) -> None:
        self.failures.append(reason)

    def synced(self, seconds: float) -> None:
        self.syncs += 1

    def dropped(self, records: int) -> None:
        self.lost += records

    def lag(self, records: int) -> None:
        self.lags.append(records)


class Bench:
    """A committer without its thread: entries in, one step, answers out."""

    def __init__(self, directory: Path, policy: CommitPolicy | None = None, *, room: int = 100) -> None:
        self.flaky = FlakyDisk()
        self.journal = journal(directory, disk=self.flaky.disk())
        self.journal.open()
        self.handover = Handover(room)
        self.seen = Observed()
        self.answers: dict[str, int | None] = {}
        # Without a pause between attempts every step may try again.
        policy = policy or CommitPolicy(probe_interval=0.0)
        self.committer = Committer(self.journal, self.handover, policy, self.seen, self._answered)

    def _answered(self, answers: Answers) -> None:
        for entry, answer in answers:
            name = f"{entry.event}:{entry.record.get('call_id')}"
            self.answers[name] = None if isinstance(answer, AuditUnavailable) else answer

    def put(self, record: Object, *, durable: bool) -> bool:
        return self.handover.put(Entry(record, durable))

    def step(self, *records: tuple[Object, bool]) -> dict[str, int | None]:
        """Queue records, do one step, and return who was answered in it: a number, or None for a refusal."""
        for record, durable in records:
            self.put(record, durable=durable)
        self.answers = {}
        self.committer.step()
        return self.answers

    def is_healthy(self) -> bool:
        return self.committer.healthy

    def finish(self) -> None:
        self.handover.close()
        self.committer.run()


def test_a_group_is_written_synced_once_and_answered(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    answers = bench.step((start("a"), True), (start("b"), True), (notice(1), False))

    assert answers == {"call.start:a": 2, "call.start:b": 3, "gateway.started:None": 4}
    assert bench.seen.syncs == 1
    assert bench.seen.events == ["call.start", "call.start", "gateway.started"]
    assert bench.seen.lags == [0]
    bench.finish()


def test_an_interval_answers_at_once_and_syncs_at_its_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path, CommitPolicy("interval", sync_interval=3600))
    assert bench.step((start("a"), False)) == {"call.start:a": 2}
    assert (bench.seen.syncs, bench.seen.lags) == (0, [1])

    bench.finish()
    assert bench.seen.syncs == 1


def test_an_interval_that_is_over_syncs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, CommitPolicy("interval", sync_interval=0.0))
    bench.step((start("a"), False))

    assert (bench.seen.syncs, bench.seen.lags) == (1, [0])
    bench.finish()


def test_a_full_disk_refuses_the_group_and_later_ones_until_there_is_room(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.flaky.room = 30
    assert bench.step((start("a"), True), (notice(1), False)) == {"call.start:a": None, "gateway.started:None": None}
    assert not bench.is_healthy()
    assert bench.step((start("b"), True)) == {"call.start:b": None}
    assert (bench.seen.failures, bench.seen.lost) == (["no_space", "no_space"], 3)

    bench.flaky.room = None
    assert bench.step((start("c"), True)) == {"call.start:c": 4}
    assert bench.is_healthy()
    bench.finish()
    assert events(tmp_path) == ["audit.gap", "call.start"]
    assert read_log(tmp_path)[2]["gap"] == {"lost": 3, "events": {"call.start": 2, "gateway.started": 1}}
    assert verify(tmp_path).ok


def test_an_open_log_goes_on_and_counts(tmp_path: Path) -> None:
    """S159."""
    bench = Bench(tmp_path, CommitPolicy(closed=False, probe_interval=0.0))
    bench.flaky.room = 0
    assert bench.step((start("a"), True)) == {"call.start:a": 0}
    assert bench.step((end("a"), False)) == {"call.end:a": 0}

    bench.flaky.room = None
    assert bench.step((start("b"), True)) == {"call.start:b": 4}
    bench.finish()
    assert events(tmp_path) == ["audit.gap", "call.start"]
    assert bench.seen.lost == 2


def test_a_failed_sync_refuses_who_waits_and_writes_again_what_was_acknowledged(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.step((start("a"), True))
    bench.flaky.sync_error = errno.EIO
    assert bench.step((end("a"), False), (start("b"), True)) == {"call.end:a": 3, "call.start:b": None}

    bench.flaky.sync_error = None
    bench.step((start("c"), True))
    bench.finish()
    assert events(tmp_path) == ["call.start", "audit.gap", "call.end", "call.start"]
    records = read_log(tmp_path)
    assert [record.get("parent_seq") for record in records if record["event"] == "call.end"] == [2]
    assert verify(tmp_path).ok


def test_a_call_whose_end_was_lost_is_closed_when_the_log_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.step((start("a"), True))
    bench.flaky.room = 0
    bench.step((end("a"), False), (end("never-started"), False))

    bench.flaky.room = None
    bench.step()
    bench.finish()
    orphans = [record for record in read_log(tmp_path) if record["event"] == "call.orphaned"]
    assert [(orphan["call_id"], orphan["parent_seq"], orphan["orphaned"]) for orphan in orphans] == [
        ("a", 2, {"reason": "gap"})
    ]


def test_attempts_to_go_on_are_spaced(tmp_path: Path) -> None:
    bench = Bench(tmp_path, CommitPolicy(probe_interval=3600))
    bench.flaky.room = 0
    for number in range(5):
        bench.step((notice(number), False))

    assert bench.seen.failures == ["no_space", "no_space"]
    assert bench.seen.lost == 5
    bench.finish()


def test_a_log_that_recovers_with_nobody_asking_is_healthy_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.flaky.sync_error = errno.EIO
    bench.step((start("a"), True))
    bench.flaky.sync_error = None
    bench.step()

    assert bench.is_healthy()
    bench.finish()
    assert events(tmp_path) == ["audit.gap"]


def test_what_a_full_queue_refused_is_stated_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path, room=2)
    accepted = [bench.put(start(name), durable=True) for name in "abc"]
    bench.step()

    assert accepted == [True, True, False]
    bench.finish()
    assert events(tmp_path) == ["audit.gap", "call.start", "call.start"]


def test_a_gap_that_cannot_be_written_is_stated_later(tmp_path: Path) -> None:
    bench = Bench(tmp_path, room=1)
    bench.put(start("a"), durable=True)
    bench.put(start("b"), durable=True)
    bench.flaky.room = 10
    assert bench.step() == {"call.start:a": None, "audit.gap:None": None}

    bench.flaky.room = None
    bench.step()
    bench.finish()
    assert [record["gap"] for record in read_log(tmp_path) if record["event"] == "audit.gap"] == [
        {"lost": 2, "events": {"call.start": 2}}
    ]


def test_losses_are_stated_at_the_end_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path, CommitPolicy(probe_interval=3600))
    bench.flaky.room = 0
    bench.step((start("a"), True))
    bench.step((start("b"), True))
    bench.flaky.room = None
    bench.finish()

    assert events(tmp_path) == ["audit.gap"]


def test_too_many_open_calls_refuse_the_next_start_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.audit.journal.MAX_OPEN", 2)
    bench = Bench(tmp_path)
    bench.step((start("a"), True), (start("b"), True))
    assert bench.step((start("c"), True), (end("a"), False)) == {"call.start:c": None, "call.end:a": 4}
    assert bench.step((start("d"), True))["call.start:d"] is not None
    bench.finish()


def test_a_fault_of_our_own_refuses_everybody_instead_of_hanging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(tmp_path)
    bench.put(start("a"), durable=True)

    def broken(*records: object) -> list[int]:
        raise RuntimeError("canary")

    monkeypatch.setattr(bench.journal, "write", broken)
    bench.finish()

    assert not bench.is_healthy()
    assert "audit_thread_crashed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "no_space"),
        (errno.EIO, "io_error"),
        (errno.EROFS, "not_writable"),
        (errno.ENOENT, "moved"),
        (errno.ELOOP, "other"),
    ],
)
def test_every_failure_has_one_of_six_reasons(number: int, reason: str) -> None:
    assert reason_of(OSError(number, "x")) == reason
    assert reason_of(ConfigError([])) == "other"
