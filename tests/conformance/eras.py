"""How the reference server answers in each era, whatever carries the messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tests.conformance import contents
from tests.conformance.contents import Json
from tests.conformance.deeds import (
    Ask,
    Deed,
    Fault,
    Incapable,
    Question,
    Send,
    Turn,
    World,
    no_afterword,
    no_break,
)

MODERN: Final = "2026-07-28"
LEGACY: Final = ("2025-11-25", "2025-06-18", "2025-03-26")
META: Final = "io.modelcontextprotocol/"
MAX_ROUNDS: Final = 10

AskClient: TypeAlias = Callable[[str, Json], Awaitable[Json]]

CACHED: Final = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "server/discover"}
)
LISTEN: Final = "subscriptions/listen"
WISHES: Final = {
    f"notifications/{kind}/list_changed": f"{kind}ListChanged" for kind in ("tools", "prompts", "resources")
}
TASK: Final = "notifications/tasks"
UPDATED: Final = "notifications/resources/updated"


@dataclass(slots=True)
class Line:
    """The way back to the client while one request is carried out; ``ask`` is for the legacy era only."""

    notify: Send
    ask: AskClient | None = None
    break_stream: Callable[[], Awaitable[None]] = no_break
    afterword: Callable[[Json], Awaitable[None]] = no_afterword
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Session:
    """What the legacy era remembers of a client."""

    version: str = LEGACY[0]
    capabilities: Json = field(default_factory=dict)
    watched: set[str] = field(default_factory=set)
    level: str | None = None


def answered(identifier: object, outcome: Json | Fault) -> Json:
    """Return the JSON-RPC answer to a request."""
    body = {"error": outcome.error} if isinstance(outcome, Fault) else {"result": outcome}
    return {"jsonrpc": "2.0", "id": identifier, **body}


def result_of(answer: Json) -> Json:
    """Return the result in a client's answer.

    Raises:
        Fault: the client answered with an error, which the caller of the tool gets to see.
    """
    if "result" not in answer:
        raise Fault(-32603, f"The client answered with an error: {answer.get('error', {}).get('message')}")
    result: Json = answer["result"]
    return result


def checked_meta(params: Any) -> Json:
    """Return the ``_meta`` of a modern request, complete and of a version that is spoken."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get(f"{META}protocolVersion"), str):
        raise Fault(-32602, "The protocol version is missing in _meta", status=400)
    if not isinstance(meta.get(f"{META}clientCapabilities"), dict):
        raise Fault(-32602, "The client's capabilities are missing in _meta", status=400)
    if (asked := meta[f"{META}protocolVersion"]) != MODERN:
        data = {"supported": [MODERN], "requested": asked}
        raise Fault(-32022, "Unsupported protocol version", data, 400)
    return meta


def _answers(params: Json) -> Json:
    answers = params.get("inputResponses", {})
    if not isinstance(answers, dict) or not all(isinstance(answer, dict) for answer in answers.values()):
        raise Fault(-32602, "Invalid inputResponses")
    return answers


async def modern(world: World, method: str, params: Json, line: Line) -> Json:
    """Answer a request of 2026-07-28 whose ``_meta`` was checked; subscriptions are the transport's matter."""
    meta: Json = params["_meta"]
    result = world.answer(method, params)
    if method == "server/discover":
        result = {"supportedVersions": [MODERN], "capabilities": world.capabilities}
    if (deed := world.deed(method)) is not None:
        turn = Turn(
            world,
            params,
            line.notify,
            meta[f"{META}clientCapabilities"],
            f"{META}logLevel" in meta,
            _answers(params),
            params.get("requestState"),
            level=meta.get(f"{META}logLevel"),
            headers=line.headers,
            afterword=line.afterword,
        )
        result = await _modern_turn(deed, turn)
    if result is None:
        raise Fault(-32601, "Method not found", status=404)
    whole: Json = {"resultType": "complete", "_meta": {f"{META}serverInfo": contents.SERVER_INFO}, **result}
    if method in CACHED and whole["resultType"] == "complete":
        whole |= {"ttlMs": 0, "cacheScope": "private"}
    return whole


