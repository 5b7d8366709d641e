"""Records on a pipe."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from gateway.audit.sinks.delivery import Unavailable
from gateway.audit.sinks.stdout import Stdout
from gateway.protocol.rawjson import Object


async def test_records_are_whole_lines_even_when_the_pipe_is_full() -> None:
    reading, writing = os.pipe()
    records: list[Object] = [{"seq": number, "text": "x" * 1000} for number in range(200)]
    with open(reading, "rb") as end:
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(Stdout(writing).send(records))
            lines = await asyncio.to_thread(lambda: [end.readline() for _ in records])
            await sending
    os.close(writing)
    assert [json.loads(line) for line in lines] == records


async def test_a_closed_pipe_is_unavailable() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    sink = Stdout(writing)
    with pytest.raises(Unavailable):
        await sink.send([{"seq": 1}])
    await sink.aclose()
    os.close(writing)
