"""Behaviours of the matrix: requests and what is said while they run."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, Final, TypeAlias

from tests.kit.answering import AnsweringClient, Ended
from tests.kit.field import until
from tests.kit.wire import LEGACY
from tests.matrix.cells import Behaviour, Bench, Instead

Json: TypeAlias = dict[str, Any]

TRACE: Final = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "tracestate": "vendor=1"}
PROGRESS: Final = "notifications/progress"
LOG: Final = "notifications/message"


async def opening(bench: Bench) -> None:
    """What a client hears first."""
    async with bench.client() as client:
        if bench.is_modern:
            hello = (await client.request("server/discover")).result
            assert "2026-07-28" in hello["supportedVersions"]
            assert hello["resultType"] == "complete"
        else:
            params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            hello = (await client.request("initialize", params)).result
            assert hello["protocolVersion"] == LEGACY
    assert {"tools", "prompts", "resources", "completions", "logging"} <= hello["capabilities"].keys()


async def tools(bench: Bench) -> None:
    """List and call."""
    async with bench.client() as client:
        listed = await client.every("tools/list", "tools")
        names = [tool["name"] for tool in listed]
        assert bench.name("echo") in names
        assert len(names) == len(set(names))
        ended = await client.call(bench.name("echo"), {"word": "héllo \u2028", "number": 2**53 + 1})
    assert ended.result["structuredContent"] == {"word": "héllo \u2028", "number": 2**53 + 1}
    assert ended.result["_meta"]["dev.mcp-gateway/instance"]["server"] == bench.cell.behind
    assert ("resultType" in ended.result) is bench.is_modern


async def structured(bench: Bench) -> None:
    """An output schema and what it describes."""
    async with bench.client() as client:
        listed = {tool["name"]: tool for tool in await client.every("tools/list", "tools")}
        ended = await client.call(bench.name("calls"))
    assert listed[bench.name("calls")]["outputSchema"]["additionalProperties"] == {"type": "string"}
    assert isinstance(ended.structured, dict)


async def no_object(bench: Bench) -> None:
    """Structured content that is an array: wrapped for clients of an era that knows objects alone."""
    async with bench.client() as client:
        listed = {tool["name"]: tool for tool in await client.every("tools/list", "tools")}
        ended = await client.call(bench.name("listing"))
    schema = listed[bench.name("listing")]["outputSchema"]
    if bench.is_modern:
        assert (schema["type"], ended.structured) == ("array", [1, 2])
    else:
        assert schema["properties"]["result"]["type"] == "array"
        assert ended.structured == {"result": [1, 2]}


async def objects_alone(bench: Bench) -> None:
    """A legacy server has no such tool, and what it has comes as it is."""
    async with bench.client() as client:
        assert "Unknown tool" in (await client.call(bench.name("listing"))).error["message"]
        assert (await client.call(bench.name("echo"), {"a": 1})).structured == {"a": 1}


async def is_error(bench: Bench) -> None:
    """A tool that failed, in its own words."""
    async with bench.client() as client:
        result = (await client.call(bench.name("fail"))).result
    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": "it did not work"}]
    assert "dev.mcp-gateway/refusal" not in result["_meta"]


async def errors(bench: Bench) -> None:
    """A server's own error, with code, message and data; an unknown name is the gateway's."""
    async with bench.client() as client:
        error = (await client.call(bench.name("error"), {"code": 1234})).error
        unknown = (await client.call(bench.name("nothing"))).error
    assert error == {"code": 1234, "message": "refused by the server", "data": {"why": "asked for"}}
    assert (unknown["code"], unknown["message"]) == (-32602, f"Unknown tool: {bench.name('nothing')}")


async def prompts(bench: Bench) -> None:
    """List and get, also one that asks first."""
    async with bench.asked({"elicitation/create": {"action": "accept", "content": {"word": "told"}}}) as client:
        names = [prompt["name"] for prompt in await client.every("prompts/list", "prompts")]
        assert bench.name("greet") in names
        got = await client.request("prompts/get", {"name": bench.name("greet"), "arguments": {"place": "Oslo"}})
        asked = await client.request("prompts/get", {"name": bench.name("ask")})
    assert got.result["messages"][0]["content"]["text"] == "Greetings from Oslo"
    assert asked.result["messages"][0]["content"]["text"] == "told"
    assert len(asked.questions) == 1


async def resources(bench: Bench) -> None:
    """List, read, and the error for what is not there in the words of the client's era."""
    async with bench.client() as client:
        listed = [resource["uri"] for resource in await client.every("resources/list", "resources")]
        assert bench.uri("note") in listed
        read = await client.request("resources/read", {"uri": bench.uri("note")})
        missing = await client.request("resources/read", {"uri": bench.uri("missing")})
    assert read.result["contents"][0]["text"] == f"the text of {bench.uri('note')}"
    assert missing.error["code"] == (-32602 if bench.is_modern else -32002)
    assert missing.error["data"]["uri"] == bench.uri("missing")


