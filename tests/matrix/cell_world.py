"""The server of the matrix: one of everything that the protocol knows, each so small that a test sees through it.

``python -m tests.matrix.cell_world NAME ERA`` serves on its pipes, ``cell_http`` over HTTP; ERA is modern or legacy,
NAME the scheme of its resources. The transports and eras are those of the reference server.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tests.conformance.deeds import Ask, Deed, Fault, Turn, World
from tests.conformance.over_stdio import Pipes

Json: TypeAlias = dict[str, Any]

TEXT: Final[Json] = {"type": "string"}
KINDS: Final = ("tools", "prompts", "resources")
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
VALUES: Final = ("paris", "park", "party")
PAGE: Final = 12
"""Items of one page of a list of this server."""
FORM: Final[Json] = {"type": "object", "properties": {"word": TEXT}, "required": ["word"]}
WEATHER: Final[Json] = {"name": "weather", "description": "The weather.", "inputSchema": {"type": "object"}}


def form(message: str) -> tuple[str, Json]:
    """Return a question to the user."""
    return "elicitation/create", {"mode": "form", "message": message, "requestedSchema": FORM}


def page(message: str) -> tuple[str, Json]:
    """Return the wish that the user opens a page."""
    params = {"mode": "url", "message": message, "url": "https://example.com/consent", "elicitationId": "e-1"}
    return "elicitation/create", params


def sampling(*messages: Json, **more: object) -> tuple[str, Json]:
    """Return a question to the client's model."""
    return "sampling/createMessage", {"messages": list(messages), "maxTokens": 10, **more}


def says(role: str, content: object) -> Json:
    """Return one message of a conversation with a model."""
    return {"role": role, "content": {"type": "text", "text": content} if isinstance(content, str) else content}


ROOTS: Final[tuple[str, Json]] = ("roots/list", {})


