"""A task's questions (Tasks extension §Task Update Requests): judged like those of a call, each time it is looked at.

What its client cannot take is answered in its place by an update of the task, so that it goes on. Knows no wire.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.outcome import LOOK, Complete, Failure, Outcome
from gateway.pipeline import questions
from gateway.pipeline.interceptor import CallNext, Passage
from gateway.protocol import methods, rawjson, tasks
from gateway.protocol.rawjson import JsonError, Object


class TaskQuestions:
    """Looks into what ``tasks/get`` is answered with; everything else passes."""

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        outcome = await call_next(call, passage)
        if call.method != methods.TASKS_GET or not isinstance(outcome, Complete):
            return outcome
        try:
            asked = tasks.asked(outcome.result)
        except JsonError:
            return _unreadable(call)
        if not asked:
            return outcome
        judged = questions.judge(asked, call.caller.capabilities)
        if judged.notes:
            passage.exchange.notes["asks"] = "; ".join(judged.notes)
        if None in judged.answered.values():
            return _refused(call)
        if judged.answered:
            params: Object = {**call.params, methods.INPUT_RESPONSES: judged.answered}
            answered = await call_next(replace(call, method=methods.TASKS_UPDATE, params=params), passage)
            if isinstance(answered, Failure):
                return answered
        return Complete(outcome.result | {methods.INPUT_REQUESTS: rawjson.raw(judged.open)})


def _unreadable(call: Call) -> Failure:
    what = "asks something about this task that cannot be read"
    return Failure.by_server(call.target.server, Reason.PROTOCOL_ERROR, what, LOOK)


def _refused(call: Call) -> Failure:
    what = "has a question about this task that the client cannot be asked"
    return Failure.by_server(call.target.server, Reason.CANCELLED, what)