async def templates(bench: Bench) -> None:
    """List templates, and read what fits one."""
    async with bench.client() as client:
        listed = await client.every("resources/templates/list", "resourceTemplates")
        assert bench.uri("places/{place}") in [template["uriTemplate"] for template in listed]
        read = await client.request("resources/read", {"uri": bench.uri("places/oslo")})
    assert read.result["contents"][0]["uri"] == bench.uri("places/oslo")


async def completion(bench: Bench) -> None:
    """Complete an argument of a prompt and of a template."""
    async with bench.client() as client:
        for reference in (
            {"type": "ref/prompt", "name": bench.name("greet")},
            {"type": "ref/resource", "uri": bench.uri("places/{place}")},
        ):
            params = {"ref": reference, "argument": {"name": "place", "value": "par"}}
            completed = (await client.request("completion/complete", params)).result["completion"]
            assert completed["values"] == ["paris", "park", "party"]


async def pagination(bench: Bench) -> None:
    """Pages of the gateway's own size, over servers whose lists have pages too."""
    async with bench.client() as client:
        first = (await client.request("tools/list")).result
        assert len(first["tools"]) == 20
        names = [tool["name"] for tool in await client.every("tools/list", "tools")]
    assert names[:20] == [tool["name"] for tool in first["tools"]]
    assert {bench.name("echo"), bench.name("spare")} <= set(names)


async def cursors(bench: Bench) -> None:
    """A cursor that is altered, made up or of another list."""
    async with bench.client() as client:
        cursor = (await client.request("tools/list")).result["nextCursor"]
        altered = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
        for method, wrong in (("tools/list", altered), ("tools/list", "20"), ("prompts/list", cursor)):
            assert (await client.request(method, {"cursor": wrong})).error["code"] == -32602
        assert (await client.request("tools/list", {"cursor": cursor})).result["tools"]


async def progress(bench: Bench) -> None:
    """Progress under the client's own token, rising, on the response of the call."""
    async with bench.client() as client:
        params = {"name": bench.name("progress"), "_meta": {"progressToken": "mine"}}
        told = (await client.request("tools/call", params)).told(PROGRESS)
        silent = await client.call(bench.name("progress"))
    steps = [each["progress"] for each in told]
    assert {each["progressToken"] for each in told} == {"mine"}
    assert steps == sorted(set(steps))
    assert steps[-1] == 100
    assert silent.told(PROGRESS) == []


async def logs(bench: Bench) -> None:
    """Log messages from the level on that was asked for: by each request, or for the session."""
    async with bench.client() as loud, bench.client() as quiet, bench.client() as silent:
        await loud.log_at("debug")
        await quiet.log_at("error")
        heard = [(await each.call(bench.name("logs"))).told(LOG) for each in (loud, quiet, silent)]
    levels = [[each["level"] for each in one] for one in heard]
    assert levels[0][:2] == ["debug", "info"]
    assert levels[1] == ["error", "critical", "alert", "emergency"]
    assert levels[2] == []


async def _became(client: AnsweringClient, bench: Bench, key: str, wanted: str) -> None:
    """Wait until a waiting call is in a state, as its server tells another client."""
    async with asyncio.timeout(20):
        while (await client.call(bench.name("calls"))).structured.get(key) != wanted:
            await asyncio.sleep(0.02)