async def _modern_turn(deed: Deed, turn: Turn) -> Json:
    try:
        return await deed(turn)
    except Ask as ask:
        questions = {key: {"method": method, "params": params} for key, (method, params) in ask.questions.items()}
        state = {} if ask.state is None else {"requestState": ask.state}
        return {"resultType": "input_required", "inputRequests": questions, **state}
    except Incapable as error:
        data: Json = {"requiredCapabilities": {error.needs: {}}}
        raise Fault(-32021, "Missing required client capability", data, 400) from None


async def legacy(world: World, session: Session, message: Json, line: Line) -> Json:
    """Answer a request of the legacy era."""
    method: str = message["method"]
    params: Json = message.get("params") or {}
    if (result := world.answer(method, params)) is not None:
        return result
    if (deed := world.deed(method)) is not None:
        turn = Turn(
            world,
            params,
            line.notify,
            session.capabilities,
            logs=True,
            break_stream=line.break_stream,
            level=session.level,
            headers=line.headers,
            afterword=line.afterword,
        )
        return await _legacy_turn(deed, turn, line)
    match method:
        case "initialize":
            asked = params.get("protocolVersion")
            session.version = asked if asked in LEGACY else LEGACY[0]
            session.capabilities = params.get("capabilities") or {}
            return {
                "protocolVersion": session.version,
                "capabilities": world.capabilities,
                "serverInfo": contents.SERVER_INFO,
            }
        case "ping":
            return {}
        case "logging/setLevel":
            session.level = params.get("level")
            return {}
        case "resources/subscribe":
            session.watched.add(str(params.get("uri")))
            return {}
        case "resources/unsubscribe":
            session.watched.discard(str(params.get("uri")))
            return {}
        case _:
            raise Fault(-32601, "Method not found")


async def _legacy_turn(deed: Deed, turn: Turn, line: Line) -> Json:
    """Ask the client while its call is open; several questions go out at once."""
    for _ in range(MAX_ROUNDS):
        try:
            return await deed(turn)
        except Ask as ask:
            assert line.ask is not None
            turn.answers = await _ask_all(line.ask, dict(ask.questions))
            turn.state = ask.state
        except Incapable as error:
            if deed is not turn.world.deed("tools/call"):
                raise Fault(-32600, str(error)) from None
            return {"isError": True, "content": [contents.text(str(error))]}
    raise Fault(-32603, "Too many rounds")


async def _ask_all(ask: AskClient, questions: dict[str, Question]) -> Json:
    answers = await asyncio.gather(*(ask(method, params) for method, params in questions.values()))
    return dict(zip(questions, answers, strict=True))


def acknowledged(identifier: object, wishes: Json) -> Json:
    """Return the first message of a subscription."""
    params = {"notifications": wishes, "_meta": {f"{META}subscriptionId": identifier}}
    return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}


def wished(wishes: Json, message: Json) -> bool:
    """Tell whether a modern subscription covers a message."""
    method = message.get("method")
    if method == UPDATED:
        return message["params"]["uri"] in (wishes.get("resourceSubscriptions") or [])
    if method == TASK:
        return message["params"]["taskId"] in (wishes.get("taskIds") or [])
    return bool(wishes.get(WISHES.get(method or "", "")))


def subscribed(identifier: object, message: Json) -> Json:
    """Return a message as it is sent on a modern subscription."""
    return {**message, "params": {**message["params"], "_meta": {f"{META}subscriptionId": identifier}}}


def watched(session: Session, message: Json) -> bool:
    """Tell whether a legacy client hears a message: all but updates of resources that it did not subscribe to."""
    return message.get("method") != UPDATED or message["params"]["uri"] in session.watched
