"""Logs of calls for tests of what reads them: written by the steps of the chain and the real log, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

from gateway.audit import events
from gateway.audit.events import Asked
from gateway.audit.keys import load_key
from gateway.audit.log import AuditLog, AuditOptions
from gateway.audit.sidecars import Sidecars
from gateway.config.root import LoadedConfig
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Outcome
from gateway.pipeline.account import Account
from gateway.pipeline.authorize import Authorize
from gateway.pipeline.interceptor import Chain, Passage
from gateway.pipeline.record import Record
from gateway.pipeline.seal import Seal
from gateway.policy.engine import Engine
from gateway.state.files import secure_directory
from gateway.telemetry.metrics import Metrics
from tests.kit.calls import OK

BATCH = 500


async def _end(call: Call, passage: Passage) -> Outcome:
    return OK


async def record_calls(folder: Path, config: LoadedConfig, calls: Iterable[Call]) -> Path:
    """Have calls decided by the policies of a config and recorded under ``folder``; return the log's directory."""
    directory, state = folder / "audit", secure_directory(folder / "state")
    log = AuditLog(AuditOptions(directory, "interval", sidecars=Sidecars(directory, state)))
    await log.open()
    account = Account(log, load_key(state), config.config.audit.payload, config.digest, keep=log.keep)
    chain = Chain([Record(account), Authorize(Engine.build(config), Metrics()), Seal(account)], _end)
    for batch in _batches([*calls]):
        await asyncio.gather(*(chain.run(call, Exchange()) for call in batch))
    await log.aclose()
    return directory


def _batches(calls: list[Call]) -> Iterator[list[Call]]:
    for start in range(0, len(calls), BATCH):
        yield calls[start : start + BATCH]


async def record_unknown(folder: Path, call: Call, times: int) -> None:
    """Record under ``folder`` that somebody asked for a name that nobody offers."""
    log = AuditLog(AuditOptions(folder / "audit"))
    await log.open()
    asked = Asked(call.principal, call.caller, call.method, call.rpc_id)
    await log.append(events.unknown_denied(asked, call.exposed, times, load_key(folder / "state")), durable=True)
    await log.aclose()
