"""What happens when the reference server is called; knows neither eras nor transports.

A tool that needs an answer raises ``Ask`` and is called again with the answers. What a client of 2026-07-28 sees
of that is an ``input_required`` result; a client of an older revision sees a request of the server.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tests.conformance import contents
from tests.conformance.contents import Json

Question: TypeAlias = tuple[str, Json]
Send: TypeAlias = Callable[[str, Json], Awaitable[None]]
Tell: TypeAlias = Callable[[Json], Awaitable[None]]
"""Takes a message that belongs to no request; whoever listens decides whether its client wants to hear of it."""

PAUSE_SECONDS: Final = 0.02
_KEY: Final = b"the same in every process of the reference server"
_TEMPLATE: Final = re.compile(r"test://template/([^/]+)/data")
_NEEDS: Final = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


class Fault(Exception):
    """An error to answer with; ``status`` is what HTTP says beside it."""

    def __init__(self, code: int, message: str, data: Json | None = None, status: int = 200) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message, **({} if data is None else {"data": data})}
        self.status = status


class Ask(Exception):
    """Questions by key that must be answered first, and what to hand back with the answers."""

    def __init__(self, questions: Mapping[str, Question], state: str | None = None) -> None:
        super().__init__("questions")
        self.questions = questions
        self.state = state


class Incapable(Exception):
    """The client has not declared what a question needs; ``needs`` names the capability."""

    def __init__(self, needs: str) -> None:
        super().__init__(f"the client does not support {needs}")
        self.needs = needs


@dataclass(slots=True)
class World:
    """What one process offers and remembers: which lists are in the changed state, and who wants to hear of changes.

    Another server is a subclass that offers something else.
    """

    capabilities: Json = field(default_factory=lambda: dict(contents.CAPABILITIES))
    changed: dict[str, bool] = field(default_factory=lambda: {"tools": False, "prompts": False})
    listeners: list[Tell] = field(default_factory=list)

    async def change(self, kind: str) -> None:
        """Change a list and tell everybody who listens."""
        self.changed[kind] = not self.changed[kind]
        await self.tell({"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed", "params": {}})

    async def tell(self, message: Json) -> None:
        """Say something that belongs to no request."""
        for listener in tuple(self.listeners):
            with suppress(ConnectionError):
                await listener(message)

    def tools(self) -> list[Json]:
        """Return the tools listed now."""
        return [*contents.TOOLS, *([contents.CHANGED_TOOL] if self.changed["tools"] else [])]

    def prompts(self) -> list[Json]:
        """Return the prompts listed now."""
        return [*contents.PROMPTS, *([contents.CHANGED_PROMPT] if self.changed["prompts"] else [])]

    def answer(self, method: str, params: Json) -> Json | None:
        """Return what both eras answer in the same way, without work; None for other methods."""
        match method:
            case "tools/list":
                return {"tools": self.tools()}
            case "prompts/list":
                return {"prompts": self.prompts()}
            case "resources/list":
                return {"resources": list(contents.RESOURCES)}
            case "resources/templates/list":
                return {"resourceTemplates": list(contents.TEMPLATES)}
            case "completion/complete":
                begun = str((params.get("argument") or {}).get("value", ""))
                values = [value for value in ("paris", "park", "party", "test") if value.startswith(begun)]
                return {"completion": {"values": values, "total": len(values), "hasMore": False}}
            case _:
                return None

    def deed(self, method: str) -> Deed | None:
        """Return how a request that is work is carried out; None for other methods."""
        return DEEDS.get(method)


async def no_break() -> None:
    """A transport without streams has none to break."""


async def no_afterword(result: Json) -> None:
    """On a connection that is closed nothing can be said."""


@dataclass(slots=True)
class Turn:
    """One request, with what has come for it so far."""

    world: World
    params: Json
    notify: Send
    capabilities: Json
    logs: bool
    answers: Json = field(default_factory=dict)
    state: str | None = None
    break_stream: Callable[[], Awaitable[None]] = no_break
    level: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    afterword: Callable[[Json], Awaitable[None]] = no_afterword
    """Answers the request all the same, after it was cancelled."""

    @property
    def arguments(self) -> Json:
        """The arguments of the call."""
        arguments: Json = self.params.get("arguments") or {}
        return arguments

    async def log(self, words: str) -> None:
        """Log at level info, if the client wants to hear it."""
        if self.logs:
            await self.notify("notifications/message", {"level": "info", "logger": "reference", "data": words})

    async def progress(self, done: int) -> None:
        """Tell the progress in hundredths, if the client gave a token."""
        token = (self.params.get("_meta") or {}).get("progressToken")
        if token is not None:
            await self.notify("notifications/progress", {"progressToken": token, "progress": done, "total": 100})

    def need(self, *capabilities: str) -> None:
        """Raise ``Incapable`` for the first that the client has not declared."""
        for capability in capabilities:
            if capability not in self.capabilities:
                raise Incapable(capability)

    def ask(self, questions: Mapping[str, Question], state: str | None = None) -> Json:
        """Return the answers once all are there."""
        self.need(*(_NEEDS[method] for method, _ in questions.values()))
        if not questions.keys() <= self.answers.keys():
            raise Ask(questions, state)
        return {key: self.answers[key] for key in questions}


def _sign(words: str) -> str:
    return f"{words}.{hmac.new(_KEY, words.encode(), hashlib.sha256).hexdigest()}"


def _opened(state: str | None) -> str:
    """Return what a state says; an empty text for none."""
    if state is None:
        return ""
    words = state.rpartition(".")[0]
    if not hmac.compare_digest(_sign(words), state):
        raise Fault(-32602, "Invalid requestState")
    return words


async def _plain(turn: Turn) -> list[Json]:
    return contents.PLAIN[turn.params["name"]]


async def _three_logs(turn: Turn) -> list[Json]:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await turn.log(words)
        await asyncio.sleep(PAUSE_SECONDS)
    return [contents.text("Logged three times.")]


async def _one_log(turn: Turn) -> list[Json]:
    await turn.log("once")
    return [contents.text("Logged if that was wanted.")]


async def _progress(turn: Turn) -> list[Json]:
    for done in (0, 50, 100):
        await turn.progress(done)
        await asyncio.sleep(PAUSE_SECONDS)
    return [contents.text("Done.")]


async def _reconnection(turn: Turn) -> list[Json]:
    await turn.break_stream()
    await asyncio.sleep(15 * PAUSE_SECONDS)
    return [contents.text("Still here.")]


async def _sample(turn: Turn) -> list[Json]:
    answer = turn.ask({"answer": contents.sampling(str(turn.arguments.get("prompt")))})["answer"]
    return [contents.text(f"LLM response: {answer.get('content', {}).get('text')}")]


def _told(answer: Json) -> list[Json]:
    return [contents.text(f"action={answer.get('action')}, content={json.dumps(answer.get('content'))}")]


async def _elicit(turn: Turn) -> list[Json]:
    properties = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    question = contents.form(str(turn.arguments.get("message")), properties, *properties)
    return _told(turn.ask({"user": question})["user"])


async def _defaults(turn: Turn) -> list[Json]:
    return _told(turn.ask({"form": contents.form("Every type", contents.DEFAULTS)})["form"])


async def _enums(turn: Turn) -> list[Json]:
    return _told(turn.ask({"form": contents.form("Every form", contents.ENUMS)})["form"])


async def _incapable(turn: Turn) -> list[Json]:
    turn.need("sampling")
    return [contents.text("The client samples.")]


async def _streaming(turn: Turn) -> list[Json]:
    await turn.progress(50)
    return _told(turn.ask({"go_on": _CONFIRM})["go_on"])


async def _change_tools(turn: Turn) -> list[Json]:
    await turn.world.change("tools")
    return [contents.text("Changed.")]


async def _change_prompts(turn: Turn) -> list[Json]:
    await turn.world.change("prompts")
    return [contents.text("Changed.")]


_NAME: Final = contents.form("What is your name?", {"name": {"type": "string"}}, "name")
_COLOUR: Final = contents.form("What is your favourite colour?", {"color": {"type": "string"}}, "color")
_CONFIRM: Final = contents.form("Please confirm", {"ok": {"type": "boolean"}}, "ok")
_CAPITAL: Final = contents.sampling("What is the capital of France?")


def _name_of(answer: Json) -> str:
    return str((answer.get("content") or {}).get("name"))


async def _name(turn: Turn) -> list[Json]:
    return [contents.text(f"Hello, {_name_of(turn.ask({'user_name': _NAME})['user_name'])}!")]


async def _capital(turn: Turn) -> list[Json]:
    answer = turn.ask({"capital_question": _CAPITAL})["capital_question"]
    return [contents.text(str(answer.get("content", {}).get("text")))]


async def _roots(turn: Turn) -> list[Json]:
    answer = turn.ask({"client_roots": contents.ROOTS})["client_roots"]
    return [contents.text(f"roots: {[root.get('uri') for root in answer.get('roots', [])]}")]


async def _state(turn: Turn) -> list[Json]:
    if _opened(turn.state) != "confirming":
        turn.answers = {}
    turn.ask({"confirm": _CONFIRM}, _sign("confirming"))
    return [contents.text("state-ok")]


async def _three_at_once(turn: Turn) -> list[Json]:
    _opened(turn.state)
    questions = {"name": _NAME, "greeting": contents.sampling("Greet the user"), "client_roots": contents.ROOTS}
    answers = turn.ask(questions, _sign("three"))
    return [contents.text(f"Hello, {_name_of(answers['name'])}!")]


async def _two_rounds(turn: Turn) -> list[Json]:
    said = _opened(turn.state)
    if not said.startswith("colour:"):
        name = _name_of(turn.ask({"step1": _NAME}, _sign("name"))["step1"])
        said = f"colour:{name}"
    colour = turn.ask({"step2": _COLOUR}, _sign(said))["step2"]
    return [contents.text(f"{said.removeprefix('colour:')} likes {(colour.get('content') or {}).get('color')}")]


async def _capabilities(turn: Turn) -> list[Json]:
    possible = {"capital": _CAPITAL, "name": _NAME, "client_roots": contents.ROOTS}
    asked = {key: question for key, question in possible.items() if _NEEDS[question[0]] in turn.capabilities}
    return [contents.text(f"answered: {sorted(turn.ask(asked))}")]


async def _header(turn: Turn) -> list[Json]:
    return [contents.text(f"region: {turn.arguments.get('region')}")]


_DEEDS: Final[dict[str, Callable[[Turn], Awaitable[list[Json]]]]] = {
    **dict.fromkeys(contents.PLAIN, _plain),
    "test_tool_with_logging": _three_logs,
    "test_logging_tool": _one_log,
    "test_tool_with_progress": _progress,
    "test_reconnection": _reconnection,
    "test_sampling": _sample,
    "test_elicitation": _elicit,
    "test_elicitation_sep1034_defaults": _defaults,
    "test_elicitation_sep1330_enums": _enums,
    "test_missing_capability": _incapable,
    "test_streaming_elicitation": _streaming,
    "test_trigger_tool_change": _change_tools,
    "test_trigger_prompt_change": _change_prompts,
    "test_input_required_result_elicitation": _name,
    "test_input_required_result_sampling": _capital,
    "test_input_required_result_list_roots": _roots,
    "test_input_required_result_request_state": _state,
    "test_input_required_result_multiple_inputs": _three_at_once,
    "test_input_required_result_multi_round": _two_rounds,
    "test_input_required_result_tampered_state": _state,
    "test_input_required_result_capabilities": _capabilities,
    "test_header_argument": _header,
    "json_schema_2020_12_tool": _header,
}


async def call_tool(turn: Turn) -> Json:
    """Carry out a tool call."""
    name = turn.params.get("name")
    if name == "test_error_handling":
        return {"isError": True, "content": [contents.text("This tool intentionally returns an error for testing")]}
    if name not in _DEEDS:
        raise Fault(-32602, f"Unknown tool: {name}")
    return {"content": await _DEEDS[str(name)](turn)}


def _messages(*blocks: Json) -> Json:
    return {"messages": [{"role": "user", "content": block} for block in blocks]}


async def get_prompt(turn: Turn) -> Json:
    """Return a prompt."""
    arguments: dict[str, Any] = turn.arguments
    match turn.params.get("name"):
        case "test_simple_prompt":
            return _messages(contents.text("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            words = f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'"
            return _messages(contents.text(words))
        case "test_prompt_with_embedded_resource":
            words = "Embedded resource content for testing."
            embedded = contents.resource(str(arguments.get("resourceUri")), "text/plain", words)
            return _messages(embedded, contents.text("Please process the embedded resource above."))
        case "test_prompt_with_image":
            return _messages(contents.IMAGE, contents.text("Please analyze the image above."))
        case "test_input_required_result_prompt":
            question = contents.form("What context should be used?", {"context": {"type": "string"}}, "context")
            answer = turn.ask({"user_context": question})["user_context"]
            return _messages(contents.text(f"Context: {(answer.get('content') or {}).get('context')}"))
        case name:
            raise Fault(-32602, f"Unknown prompt: {name}")


async def read_resource(turn: Turn) -> Json:
    """Return a resource."""
    uri = str(turn.params.get("uri"))
    fitting = _TEMPLATE.fullmatch(uri)
    if uri == "test://static-binary":
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": contents.PNG}]}
    if fitting:
        words = json.dumps({"id": fitting[1], "templateTest": True, "data": f"Data for ID: {fitting[1]}"})
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": words}]}
    if uri in ("test://static-text", "test://watched-resource"):
        words = "This is the content of the static text resource."
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": words}]}
    raise Fault(-32602, "Resource not found", {"uri": uri})


Deed: TypeAlias = Callable[[Turn], Awaitable[Json]]

DEEDS: Final[dict[str, Deed]] = {
    "tools/call": call_tool,
    "prompts/get": get_prompt,
    "resources/read": read_resource,
}
