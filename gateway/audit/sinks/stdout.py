"""Records on standard output, one JSON object a line, for whatever collects what containers print."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from gateway.audit.sinks.delivery import Unavailable
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object

_STDOUT: Final = 1


class Stdout:
    """Writes whole lines; a full pipe holds up this sink alone."""

    def __init__(self, descriptor: int = _STDOUT) -> None:
        self._descriptor = descriptor

    async def send(self, records: list[Object]) -> None:
        """Write them; see ``Sink``."""
        data = b"".join(rawjson.canonical_plain(record) + b"\n" for record in records)
        try:
            await asyncio.to_thread(self._write, data)
        except OSError as error:
            raise Unavailable(error.strerror or "cannot write") from None

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    async def aclose(self) -> None:
        """The descriptor is not ours to close."""
