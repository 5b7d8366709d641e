from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys

import pytest

from gateway.config.servers import Server
from gateway.downstream import process as processes
from gateway.downstream import stdio as module
from gateway.downstream.command import Command
from gateway.downstream.guardian import Guardian
from gateway.downstream.stdio import StdioTransport
from gateway.downstream.transport import Later, Request, Transport
from gateway.errors import DownstreamError, Reason
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject, Id
from tests.kit.field import until
from tests.kit.processes import (
    WAIT,
    Counts,
    Recorder,
    alive,
    call,
    eventually,
    guarded,
    result,
    running,
    said,
    scripted,
)


def cancellation(identifier: Id) -> tuple[str, object]:
    return "notifications/cancelled", {"requestId": identifier}


def pid_of(transport: StdioTransport) -> int:
    return int(transport.instance.removeprefix("pid:").partition("#")[0])


async def failing(transport: Transport, request: Request) -> DownstreamError:
    with pytest.raises(DownstreamError) as caught:
        await asyncio.wait_for(transport.request(request), WAIT)
    return caught.value


async def heard_of(transport: Transport, cancelled: str) -> None:
    """Wait until the server has taken note of these cancellations; it handles each message in its own thread."""
    async with asyncio.timeout(WAIT):
        while said(await transport.request(call("cancelled"))) != cancelled:
            await asyncio.sleep(0.01)


def replying(code: str) -> Server:
    """A server that is this piece of Python; ``line`` is what it was sent, ``say`` writes bytes."""
    head = "import os,sys,json,signal,time\nsay=lambda data: os.write(1,data)\nline=sys.stdin.buffer.readline()\n"
    return Server(command=sys.executable, args=["-I", "-S", "-c", head + code])


async def test_calls_in_any_order_get_their_own_answers() -> None:
    async with running() as transport:
        slow = asyncio.gather(*(transport.request(call("sleep", seconds=0.2)) for _ in range(3)))
        echoes = [transport.request(call("echo", n=number)) for number in range(20)]
        replies = await asyncio.gather(*echoes)
        assert [json.loads(said(reply)) for reply in replies] == [{"n": number} for number in range(20)]
        assert {said(reply) for reply in await slow} == {"slept"}


async def test_errors_of_the_server_are_replies() -> None:
    async with running() as transport:
        reply = await transport.request(call("error", code=-32042))
        assert reply.result is None
        assert reply.error is not None
        assert (reply.error.code, reply.error.message) == (-32042, "asked for")
        assert reply.error.data is not None
        assert rawjson.raw_bytes(reply.error.data) == b'{"n": 1}'.replace(b" ", b"")


async def test_the_instance_is_the_process_and_its_generation() -> None:
    async with guarded() as guardian:
        transport = StdioTransport("files", scripted(), guardian, generation=3)
        assert transport.instance == "pid:0#3"
        await transport.open(Recorder())
        who = result(await transport.request(call("whoami")))["structuredContent"]
        assert transport.instance == f"pid:{who['pid']}#3"
        assert who["group"] == who["pid"]
        await transport.aclose()


async def test_a_process_gets_nothing_of_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """S104, S105, S106"""
    for name in ("LD_PRELOAD_X", "PYTHONPATH", "AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY", "MCPGW_CANARY"):
        monkeypatch.setenv(name, "canary")
    args = ["$(touch /tmp/p)", "; id", "`id`", "a b", ""]
    async with running(*args, env={"LOG": "warn"}, limits={"open_files": 99}) as transport:
        environment = json.loads(said(await transport.request(call("env"))))
        facts = json.loads(said(await transport.request(call("fds"))))
    allowed = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "TERM"}
    # An interpreter in the C locale adds this one for itself (PEP 538).
    assert set(environment) - allowed - {"LC_CTYPE"} == {"LOG"}
    assert "canary" not in environment.values()
    assert (facts["fds"], facts["umask"], facts["argv"]) == ([0, 1, 2], 0o77, args)
    assert facts["core"] == [0, 0]
    assert facts["files"] == [99, 99]
    assert "NoNewPrivs:\t1" in facts["status"]


