"""Records in a PostgreSQL table, made at first use."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Protocol

from gateway.audit.sinks.delivery import Rejected, Unavailable
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object, Value
from gateway.state.postgres import gone, library

TABLE: Final = "mcp_gateway_audit"
TIMEOUT: Final = 10.0
_CREATE: Final = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    chain text NOT NULL,
    seq bigint NOT NULL,
    ts timestamptz NOT NULL,
    event text NOT NULL,
    call_id text,
    principal text,
    server text,
    tool text,
    outcome text,
    hash text NOT NULL,
    record jsonb NOT NULL,
    PRIMARY KEY (chain, seq)
);
CREATE INDEX IF NOT EXISTS {TABLE}_ts ON {TABLE} (ts);
CREATE INDEX IF NOT EXISTS {TABLE}_call ON {TABLE} (call_id) WHERE call_id IS NOT NULL;
"""
# A batch that comes again after a lost answer changes nothing.
_INSERT: Final = (
    f"INSERT INTO {TABLE} (chain, seq, ts, event, call_id, principal, server, tool, outcome, hash, record) "  # noqa: S608 - a constant
    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::jsonb) ON CONFLICT DO NOTHING"
)
Row = tuple[object, ...]


class Connection(Protocol):
    """What is used of a connection."""

    async def execute(self, query: str) -> str:
        """Run statements."""

    async def executemany(self, command: str, args: Sequence[Row]) -> None:
        """Run one statement for many rows, in one transaction."""

    def is_closed(self) -> bool:
        """Tell whether it is gone."""

    async def close(self, *, timeout: float) -> None:
        """End it."""

    def terminate(self) -> None:
        """End it without a word."""


class Postgres:
    """Inserts batches over one connection."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._library = library("audit.sinks")
        self._connection: Connection | None = None

    async def send(self, records: list[Object]) -> None:
        """Insert them; see ``Sink``."""
        faults = self._library.exceptions
        try:
            connection = await self._open()
            await connection.executemany(_INSERT, [row(record) for record in records])
        except (faults.DataError, faults.IntegrityConstraintViolationError) as error:
            raise Rejected(type(error).__name__) from None
        except gone(faults) as error:
            self._drop()
            raise Unavailable(type(error).__name__) from None

    async def _open(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            # Kept before it is used, so that one that fails meanwhile is let go of.
            self._connection = await self._library.connect(self._url, timeout=TIMEOUT, command_timeout=TIMEOUT)
            await self._connection.execute(_CREATE)
        return self._connection

    async def aclose(self) -> None:
        """End the connection."""
        faults = self._library.exceptions
        if self._connection is not None:
            try:
                await self._connection.close(timeout=2)
            except gone(faults):
                self._drop()
        self._connection = None

    def _drop(self) -> None:
        """Let go of a connection that is of no use any more."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


def row(record: Object) -> Row:
    """Return the columns of a record."""
    principal, tool, outcome = (_part(record, name) for name in ("principal", "tool", "outcome"))
    return (
        str(record.get("chain")),
        record.get("seq"),
        datetime.fromisoformat(str(record.get("ts"))),
        str(record.get("event")),
        _text(record.get("call_id")),
        _text(principal.get("id") or principal.get("sub_h")),
        _text(record.get("server")),
        _text(tool.get("name") or tool.get("exposed")),
        _text(outcome.get("status")),
        str(record.get("hash")),
        rawjson.canonical_plain(record).decode(),
    )


def _part(record: Object, name: str) -> Object:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def _text(value: Value) -> str | None:
    return None if value is None else str(value)