async def _give_up(bench: Bench, client: AnsweringClient, call: asyncio.Task[Ended], identifier: str) -> None:
    """Cancel a call in the way of the client's era, and see it end."""
    if bench.is_modern:
        call.cancel()
    else:
        await client.notify("notifications/cancelled", {"requestId": identifier})
    await asyncio.wait([call])


async def cancelled(bench: Bench) -> None:
    """A call that its client no longer wants ends at the server too."""
    key = f"cancelled-{uuid.uuid4()}"
    async with bench.client() as client, bench.client() as other, asyncio.TaskGroup() as group:
        call = group.create_task(client.call(bench.name("wait"), {"key": key}, identifier="c1"))
        await _became(other, bench, key, "running")
        await _give_up(bench, client, call, "c1")
        await _became(other, bench, key, "cancelled")
    if not bench.is_modern:
        assert call.result().message == {}


async def disconnected(bench: Bench) -> None:
    """A legacy client whose connection breaks has cancelled nothing."""
    key = f"left-{uuid.uuid4()}"
    async with bench.client() as client, bench.client() as other, asyncio.TaskGroup() as group:
        call = group.create_task(client.call(bench.name("wait"), {"key": key}))
        await _became(other, bench, key, "running")
        call.cancel()
        await asyncio.wait([call])
        assert (await other.call(bench.name("echo"))).structured == {}
        await other.call(bench.name("release"), {"key": key})
        await _became(other, bench, key, "finished")


async def trace(bench: Bench) -> None:
    """The W3C trace context of a request reaches the server; baggage does not."""
    async with bench.client() as client:
        params = {"name": bench.name("told"), "_meta": {**TRACE, "baggage": "user=1", "com.example/own": 1}}
        told = (await client.request("tools/call", params)).structured["meta"]
    assert {key: told.get(key) for key in TRACE} == TRACE
    assert told["com.example/own"] == 1
    assert "baggage" not in told


async def headers(bench: Bench) -> None:
    """The headers that mirror a request: the server's own name of the tool, and the annotated argument."""
    mirrored = {"Mcp-Param-Region": "=?base64?w6Ugw7g=?="} if bench.is_modern else {}
    async with bench.client() as client:
        name, arguments = bench.name("told"), {"region": "å ø"}
        told = (await client.call(name, arguments, headers=mirrored)).structured["headers"]
    assert told["mcp-method"] == "tools/call"
    assert told["mcp-name"] == "told"
    assert told["mcp-param-region"] == "=?base64?w6Ugw7g=?="


async def no_headers(bench: Bench) -> None:
    """A server without such headers gets none; the argument is in the body alone."""
    mirrored = {"Mcp-Param-Region": "north"} if bench.is_modern else {}
    async with bench.client() as client:
        params = {"region": "north"}
        told = (await client.call(bench.name("told"), params, headers=mirrored)).structured["headers"]
        assert (await client.call(bench.name("echo"), params)).structured == params
    assert [name for name in told if name.startswith("mcp-") and name not in _SESSION] == []


_SESSION: Final = ("mcp-protocol-version", "mcp-session-id")


async def unheaded(bench: Bench) -> None:
    """A tool whose annotation no header can carry is left out, and only it."""
    async with bench.client() as client:
        names = [tool["name"] for tool in await client.every("tools/list", "tools")]
        assert bench.name("unheaded") not in names
        assert bench.name("spare") in names
        assert "Unknown tool" in (await client.call(bench.name("unheaded"))).error["message"]


async def headless(bench: Bench) -> None:
    """On pipes there are no headers: the tool is listed and called."""
    async with bench.client() as client:
        assert bench.name("unheaded") in [tool["name"] for tool in await client.every("tools/list", "tools")]
        assert (await client.call(bench.name("unheaded"), {"everything": {}})).structured == {"everything": {}}