async def test_separators_inside_strings_are_no_line_ends() -> None:
    """G001"""
    async with running() as transport:
        assert said(await transport.request(call("u2028"))) == "a\u2028b\u0085c\u2029d\re"


@pytest.mark.parametrize("mode", ["crlf", "chunks"])
async def test_line_ends_of_windows_and_any_chunking_are_understood(mode: str) -> None:
    """G003, G005, G009"""
    async with running(mode) as transport:
        assert said(await transport.request(call("echo", text="é" * 50))) == json.dumps({"text": "é" * 50})


async def test_long_lines_below_the_limit_arrive_and_the_next_one_too() -> None:
    """G002, S108"""
    async with running() as transport:
        assert len(said(await transport.request(call("big", size=70_000)))) == 70_000
        assert len(said(await transport.request(call("big", size=7 * 2**20)))) == 7 * 2**20
        assert said(await transport.request(call("echo"))) == "{}"


async def test_a_line_over_the_limit_ends_the_process() -> None:
    """S108, G004"""
    inbox = Recorder()
    async with running("fork=1", max_result=2**20, inbox=inbox) as transport:
        children = json.loads(said(await transport.request(call("children"))))
        waiting = asyncio.gather(failing(transport, call("sleep")), failing(transport, call("big", size=2**21)))
        for error in await waiting:
            assert (error.reason, error.may_have_run) == (Reason.TOO_LARGE, True)
            assert error.message == "the server wrote a line of over 1048576 bytes"
        assert inbox.reasons == [error.message]
        assert inbox.kinds == ["line_too_long"]
        await eventually(lambda: not alive(pid_of(transport)) and not alive(children[0]))


async def test_a_flood_without_line_ends_does_not_fill_the_memory() -> None:
    """S108: at most twice the limit; the flood is as fast as a pipe can carry."""
    async with running("flood", max_result=8 * 2**20) as transport:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        error = await failing(transport, call("echo"))
        assert error.reason is Reason.TOO_LARGE
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2 * 8 * 1024
        await eventually(lambda: not alive(pid_of(transport)))


async def test_noise_is_skipped_and_counted() -> None:
    """G006"""
    inbox = Recorder()
    async with guarded() as guardian:
        transport = StdioTransport("files", scripted("banner", "garbage=5"), guardian)
        await transport.open(inbox)
        assert said(await transport.request(call("echo"))) == "{}"
        await transport.aclose()
    assert len(inbox.violations) == 10
    assert ("bad_json", "Server v1.2 ready") in inbox.violations
    assert ("not_jsonrpc", '{"a":1}') in inbox.violations
    assert inbox.reasons == []


async def test_a_flood_of_noise_ends_the_connection() -> None:
    """S109"""
    inbox = Recorder()
    async with running("garbage=101", inbox=inbox) as transport:
        error = await failing(transport, call("echo"))
        assert (error.reason, error.may_have_run) == (Reason.PROTOCOL_ERROR, True)
        assert error.message == "the server wrote over 100 lines that are no MCP in 10 s"
        assert inbox.reasons == [error.message]


async def test_a_hundred_lines_of_noise_do_not() -> None:
    async with running("garbage=100") as transport:
        assert said(await transport.request(call("echo"))) == "{}"


async def test_content_length_framing_is_named() -> None:
    """G008"""
    inbox = Recorder()
    async with running("contentlength", inbox=inbox) as transport:
        error = await failing(transport, Request("ping", {}))
        assert error.reason is Reason.PROTOCOL_ERROR
        assert "Content-Length" in error.message
        assert inbox.kinds == ["content_length"]


async def test_an_answer_that_is_not_utf8_fails_its_call_and_nothing_else() -> None:
    """G010"""
    inbox = Recorder()
    async with running("badutf8", inbox=inbox) as transport:
        error = await failing(transport, call("echo"))
        assert (error.reason, error.may_have_run) == (Reason.PROTOCOL_ERROR, True)
        assert (await transport.request(Request("ping", {}, timeout=WAIT))).result == {}
        assert inbox.kinds == ["bad_json"]


