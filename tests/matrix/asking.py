"""Behaviours of the matrix: what servers ask clients for while a call runs."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, Final, TypeAlias

from tests.kit.field import until
from tests.matrix.cells import EVERYTHING, Behaviour, Bench, Instead

Json: TypeAlias = dict[str, Any]

FORM_ALONE: Final[Json] = {"elicitation": {"form": {}}}
ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
ACCEPTED: Final[Json] = {"action": "accept", "content": {"word": "yes"}}
SAID: Final[Json] = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}
LISTED: Final[Json] = {"roots": [{"uri": "file:///project", "name": "project"}]}


async def form(bench: Bench) -> None:
    """A form, accepted and declined."""
    for answer in (ACCEPTED, {"action": "decline"}):
        async with bench.asked({ELICIT: answer}) as client:
            ended = await client.call(bench.name("ask"))
        assert ended.structured == {"answer": answer}
        [(method, params)] = ended.questions
        assert (method, params["message"]) == (ELICIT, "Which word?")
        assert params["requestedSchema"]["required"] == ["word"]


async def page(bench: Bench) -> None:
    """A page to open; legacy clients get the id that their era has."""
    async with bench.asked({ELICIT: {"action": "accept"}}) as client:
        ended = await client.call(bench.name("open"))
    assert ended.structured == {"answer": {"action": "accept"}}
    [(_, params)] = ended.questions
    assert (params["mode"], params["url"]) == ("url", "https://example.com/consent")
    assert bench.is_modern or params["elicitationId"]


async def consent(bench: Bench) -> None:
    """The error that names a page is a question to clients of an era that knows no such error."""
    key = str(uuid.uuid4())
    async with bench.asked({ELICIT: {"action": "accept"}}) as client:
        ended = await client.call(bench.name("consent"), {"key": key})
    assert ended.result["content"][0]["text"] == "with consent"
    assert [params["url"] for _, params in ended.questions] == ["https://example.com/consent"]


async def consent_error(bench: Bench) -> None:
    """Legacy clients get the error as it is, and call again when the page was opened."""
    key = str(uuid.uuid4())
    async with bench.client(EVERYTHING) as client:
        error = (await client.call(bench.name("consent"), {"key": key})).error
        again = await client.call(bench.name("consent"), {"key": key})
    assert error["code"] == -32042
    assert error["data"]["elicitations"][0]["url"] == "https://example.com/consent"
    assert again.result["content"][0]["text"] == "with consent"


async def sampling(bench: Bench) -> None:
    """A message of the client's model."""
    async with bench.asked({SAMPLE: SAID}) as client:
        ended = await client.call(bench.name("sample"))
    assert ended.structured == {"answer": SAID}
    assert ended.questions[0][1]["messages"][0]["content"]["text"] == "The capital of France?"


async def sampling_with_tools(bench: Bench) -> None:
    """The model wants a tool used, the server uses it, and the model goes on: two rounds."""
    use = {"type": "tool_use", "id": "use-1", "name": "weather", "input": {}}

    async def answer(method: str, params: Json) -> Json:
        assert params["tools"][0]["name"] == "weather"
        if len(params["messages"]) == 1:
            return {"role": "assistant", "content": use, "model": "m", "stopReason": "toolUse"}
        return {**SAID, "content": {"type": "text", "text": f"It is {params['messages'][2]['content']['toolUseId']}"}}

    async with bench.client(EVERYTHING, answer) as client:
        ended = await client.call(bench.name("sample_tools"))
    assert ended.structured["answer"]["content"]["text"] == "It is use-1"
    assert [method for method, _ in ended.questions] == [SAMPLE, SAMPLE]


async def roots(bench: Bench) -> None:
    """The client's roots."""
    async with bench.asked({ROOTS: LISTED}) as client:
        ended = await client.call(bench.name("roots"))
    assert ended.structured == {"answer": LISTED}


async def three(bench: Bench) -> None:
    """Three questions at once, each with its own answer."""
    async with bench.asked({ELICIT: ACCEPTED, SAMPLE: SAID, ROOTS: LISTED}) as client:
        ended = await client.call(bench.name("three"))
    assert ended.structured == {"word": ACCEPTED, "text": SAID, "roots": LISTED}
    assert sorted(method for method, _ in ended.questions) == sorted([ELICIT, SAMPLE, ROOTS])


