"""A process that appends to a log until it is killed: ``python -m tests.kit.audit_writer DIR DURABILITY``.

Prints ``+SEQ CALL`` for each start the log acknowledged as durable and ``-SEQ CALL`` for each acknowledged end.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Literal

from gateway.audit.log import AuditLog, AuditOptions


def say(sign: str, seq: int, call_id: str) -> None:
    # One unbuffered write: what was said before a kill is heard.
    os.write(1, f"{sign}{seq} {call_id}\n".encode())


async def calls(log: AuditLog, worker: int) -> None:
    for number in range(1_000_000):
        call_id = f"{os.getpid()}-{worker}-{number}"
        say("+", await log.append({"event": "call.start", "call_id": call_id}, durable=True), call_id)
        say("-", await log.append({"event": "call.end", "call_id": call_id}, durable=False), call_id)


async def main(directory: Path, durability: Literal["each", "group"]) -> None:
    log = AuditLog(AuditOptions(directory, durability, max_segment=200_000))
    await log.open()
    say("?", 0, "ready")
    async with asyncio.TaskGroup() as group:
        for worker in range(16):
            group.create_task(calls(log, worker))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), "each" if sys.argv[2] == "each" else "group"))