async def test_an_answer_with_the_id_in_another_type_is_not_taken() -> None:
    inbox = Recorder()
    async with running("wrongid", inbox=inbox) as transport:
        error = await failing(transport, call("echo", timeout=0.5))
        assert error.reason is Reason.TIMEOUT
        assert inbox.violations == [("unknown_id", "1")]


async def test_a_second_answer_is_dropped() -> None:
    inbox = Recorder()
    async with running("duplicate", inbox=inbox) as transport:
        assert said(await transport.request(call("echo", n=1))) == '{"n": 1}'
        assert said(await transport.request(call("echo", n=2))) == '{"n": 2}'
        await eventually(lambda: len(inbox.violations) == 2)
        assert set(inbox.kinds) == {"unknown_id"}


@pytest.mark.parametrize(
    "answer",
    [
        b'{"jsonrpc":"2.0","id":1,"result":[]}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}',
        b'{"jsonrpc":"2.0","id":1}',
    ],
)
async def test_an_answer_that_is_none_fails_its_call_at_once(answer: bytes) -> None:
    inbox = Recorder()
    async with guarded() as guardian:
        transport = StdioTransport("x", replying(f"say({answer!r}+b'\\n'); sys.stdin.read()"), guardian)
        await transport.open(inbox)
        error = await failing(transport, Request("ping", {}))
        await transport.aclose()
    assert error.reason is Reason.PROTOCOL_ERROR
    assert inbox.kinds == ["not_jsonrpc"]


@pytest.mark.parametrize("identifier", [b"null", b"1.0", b"true", b'"1"', b"2", b"[1]"])
async def test_an_error_that_names_no_call_answers_none(identifier: bytes) -> None:
    body = b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32600,"message":""}}\n' % identifier
    inbox = Recorder()
    async with guarded() as guardian:
        transport = StdioTransport("x", replying(f"say({body!r}); sys.stdin.read()"), guardian)
        await transport.open(inbox)
        error = await failing(transport, Request("ping", {}, timeout=0.3))
        await transport.aclose()
    assert error.reason is Reason.TIMEOUT
    assert inbox.kinds == ["unknown_id"]


async def test_the_answer_is_told_before_what_came_behind_it_in_the_same_piece() -> None:
    """G054"""
    answer = b'{"jsonrpc":"2.0","id":1,"result":{}}\n{"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n'
    inbox, before = Recorder(), []
    async with guarded() as guardian:
        transport = StdioTransport("x", replying(f"say({answer!r}); sys.stdin.read()"), guardian)
        await transport.open(inbox)
        await transport.request(Request("ping", {}, on_answer=lambda: before.append(len(inbox.notifications))))
        await transport.aclose()
    assert (before, len(inbox.notifications)) == ([0], 1)


async def test_a_timeout_is_told_to_the_server_with_the_id_it_knows() -> None:
    """G015"""
    async with running() as transport:
        await transport.request(call("echo"))
        error = await failing(transport, Request("tools/call", {"name": "sleep"}, timeout=0.2, cancel=cancellation))
        assert (error.reason, error.message, error.may_have_run) == (Reason.TIMEOUT, "no answer within 0.2 s", True)
        await heard_of(transport, "[2]")


