"""The reference server over stdio: one line a message, every request in a task of its own.

``python -m tests.conformance.over_stdio ERA``, where ERA is dual, modern or legacy.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Final

from tests.conformance import eras
from tests.conformance.contents import Json
from tests.conformance.deeds import Fault, World
from tests.conformance.eras import Line, Session

MAX_LINE: Final = 2**22


class Pipes:
    """One client on a pair of pipes."""

    def __init__(self, world: World, era: str) -> None:
        self.world = world
        self.era = era
        self._session = Session()
        self._shaken = False
        self._asked: dict[str, asyncio.Future[Json]] = {}
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._asks = 0

    async def run(self) -> None:
        """Serve until stdin ends."""
        reader = asyncio.StreamReader(limit=MAX_LINE)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self._take(json.loads(line))
        for task in tuple(self._tasks.values()):
            task.cancel()

    def _take(self, message: Json) -> None:
        identifier, method = message.get("id"), message.get("method")
        if method is None:
            if (waiting := self._asked.pop(str(identifier), None)) is not None:
                waiting.set_result(message)
        elif identifier is not None:
            task = asyncio.get_running_loop().create_task(self._answer(message))
            self._tasks[identifier] = task
            task.add_done_callback(lambda _: self._tasks.pop(identifier, None))
        elif method == "notifications/cancelled":
            if (going := self._tasks.get((message.get("params") or {}).get("requestId"))) is not None:
                going.cancel()
        elif method == "notifications/initialized":
            self.world.listeners.append(self._tell)

    async def _answer(self, message: Json) -> None:
        try:
            outcome: Json | Fault = await self._outcome(message)
        except Fault as fault:
            outcome = fault
        self._write(eras.answered(message["id"], outcome))

    async def _outcome(self, message: Json) -> Json:
        method, params = str(message["method"]), message.get("params") or {}

        async def afterword(result: Json) -> None:
            self._write(eras.answered(message["id"], result))

        if self.era != "modern" and (self._shaken or method == "initialize"):
            self._shaken = True
            line = Line(self._notify, self._ask, afterword=afterword)
            return await eras.legacy(self.world, self._session, message, line)
        if self.era == "legacy":
            raise Fault(-32601, "Method not found")
        eras.checked_meta(params)
        if method == eras.LISTEN:
            return await self._listen(message["id"], params.get("notifications") or {})
        return await eras.modern(self.world, method, params, Line(self._notify, afterword=afterword))

    async def _listen(self, identifier: object, wishes: Json) -> Json:
        self._write(eras.acknowledged(identifier, wishes))

        async def tell(message: Json) -> None:
            if eras.wished(wishes, message):
                self._write(eras.subscribed(identifier, message))

        self.world.listeners.append(tell)
        try:
            await asyncio.Event().wait()
        finally:
            self.world.listeners.remove(tell)
        return {}

    async def _tell(self, message: Json) -> None:
        if eras.watched(self._session, message):
            self._write(message)

    async def _notify(self, method: str, params: Json) -> None:
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    async def _ask(self, method: str, params: Json) -> Json:
        self._asks += 1
        identifier = f"ask-{self._asks}"
        waiting = self._asked[identifier] = asyncio.get_running_loop().create_future()
        self._write({"jsonrpc": "2.0", "id": identifier, "method": method, "params": params})
        return eras.result_of(await waiting)

    def _write(self, message: Json) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(Pipes(World(), sys.argv[1]).run())