async def twice(bench: Bench) -> None:
    """Two rounds; the second knows what the first was answered."""
    words = {"The first word?": "one", "The second word?": "two"}

    async def answer(method: str, params: Json) -> Json:
        return {"action": "accept", "content": {"word": words[params["message"]]}}

    async with bench.client(EVERYTHING, answer) as client:
        ended = await client.call(bench.name("twice"))
    assert ended.structured == {"words": ["one", "two"]}
    assert [params["message"] for _, params in ended.questions] == list(words)
    if bench.is_modern:
        assert ended.rounds == 3


async def taken_back(bench: Bench) -> None:
    """A legacy client cancels its call while it is asked: the question is taken back, and nothing is left waiting."""
    asked, over = asyncio.Event(), asyncio.Event()

    async def answer(method: str, params: Json) -> Json:
        asked.set()
        await over.wait()
        return ACCEPTED

    async with bench.client(EVERYTHING, answer) as client, asyncio.TaskGroup() as group:
        call = group.create_task(client.call(bench.name("ask"), identifier="t1"))
        await asked.wait()
        await client.notify("notifications/cancelled", {"requestId": "t1"})
        # What is answered now is too late.
        over.set()
        await asyncio.wait([call])
        assert call.result().message == {}
        assert len(call.result().told("notifications/cancelled")) == 1
        assert (await client.call(bench.name("ask"))).structured == {"answer": ACCEPTED}


async def not_coming_back(bench: Bench) -> None:
    """A modern client leaves a question open; its next call is asked and answered all the same."""
    # Where all share one process on a pipe, who comes next waits.
    name = bench.name("ask", "own-legacy-stdio" if bench.cell.behind == "legacy-stdio" else "")
    async with bench.asked({ELICIT: ACCEPTED}) as client:
        left = await client.once("tools/call", {"name": name, "arguments": {}})
        assert left.result["resultType"] == "input_required"
        assert (await client.call(name)).structured == {"answer": ACCEPTED}


async def declined(bench: Bench) -> None:
    """A question that this client cannot take is declined in its place, and the call goes on."""
    async with bench.client(FORM_ALONE) as client:
        ended = await client.call(bench.name("rude"), {"mode": "url"})
    assert ended.questions == []
    assert ended.structured == {"answer": {"action": "cancel"}}


async def incapable(bench: Bench) -> None:
    """A server that asks a client which declared nothing: its question reaches nobody."""
    async with bench.client() as client:
        ended = await client.call(bench.name("rude"))
    assert ended.questions == []
    if bench.cell.server == "modern":
        assert ended.refusal["reason"] == "protocol_error"
    else:
        assert "Method not found" in ended.error["message"]


async def forbidden(bench: Bench) -> None:
    """A server that may not ask: the client hears nothing of the question, the operator does."""
    before = len(bench.gateway.records())
    async with bench.client(EVERYTHING) as client:
        ended = await client.call(bench.name("rude", f"mute-{bench.cell.behind}"))
    assert ended.questions == []
    if bench.cell.server == "modern":
        assert ended.refusal["reason"] == "denied"
        return
    assert "Method not found" in ended.error["message"]
    await until(lambda: "asks does not permit it" in str(bench.gateway.records()[before:]))


BEHAVIOURS: Final = (
    Behaviour("elicitation, form", "A server asks the user to fill in a form; accepted and declined.", form),
    Behaviour("elicitation, URL", "A server asks the user to open a page.", page),
    Behaviour(
        "required pages",
        "The error −32042 of a server, which names pages to open first, becomes a question.",
        consent,
        (Instead(lambda cell: cell.client == "legacy", "legacy clients know the error itself", consent_error),),
    ),
    Behaviour("sampling", "A server asks the client's model.", sampling),
    Behaviour(
        "sampling with tools",
        "The model uses a tool of the server's, and is told what came of it.",
        sampling_with_tools,
    ),
    Behaviour("roots", "A server asks for the client's roots.", roots),
    Behaviour("several questions", "Questions asked at once each get their own answer.", three),
    Behaviour("several rounds", "A call that asks again knows what it was answered before.", twice),
    Behaviour(
        "cancelling while asked",
        "The question is taken back, and the next call finds nothing in its way.",
        taken_back,
        (
            Instead(
                lambda cell: cell.client == "modern",
                "a modern client just does not come back; its next call finds nothing in its way either",
                not_coming_back,
            ),
        ),
    ),
    Behaviour(
        "declined questions", "What the client cannot take is declined in its place; the call goes on.", declined
    ),
    Behaviour("clients that declare nothing", "They are asked nothing, and the call ends with a reason.", incapable),
    Behaviour("questions that `asks` forbids", "They reach no client; the call ends with a reason.", forbidden),
)