async def late(bench: Bench) -> None:
    """A server answers a call that was cancelled before: nobody gets it, and it is counted."""
    key, before = f"late-{uuid.uuid4()}", bench.errors("unknown_id")
    async with bench.client() as client, bench.client() as other, asyncio.TaskGroup() as group:
        call = group.create_task(client.call(bench.name("wait"), {"key": key, "late": True}, identifier="l1"))
        await _became(other, bench, key, "running")
        await _give_up(bench, client, call, "l1")
        await until(lambda: bench.errors("unknown_id") > before)
        assert (await client.call(bench.name("echo"), {"after": 1}, identifier="l1")).structured == {"after": 1}
    assert bench.is_modern or call.result().message == {}


async def nothing_late(bench: Bench) -> None:
    """The cancelled call's stream is closed; whoever calls next under the same id gets its own answer."""
    key, before = f"late-{uuid.uuid4()}", bench.errors("unknown_id")
    async with bench.client() as client, bench.client() as other, asyncio.TaskGroup() as group:
        call = group.create_task(client.call(bench.name("wait"), {"key": key, "late": True}, identifier="l1"))
        await _became(other, bench, key, "running")
        await _give_up(bench, client, call, "l1")
        await _became(other, bench, key, "cancelled")
        assert (await client.call(bench.name("echo"), {"after": 1}, identifier="l1")).structured == {"after": 1}
    assert bench.errors("unknown_id") == before


BEHAVIOURS: Final = (
    Behaviour("opening", "The client learns versions and capabilities in the words of its own era.", opening),
    Behaviour("tools", "Tools are listed under the server's namespace, called, and answered.", tools),
    Behaviour("structured content", "An output schema and the content it describes arrive as they are.", structured),
    Behaviour(
        "structured arrays",
        'Structured content that is no object reaches modern clients as it is and legacy ones as `{"result": …}`.',
        no_object,
        (Instead(lambda cell: cell.server == "legacy", "legacy servers have structured objects alone", objects_alone),),
    ),
    Behaviour("failed tools", "A result with `isError` passes as the server wrote it.", is_error),
    Behaviour("errors", "A server's JSON-RPC error keeps code, message and data.", errors),
    Behaviour("prompts", "Prompts are listed and got, also one that asks the client first.", prompts),
    Behaviour("resources", "Resources are listed and read; what is missing is told in the client's code.", resources),
    Behaviour("resource templates", "Templates are listed, and a URI that fits one is read.", templates),
    Behaviour("completion", "Arguments of prompts and templates are completed.", completion),
    Behaviour("pagination", "Lists come in the gateway's pages, complete whatever pages the servers have.", pagination),
    Behaviour("cursors", "A cursor that is altered, made up or of another list is refused.", cursors),
    Behaviour("progress", "Progress comes under the client's token, only where it gave one.", progress),
    Behaviour("log messages", "Logs come from the level on that the request or session asked for, else not.", logs),
    Behaviour(
        "cancelling",
        "Closing the response (modern) or `notifications/cancelled` (legacy) ends the call at the server.",
        cancelled,
    ),
    Behaviour(
        "broken connections",
        "A call whose client's connection breaks runs on.",
        disconnected,
        (
            Instead(
                lambda cell: cell.client == "modern", "closing the response is how a modern client cancels", cancelled
            ),
        ),
    ),
    Behaviour(
        "trace context", "`traceparent` and `tracestate` in `_meta` reach the server, `baggage` does not.", trace
    ),
    Behaviour(
        "headers of requests",
        "`Mcp-Name` and `Mcp-Param-*` are written anew from the request that the server gets.",
        headers,
        (
            Instead(lambda cell: cell.transport == "stdio", "pipes have no headers", no_headers),
            Instead(lambda cell: cell.server == "legacy", "legacy servers know no such headers", no_headers),
        ),
    ),
    Behaviour(
        "unusable header annotations",
        "A tool with an `x-mcp-header` that no header can carry is left out.",
        unheaded,
        (Instead(lambda cell: cell.transport == "stdio", "pipes have no headers, so the tool is listed", headless),),
    ),
    Behaviour(
        "late answers",
        "An answer to a call that was cancelled is dropped and counted.",
        late,
        (
            Instead(
                lambda cell: cell.server == "modern" and cell.transport == "http",
                "cancelling closes the only stream on which an answer could come",
                nothing_late,
            ),
        ),
    ),
)
