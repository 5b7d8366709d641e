"""``python -m tests.bench.audit_edits [EDITS]``: random edits of an audit log, all of which must be found, and speed.

Prints how many were found at their line, and how many records a second ``audit verify`` checks with only the files
and the public key. Exits with 1 for an edit that was missed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from gateway.audit import payload, record
from gateway.audit.payload import Keeping
from gateway.audit.record import DecisionFacts, Ending
from gateway.audit.verify import verify
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete
from tests.kit.audit import KEY, a_call, signed_journal, write_signed_log
from tests.kit.audit_edits import edit_at_random

CALLS = 100_000


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def edits(folder: Path, count: int) -> int:
    write_signed_log(folder / "log", folder / "state", 90, max_segment=11_000)
    missed = [miss for miss in edit_at_random(folder / "log", folder / "work", count, seed=20261130) if miss]
    for miss in missed[:20]:
        say(miss)
    say(f"{count - len(missed)} of {count} edits were found at their line")
    return len(missed)


def speed(folder: Path) -> None:
    """Verify records as calls make them, start and end."""
    call = a_call({"sql": "select 1", "limit": 5})
    described = record.describe(
        call,
        DecisionFacts("allow", "p", "allow[0]"),
        payload.arguments_block(Keeping("shape+hmac"), call.arguments, KEY),
        KEY,
    )
    start, end = (
        record.call_start(described),
        record.call_end(described, Ending(Exchange(started=1.0), Complete({}), 1.2)),
    )
    log = signed_journal(folder / "speed", folder / "speed-state")
    log.open()
    for _ in range(CALLS // 100):
        log.write([start, end] * 50)
    log.sign()
    log.sync()
    log.close()
    began, worked = time.perf_counter(), time.process_time()
    verdict = verify(folder / "speed")
    seconds, worked = time.perf_counter() - began, time.process_time() - worked
    assert verdict.ok
    size = sum(path.stat().st_size for path in (folder / "speed").glob("*.jsonl"))
    say(
        f"{verdict.records} records ({size / verdict.records:.0f} bytes each, {verdict.checkpoints} checkpoints) "
        f"in {seconds:.2f} s ({worked:.2f} s of CPU): {verdict.records / worked:,.0f} records a second of CPU"
    )


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with tempfile.TemporaryDirectory() as name:
        speed(Path(name))
        return 1 if edits(Path(name), count) else 0


if __name__ == "__main__":
    sys.exit(main())
