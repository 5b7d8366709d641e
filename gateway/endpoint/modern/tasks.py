"""Tasks of modern clients: the extension ``io.modelcontextprotocol/tasks``, with ids of our own.

What its pages ask of a server is asked of the gateway here; the rest is the server's own answer, with the inner result,
error and questions fitted like those of a call. Knows no server and no pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from gateway.endpoint import fit, reply, tasks
from gateway.endpoint.build import invalid
from gateway.endpoint.reply import Answer
from gateway.endpoint.services import Moment, Services
from gateway.endpoint.tasks import Handle
from gateway.errors import DownstreamError, Reason, RequestError
from gateway.model.call import Call, Caller, Target, TaskRef
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.news import TaskNews
from gateway.model.outcome import Complete, Outcome, Started
from gateway.pipeline import questions
from gateway.protocol import capabilities, codes, jsonrpc, methods, rawjson
from gateway.protocol import tasks as wire
from gateway.protocol.rawjson import JsonError, Members, Object
from gateway.protocol.versions import Era
from gateway.state.sealing import Sealer
from gateway.telemetry.logs import get_logger

_STATE_ONLY: Final = frozenset({"result", "error", methods.INPUT_REQUESTS})
"""What a task may carry, and the handle that a call is answered with may not (§Task Creation)."""

_log = get_logger("endpoint")


def require(caller: Caller) -> None:
    """Refuse what only clients may ask that declared the extension (§Protocol Errors).

    Raises:
        RequestError: −32021.
    """
    if not wire.declared(caller.capabilities):
        data: dict[str, object] = dict(wire.NEEDED)
        raise RequestError(codes.MISSING_CLIENT_CAPABILITY, "Missing required client capability", data)


def call_of(moment: Moment, sealer: Sealer, draft: Call, params: Object) -> Call:
    """Return the call that a request about a task stands for.

    Raises:
        UnknownTarget: the id leads nowhere.
        RequestError: params of the wrong shape, or a client that has not declared the extension.
    """
    require(draft.caller)
    call = tasks.call_of(moment, sealer, draft, params)
    if call.method != methods.TASKS_UPDATE:
        return call
    given = params.get(methods.INPUT_RESPONSES)
    if not isinstance(given, dict):
        raise invalid(f"{methods.INPUT_RESPONSES} must be an object")
    answers: Object = {key: item for key, item in given.items() if isinstance(item, dict)}
    return replace(call, params={**call.params, methods.INPUT_RESPONSES: answers})


def started(sealer: Sealer, moment: Moment, call: Call, exchange: Exchange, outcome: Started) -> Answer:
    """Write the handle of a task that a call became."""
    task = wire.started(outcome.result, Era.MODERN)
    if task is None:
        return reply.refusal(call, reply.unfinished(call))
    token = tasks.seal(sealer, call, task.id)
    handle = {key: item for key, item in outcome.result.items() if key not in _STATE_ONLY}
    members = shown(moment, call, exchange, wire.renamed(handle, token))
    return Answer(jsonrpc.encode_result(call.rpc_id, fit.result(moment, call, exchange, members)))


def answer(moment: Moment, call: Call, exchange: Exchange, outcome: Outcome) -> Answer:
    """Write how a request about a task ended."""
    if isinstance(outcome, Complete) and call.task is not None and methods.TASK_ID in outcome.result:
        renamed = wire.renamed(outcome.result, call.task.shown)
        outcome = Complete(shown(moment, call, exchange, renamed))
    return tasks.answer(moment, call, exchange, outcome)


def shown(moment: Moment, call: Call, exchange: Exchange, task: Members) -> Members:
    """Return a task as its client may see it; it has no ``requestState``, which belongs to rounds of calls."""
    fitted = {key: item for key, item in task.items() if key != methods.REQUEST_STATE}
    if "result" in fitted:
        fitted["result"] = tasks.carried_result(moment, call, fitted["result"])
    if "error" in fitted:
        fitted["error"] = tasks.carried_error(moment, call, fitted["error"])
    try:
        asked = wire.asked(fitted)
        if asked:
            fitted[methods.INPUT_REQUESTS] = rawjson.raw(
                {key: fit.question(call, exchange, item) for key, item in asked.items()}
            )
    except JsonError:
        del fitted[methods.INPUT_REQUESTS]
    return fitted


@dataclass(frozen=True, slots=True)
class TaskWatch:
    """The tasks that one subscription hears of, by the id its client knows; ``send`` takes a state to tell.

    ``draft`` is the subscription's request: who hears, and what can be asked of it.
    """

    services: Services
    draft: Call
    handles: Mapping[str, Handle]
    send: Callable[[Members], None]
    _newest: dict[str, int] = field(default_factory=dict)
    """How many times each task has changed: a long state takes a while to be looked at, and may be old by then."""

    def begin(self) -> Callable[[], None]:
        """Hear of them from now on, of those that their servers can tell of; the result ends that."""
        claimed: list[Handle] = []
        for handle in self.handles.values():
            try:
                self.services.pool.watch_task(handle.server, handle.task)
            except DownstreamError as error:
                _log.info("task_not_watched", server=handle.server, reason=error.message)
            else:
                claimed.append(handle)
        unsubscribe = self.services.pool.task_news(self.heard)

        def end() -> None:
            unsubscribe()
            for handle in claimed:
                self.services.pool.unwatch_task(handle.server, handle.task)

        return end

    def heard(self, news: TaskNews) -> None:
        """Tell of a task that has changed, where it is one of these and its tool may still be called."""
        for token, handle in self.handles.items():
            if (handle.server, handle.task) == (news.server, news.task):
                moment = self.services.current().of(self.draft.principal)
                call = self._call(moment, token, handle)
                if call is not None:
                    self._newest[token] = number = self._newest.get(token, 0) + 1
                    moment.sift(handle.server, news.state, partial(self._tell, moment, call, number, news.state))

    def _tell(self, moment: Moment, call: Call, number: int, before: Members, state: Members | None) -> None:
        """Tell of a task as it may be read; of one that may not only that it is over, since its client waits for it."""
        assert call.task is not None
        token = call.task.shown
        if self._newest[token] != number:
            return
        task = wire.read(before, Era.MODERN)
        if state is not None:
            askable = _askable(moment, call, state)
            self.send(shown(moment, call, Exchange(), wire.renamed(askable, token)))
        elif task is not None and task.over:
            self.send(_withheld(token, task))

    def _call(self, moment: Moment, token: str, handle: Handle) -> Call | None:
        route = tasks.route_of(moment, handle.server, handle.tool)
        principal = moment.authenticator.fresh(self.draft.principal) or self.draft.principal
        if route is None or moment.resolve(Kind.TOOL, route.exposed, principal, self.draft.caller.view) is None:
            return None
        return replace(
            self.draft,
            id=handle.call,
            principal=principal,
            method=methods.TASKS_GET,
            target=Target.of(route),
            exposed=route.exposed,
            definition=route.definition,
            task=TaskRef(handle.task, token),
        )


def _askable(moment: Moment, call: Call, state: Members) -> Members:
    """Leave out the questions that the client cannot be asked; who looks at the task has them answered."""
    asks = moment.config.servers[call.target.server].asks
    try:
        asked = wire.asked(state)
    except JsonError:
        asked = {}
    if not asked:
        return {key: item for key, item in state.items() if key != methods.INPUT_REQUESTS}
    judged = questions.judge(asked, capabilities.intersect(call.caller.capabilities, asks))
    return state | {methods.INPUT_REQUESTS: rawjson.raw(judged.open)}


def _withheld(token: str, task: wire.Task) -> Members:
    text = "What this task ended with is withheld: this gateway does not pass on what was found in it."
    error: Object = {"code": codes.reason_code(Reason.BLOCKED_CONTENT), "message": text}
    ttl = None if task.ttl is None else round(task.ttl * 1000)
    state: Object = {methods.TASK_ID: token, "status": "failed", "ttlMs": ttl, "error": error}
    return {key: rawjson.raw(value) for key, value in state.items()}


def handles_of(services: Services, moment: Moment, draft: Call, wanted: list[str]) -> dict[str, Handle]:
    """Return the tasks of a subscription's filter that are this client's.

    Raises:
        RequestError: −32021 for a client that has not declared the extension (§Task Status Notifications).
    """
    require(draft.caller)
    found: dict[str, Handle] = {}
    for token in wanted:
        handle = tasks.opened(services.sealer, token, draft.principal, draft.caller)
        route = tasks.route_of(moment, handle.server, handle.tool) if handle is not None else None
        if handle is None or route is None:
            continue
        if moment.resolve(Kind.TOOL, route.exposed, draft.principal, draft.caller.view) is not None:
            found[token] = handle
    return found
