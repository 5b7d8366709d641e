"""Tasks of legacy servers (2025-11-25 basic/utilities/tasks): what their answers mean, and calls run as tasks by us.

A tool that can only run as a task is run as one for a client that asked for none: it is looked at as often as its
server suggests, and the client gets the result. Knows the messages; how they travel is the dialect's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeAlias

from gateway.downstream.dialect import REFUSED, Hello, Peer, unanswered
from gateway.downstream.flights import Flight
from gateway.downstream.transport import Reply
from gateway.errors import Reason
from gateway.model.call import Call, TaskRef
from gateway.model.outcome import Complete, Failure, Outcome, Started
from gateway.protocol import methods, results, tasks
from gateway.protocol.rawjson import Object
from gateway.protocol.tasks import Task
from gateway.protocol.versions import Era

AUGMENT: Final = "task"
"""Member of a call's params that asks for a task."""

Send: TypeAlias = Callable[[Call], Awaitable[Outcome]]


def outcome(peer: Peer, call: Call, reply: Reply) -> Outcome:
    """Say what an answer means.

    Raises:
        DownstreamError: it is none, or not one to this request.
    """
    if reply.status in REFUSED:
        raise unanswered(peer, reply)
    if reply.error is not None:
        text = f'server "{peer.name}" answered with an error'
        return Failure(Reason.PROTOCOL_ERROR, text, error=reply.error)
    if reply.result is None:
        raise unanswered(peer, reply)
    if AUGMENT in call.params and AUGMENT in reply.result:
        if tasks.started(reply.result, Era.LEGACY) is None:
            raise peer.error(Reason.PROTOCOL_ERROR, "started a task without a usable handle", may_have_run=True)
        return Started(reply.result)
    if call.method in (methods.TASKS_GET, methods.TASKS_CANCEL) and tasks.read(reply.result, Era.LEGACY) is None:
        raise peer.error(Reason.PROTOCOL_ERROR, "answered with what is no task", may_have_run=True)
    return Complete(results.with_type(reply.result))


def must_be_task(call: Call, hello: Hello) -> bool:
    """Tell whether a call can only run as a task, and its client asked for none (§Tool-Level Negotiation)."""
    if call.method != methods.TOOLS_CALL or AUGMENT in call.params or call.definition is None:
        return False
    required = tasks.support(call.definition.members) == tasks.REQUIRED
    return required and tasks.runs_tools(hello.capabilities, Era.LEGACY.value)


class Running:
    """One call that is run as a task. ``give_up`` takes the request that cancels it, for a call that is cancelled."""

    def __init__(self, call: Call, flight: Flight, send: Send, give_up: Callable[[Call], None]) -> None:
        self._call = call
        self._flight = flight
        self._send = send
        self._give_up = give_up

    async def run(self, ttl: float) -> Outcome:
        """Start the task, to be kept for so many seconds, and wait for its result.

        Raises:
            DownstreamError: there is no answer.
        """
        wish: Object = {"ttl": int(ttl * 1000)}
        began = await self._send(replace(self._call, params={**self._call.params, AUGMENT: wish}))
        if not isinstance(began, Started):
            return began
        task = tasks.started(began.result, Era.LEGACY)
        assert task is not None
        try:
            return await self._followed(task)
        except asyncio.CancelledError:
            self._give_up(self._about(task, methods.TASKS_CANCEL))
            raise

    def _about(self, task: Task, method: str) -> Call:
        ref = TaskRef(task.id, task.id)
        return replace(self._call, method=method, params={methods.TASK_ID: task.id}, task=ref)

    async def _followed(self, task: Task) -> Outcome:
        """Look at it until it is over or wants something; then its result is asked for, and its questions come."""
        loop = asyncio.get_running_loop()
        self._flight.task = task.id
        while not task.over and task.status != tasks.INPUT_REQUIRED:
            await asyncio.sleep(task.pause)
            seen = await self._send(self._about(task, methods.TASKS_GET))
            now = tasks.read(seen.result, Era.LEGACY) if isinstance(seen, Complete) else None
            if now is None:
                return seen
            # It is alive: what takes long may take as long as any call may.
            self._flight.extend(loop.time())
            task = replace(now, id=task.id)
        ended = await self._send(self._about(task, methods.TASKS_RESULT))
        return Complete(tasks.unrelated(ended.result)) if isinstance(ended, Complete) else ended