async def test_cancelling_the_coroutine_is_told_too() -> None:
    async with running() as transport:
        sent = asyncio.Event()
        request = Request("tools/call", {"name": "sleep"}, on_sent=sent.set, cancel=cancellation)
        task = asyncio.gather(transport.request(request))
        await asyncio.wait_for(sent.wait(), WAIT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await heard_of(transport, "[1]")


async def test_a_late_answer_is_dropped() -> None:
    inbox = Recorder()
    async with running(inbox=inbox) as transport:
        assert (await failing(transport, call("sleep", timeout=0.1, seconds=0.3))).reason is Reason.TIMEOUT
        await eventually(lambda: inbox.violations)
        assert inbox.violations == [("unknown_id", "1")]
        assert said(await transport.request(call("echo"))) == "{}"


async def test_on_sent_comes_before_the_answer() -> None:
    async with running() as transport:
        order: list[str] = []
        await transport.request(Request("ping", {}, timeout=WAIT, on_sent=lambda: order.append("sent")))
        assert order == ["sent"]


async def test_notifications_go_to_the_inbox_in_order() -> None:
    inbox = Recorder()
    async with running(inbox=inbox) as transport:
        request = Request(
            "tools/call", {"name": "progress", "arguments": {"steps": 3}, "_meta": {"progressToken": "t"}}, timeout=WAIT
        )
        assert said(await transport.request(request)) == "done"
        assert inbox.notifications == [
            ("notifications/progress", {"progressToken": "t", "progress": step}) for step in range(3)
        ]


async def test_notifications_are_sent() -> None:
    async with running() as transport:
        await transport.notify(Request("notifications/cancelled", {"requestId": 99}))
        await heard_of(transport, "[99]")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"action": rawjson.raw("accept")}, {"answer": {"action": "accept"}, "error": None}),
        (ErrorObject(-32601, "no"), {"answer": None, "error": {"code": -32601, "message": "no"}}),
    ],
)
async def test_a_request_of_the_server_is_answered_at_once(answer: ErrorObject, told: object) -> None:
    inbox = Recorder(answer)
    async with running("--era", "legacy", inbox=inbox) as transport:
        assert json.loads(said(await transport.request(call("ask")))) == told
        assert [method for method, _ in inbox.asks] == ["elicitation/create"]


async def test_a_request_of_the_server_can_be_answered_later() -> None:
    later: Later = asyncio.get_running_loop().create_future()
    inbox = Recorder(later)
    async with running("--era", "legacy", inbox=inbox) as transport:
        task = asyncio.gather(transport.request(call("ask")))
        await eventually(lambda: inbox.asks)
        assert said(await transport.request(call("echo"))) == "{}"
        assert not task.done()
        later.set_result({"action": rawjson.raw("accept")})
        assert json.loads(said((await task)[0])) == {"answer": {"action": "accept"}, "error": None}


async def test_standard_error_is_always_drained() -> None:
    """G007, S107: 10 MiB before the first answer."""
    counts = Counts()
    async with guarded() as guardian:
        transport = StdioTransport("files", scripted("stderrflood=10485760"), guardian, counts)
        await transport.open(Recorder())
        assert said(await transport.request(call("echo"))) == "{}"
        assert counts.stderr_bytes == {"files": 10485760}
        assert transport.last_words == f"its last line on stderr: {'e' * 199}…"
        await transport.aclose()


async def test_calls_in_flight_fail_at_once_when_the_process_dies() -> None:
    """S114: 50 calls, SIGKILL; grandchildren hold the pipes."""
    inbox = Recorder()
    async with running("fork=2", inbox=inbox) as transport:
        await transport.request(call("echo"))
        calls = asyncio.gather(*(failing(transport, call("sleep", timeout=None)) for _ in range(50)))
        await asyncio.sleep(0)
        os.kill(pid_of(transport), signal.SIGKILL)
        async with asyncio.timeout(1):
            errors = await calls
        assert {(error.reason, error.may_have_run) for error in errors} == {(Reason.UNAVAILABLE, True)}
        assert {error.message for error in errors} == {"the process of files was ended by SIGKILL"}
        assert inbox.reasons == ["the process of files was ended by SIGKILL"]
        late = await failing(transport, call("echo"))
        assert (late.reason, late.may_have_run) == (Reason.UNAVAILABLE, False)


async def test_an_exit_names_the_code_and_the_last_words() -> None:
    """G011"""
    async with running("exit-on-call=7") as transport:
        error = await failing(transport, call("echo"))
        assert error.message == "the process of files exited with code 7"
        assert transport.last_words == "its last line on stderr: giving up"


async def test_an_exit_at_the_start_names_its_cause() -> None:
    """G011"""
    inbox = Recorder()
    async with running("crash", inbox=inbox) as transport:
        error = await failing(transport, Request("ping", {}))
        assert error.message == "the process of files exited with code 3"
        assert transport.last_words == "its last line on stderr: cannot start: no key"
        await asyncio.wait_for(inbox.over.wait(), WAIT)
        assert inbox.reasons == [error.message]