@dataclass(slots=True)
class CellWorld(World):
    """What one process offers and remembers. ``calls`` says by key what became of the calls of ``wait``."""

    name: str = "cell"
    era: str = "modern"
    calls: dict[str, str] = field(default_factory=dict)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Declare everything."""
        self.capabilities = {
            "tools": {"listChanged": True},
            "prompts": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "completions": {},
            "logging": {},
        }
        self.changed = dict.fromkeys(KINDS, False)

    def tools(self) -> list[Json]:
        """Return the tools listed now."""
        hidden = {"listing"} if self.era == "legacy" else set()
        names = [name for name in TOOLS if name not in hidden]
        return [_tool(name) for name in [*names, *(["later"] if self.changed["tools"] else [])]]

    def prompts(self) -> list[Json]:
        """Return the prompts listed now."""
        listed: list[Json] = [{"name": "greet", "arguments": [{"name": "place", "required": True}]}, {"name": "ask"}]
        return [*listed, *([{"name": "later"}] if self.changed["prompts"] else [])]

    def resources(self) -> list[Json]:
        """Return the resources listed now."""
        names = ["note", *(["later"] if self.changed["resources"] else [])]
        return [{"uri": f"{self.name}://{name}", "name": name, "mimeType": "text/plain"} for name in names]

    def answer(self, method: str, params: Json) -> Json | None:
        """Return what needs no work; lists come in pages."""
        match method:
            case "tools/list":
                return _paged("tools", self.tools(), params)
            case "prompts/list":
                return _paged("prompts", self.prompts(), params)
            case "resources/list":
                return _paged("resources", self.resources(), params)
            case "resources/templates/list":
                return {"resourceTemplates": [{"uriTemplate": f"{self.name}://places/{{place}}", "name": "place"}]}
            case "completion/complete":
                values = [value for value in VALUES if value.startswith(params["argument"]["value"])]
                return {"completion": {"values": values, "total": len(values), "hasMore": False}}
            case _:
                return None

    def deed(self, method: str) -> Deed | None:
        """Return how work is carried out."""
        return _DEEDS.get(method)

    def gate(self, key: str) -> asyncio.Event:
        """Return what a waiting call waits for."""
        return self.gates.setdefault(key, asyncio.Event())


def _paged(key: str, items: list[Json], params: Json) -> Json:
    start = int(params.get("cursor") or 0)
    more = {"nextCursor": str(start + PAGE)} if start + PAGE < len(items) else {}
    return {key: items[start : start + PAGE], **more}


def _world(turn: Turn) -> CellWorld:
    assert isinstance(turn.world, CellWorld)
    return turn.world


def _text(words: str) -> Json:
    return {"content": [{"type": "text", "text": words}]}


def _facts(facts: Json) -> Json:
    return {**_text(str(facts)), "structuredContent": facts}


async def _asked(turn: Turn, questions: dict[str, tuple[str, Json]], state: str | None = None) -> Json:
    """Return the answers to questions that are asked whatever the client declared."""
    if not questions.keys() <= turn.answers.keys():
        raise Ask(questions, state)
    return {key: turn.answers[key] for key in questions}


async def _echo(turn: Turn) -> Json:
    return _facts(dict(turn.arguments))


async def _fail(turn: Turn) -> Json:
    return {**_text("it did not work"), "isError": True}


async def _error(turn: Turn) -> Json:
    raise Fault(int(turn.arguments["code"]), "refused by the server", {"why": "asked for"})


async def _told(turn: Turn) -> Json:
    heads = {name.lower(): value for name, value in turn.headers.items()}
    return _facts({"meta": turn.params.get("_meta") or {}, "headers": heads})


async def _listing(turn: Turn) -> Json:
    return {**_text("[1, 2]"), "structuredContent": [1, 2]}


async def _progress(turn: Turn) -> Json:
    for done in (0, 50, 100):
        await turn.progress(done)
    return _text("done")


async def _logs(turn: Turn) -> Json:
    for level in LEVELS[LEVELS.index(turn.level) :] if turn.level is not None else ():
        await turn.notify("notifications/message", {"level": level, "logger": "cell", "data": level})
    return _text("logged")


async def _wait(turn: Turn) -> Json:
    key, world = str(turn.arguments["key"]), _world(turn)
    world.calls[key] = "running"
    try:
        await world.gate(key).wait()
    except asyncio.CancelledError:
        world.calls[key] = "cancelled"
        if turn.arguments.get("late"):
            await turn.afterword({"resultType": "complete", **_text("too late")})
        raise
    world.calls[key] = "finished"
    return _text("waited")


async def _calls(turn: Turn) -> Json:
    return _facts(dict(_world(turn).calls))


async def _release(turn: Turn) -> Json:
    _world(turn).gate(str(turn.arguments["key"])).set()
    return _text("released")


async def _change(turn: Turn) -> Json:
    await turn.world.change(str(turn.arguments["kind"]))
    return _text("changed")


async def _touch(turn: Turn) -> Json:
    params = {"uri": f"{_world(turn).name}://note"}
    await turn.world.tell({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
    return _text("touched")


async def _ask(turn: Turn) -> Json:
    return _facts({"answer": turn.ask({"word": form("Which word?")})["word"]})


async def _open(turn: Turn) -> Json:
    return _facts({"answer": turn.ask({"page": page("Agree, please.")})["page"]})


async def _consent(turn: Turn) -> Json:
    """Refuse the first time, with the error of 2025-11-25 that names the page to open before."""
    key, world = str(turn.arguments["key"]), _world(turn)
    if world.calls.setdefault(f"consent {key}", "asked") == "asked":
        world.calls[f"consent {key}"] = "given"
        raise Fault(-32042, "Consent is needed", {"elicitations": [page("Agree, please.")[1]]})
    return _text("with consent")


async def _rude(turn: Turn) -> Json:
    question = page("Agree!") if turn.arguments.get("mode") == "url" else form("Which word?")
    return _facts({"answer": (await _asked(turn, {"it": question}))["it"]})


async def _sample(turn: Turn) -> Json:
    return _facts({"answer": turn.ask({"it": sampling(says("user", "The capital of France?"))})["it"]})


async def _sample_tools(turn: Turn) -> Json:
    """Have the model use a tool, and tell it in a second round what the tool returned."""
    asked = says("user", "How is the weather?")
    if turn.state is None:
        turn.ask({"use": sampling(asked, tools=[WEATHER], toolChoice={"mode": "auto"})}, "first")
    if turn.state == "first":
        turn.state = str(turn.answers["use"]["content"]["id"])
    use: Json = {"type": "tool_use", "id": turn.state, "name": "weather", "input": {}}
    result = {"type": "tool_result", "toolUseId": turn.state, "content": [{"type": "text", "text": "rain"}]}
    messages = [asked, says("assistant", use), says("user", result)]
    return _facts({"answer": turn.ask({"tell": sampling(*messages, tools=[WEATHER])}, turn.state)["tell"]})


async def _roots(turn: Turn) -> Json:
    return _facts({"answer": turn.ask({"it": ROOTS})["it"]})


async def _three(turn: Turn) -> Json:
    questions = {"word": form("Which word?"), "text": sampling(says("user", "Say hello.")), "roots": ROOTS}
    return _facts(turn.ask(questions, "three"))


async def _twice(turn: Turn) -> Json:
    """Ask for two words one after the other; what the first one was travels in the state."""
    if turn.state is None or turn.state == "asked":
        turn.state = "word:" + str(turn.ask({"one": form("The first word?")}, "asked")["one"]["content"]["word"])
    second = turn.ask({"two": form("The second word?")}, turn.state)["two"]["content"]["word"]
    return _facts({"words": [turn.state.removeprefix("word:"), second]})


async def _crossed(turn: Turn) -> Json:
    """Say a number in progress, question and result alike: whoever hears another one hears somebody else."""
    nonce, token = str(turn.arguments["nonce"]), (turn.params.get("_meta") or {}).get("progressToken")

    async def told(step: int) -> None:
        if token is not None:
            params = {"progressToken": token, "progress": step, "message": nonce}
            await turn.notify("notifications/progress", params)

    if "it" not in turn.answers:
        await told(1)
    answer = turn.ask({"it": form(nonce)}, f"state of {nonce}")["it"]
    if turn.state not in (None, f"state of {nonce}"):
        raise Fault(-32603, f"the state of another call: {turn.state}")
    await told(2)
    return _facts({"nonce": nonce, "answer": answer["content"]["word"]})


TOOLS: Final[dict[str, Callable[[Turn], Awaitable[Json]]]] = {
    "echo": _echo,
    "fail": _fail,
    "error": _error,
    "told": _told,
    "listing": _listing,
    "progress": _progress,
    "logs": _logs,
    "wait": _wait,
    "calls": _calls,
    "release": _release,
    "change": _change,
    "touch": _touch,
    "ask": _ask,
    "open": _open,
    "consent": _consent,
    "rude": _rude,
    "sample": _sample,
    "sample_tools": _sample_tools,
    "roots": _roots,
    "three": _three,
    "twice": _twice,
    "crossed": _crossed,
    "unheaded": _echo,
    "spare": _echo,
}
_INPUTS: Final[dict[str, Json]] = {
    "told": {"region": {**TEXT, "x-mcp-header": "Region"}},
    "unheaded": {"everything": {"type": "object", "x-mcp-header": "Everything"}},
}
"""Properties of the arguments; ``unheaded`` has an annotation that no header can carry."""
_OUTPUTS: Final[dict[str, Json]] = {
    "calls": {"type": "object", "additionalProperties": TEXT},
    "listing": {"type": "array", "items": {"type": "integer"}},
}


def _tool(name: str) -> Json:
    tool: Json = {"name": name, "inputSchema": {"type": "object", "properties": _INPUTS.get(name, {})}}
    return tool | ({"outputSchema": _OUTPUTS[name]} if name in _OUTPUTS else {})


async def _call(turn: Turn) -> Json:
    name = turn.params.get("name")
    if name not in TOOLS:
        raise Fault(-32602, f"Unknown tool: {name}")
    return await TOOLS[str(name)](turn)


async def _prompt(turn: Turn) -> Json:
    words = f"Greetings from {turn.arguments.get('place')}"
    if turn.params.get("name") == "ask":
        words = str(turn.ask({"word": form("Which word?")})["word"]["content"]["word"])
    return {"messages": [says("user", words)]}


async def _read(turn: Turn) -> Json:
    uri, name = str(turn.params["uri"]), _world(turn).name
    if uri != f"{name}://note" and not uri.startswith(f"{name}://places/"):
        raise Fault(-32602 if _world(turn).era == "modern" else -32002, "Resource not found", {"uri": uri})
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"the text of {uri}"}]}


_DEEDS: Final[dict[str, Deed]] = {"tools/call": _call, "prompts/get": _prompt, "resources/read": _read}


if __name__ == "__main__":
    asyncio.run(Pipes(CellWorld(name=sys.argv[1], era=sys.argv[2]), sys.argv[2]).run())