async def test_a_server_that_does_not_read_costs_only_its_own_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """S116, G014"""
    monkeypatch.setattr(module, "WRITE_TIMEOUT", 0.5)
    async with running("noread") as stuck, running() as other:
        await stuck.request(Request("ping", {}, timeout=WAIT))
        sent: list[int] = []
        calls = [
            failing(
                stuck,
                Request("tools/call", {"x": "y" * 2**18}, on_sent=lambda: sent.append(1), cancel=cancellation),
            )
            for _ in range(20)
        ]
        waiting = asyncio.gather(*calls)
        await asyncio.sleep(0)
        assert said(await other.request(call("echo"))) == "{}"
        errors = await waiting
        assert {error.reason for error in errors} == {Reason.TIMEOUT}
        assert {error.message for error in errors} == {"the server does not read its input"}
        assert sum(error.may_have_run for error in errors) == len(sent) == 1
        assert stuck._process is not None
        assert stuck._process.unsent < 2**19


async def test_answers_to_a_server_that_does_not_read_are_dropped_at_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_UNSENT_ASIDE", 10_000)
    ask = b'{"jsonrpc":"2.0","id":"%s","method":"ping"}\n' % (b"i" * 100)
    inbox = Recorder({"filler": rawjson.raw("f" * 5000)})
    async with guarded() as guardian:
        transport = StdioTransport("x", replying(f"[say({ask!r}) for _ in range(100)]; signal.pause()"), guardian)
        await transport.open(inbox)
        await failing(transport, Request("ping", {}, timeout=1))
        await until(lambda: len(inbox.asks) == 100)
        assert "answer_dropped" in inbox.kinds
        assert transport._process is not None
        assert transport._process.unsent < 20_000
        await transport.aclose()


async def test_closing_fails_what_is_in_flight_and_says_nothing_to_the_inbox() -> None:
    inbox = Recorder()
    async with guarded() as guardian:
        transport = StdioTransport("files", scripted(), guardian)
        await transport.open(inbox)
        await transport.request(call("echo"))
        waiting = asyncio.gather(failing(transport, call("sleep", timeout=None)))
        await asyncio.sleep(0)
        await transport.aclose()
        (error,) = await waiting
        assert error.reason is Reason.UNAVAILABLE
        assert not alive(pid_of(transport))
        await transport.aclose()
        assert (await failing(transport, call("echo"))).may_have_run is False
    assert inbox.reasons == []


async def test_a_command_that_is_missing_is_an_error_of_open() -> None:
    async with guarded() as guardian:
        transport = StdioTransport("x", Server(command="no-such-command", args=["--key=s3cret"]), guardian)
        with pytest.raises(DownstreamError, match=r"^command not found: no-such-command$"):
            await transport.open(Recorder())
        assert (await failing(transport, call("echo"))).reason is Reason.UNAVAILABLE
        await transport.aclose()


async def test_garbage_before_open_returns_ends_the_process_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood can be read before the transport holds the process."""
    starting = processes.start

    async def late(command: Command, guardian: Guardian, owner: processes.Owner) -> processes.Process:
        process = await starting(command, guardian, owner)
        await eventually(lambda: inbox.reasons)
        return process

    monkeypatch.setattr(processes, "start", late)
    inbox = Recorder()
    async with guarded() as guardian:
        server = Server(command=sys.executable, args=["-I", "-S", "-c", "print('x\\n' * 200, flush=True); input()"])
        transport = StdioTransport("x", server, guardian)
        await transport.open(inbox)
        assert len(inbox.reasons) == 1
        await eventually(lambda: not alive(pid_of(transport)))
        await transport.aclose()


async def test_an_array_of_an_older_server_is_taken_message_by_message() -> None:
    """2025-03-26 basic §Batching."""
    note = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'
    line = b'[%b, 7, {"jsonrpc":"2.0","id":1,"result":{"ok":1}}]\n' % note
    inbox = Recorder()
    async with guarded() as guardian:
        transport = StdioTransport("x", replying(f"say({line!r}); sys.stdin.read()"), guardian)
        await transport.open(inbox)
        assert result(await transport.request(Request("ping", {}, timeout=WAIT))) == {"ok": 1}
        await transport.aclose()
    assert (inbox.notifications, inbox.kinds) == ([("notifications/progress", {})], ["bad_json"])
