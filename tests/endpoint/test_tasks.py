"""Ids of tasks: the same text every time, and of use to nobody but the caller they were given to."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.endpoint import tasks
from gateway.endpoint.build import UnknownTarget
from gateway.endpoint.tasks import Handle
from gateway.errors import Reason, RequestError
from gateway.model.call import Call, TaskRef
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure
from gateway.model.principal import Principal
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.versions import Era
from gateway.state.sealing import Sealer
from tests.kit.calls import call as made
from tests.kit.endpoint import SEALER, moment


def call() -> Call:
    return made("add", "notes")


def draft(method: str = "tasks/get") -> Call:
    return replace(call(), id="01BX5ZZKBKACTAV9WEVGEMMVRZ", method=method, params={}, exposed="")


def test_an_id_opens_for_its_caller_and_always_reads_the_same() -> None:
    token = tasks.seal(SEALER, call(), "own", "pid:1#1")
    assert token == tasks.seal(SEALER, call(), "own", "pid:1#1")
    assert "own" not in token
    own = tasks.opened(SEALER, token, call().principal, call().caller)
    assert own == Handle("notes", "add", "own", call().id, "pid:1#1")
    assert tasks.seal(SEALER, call(), "other") != token


def test_an_id_opens_for_nobody_else() -> None:
    """S59: not for another principal, view or era, nor after a change, nor with another key."""
    token, asked = tasks.seal(SEALER, call(), "own"), call()
    other = Principal("key:other", "key", "other")
    caller = asked.caller
    for principal, seen in (
        (other, caller),
        (asked.principal, replace(caller, view="v")),
        (asked.principal, replace(caller, era=Era.LEGACY)),
    ):
        assert tasks.opened(SEALER, token, principal, seen) is None
    changed = token[:-1] + ("A" if token[-1] != "A" else "B")
    for wrong in (changed, token[:-4], "", "own", "ä"):
        assert tasks.opened(SEALER, wrong, asked.principal, caller) is None
    assert tasks.opened(Sealer([b"o" * 32]), token, asked.principal, caller) is None


def test_a_request_about_a_task_is_a_call_of_its_tool() -> None:
    token = tasks.seal(SEALER, call(), "own", "pid:1#1")
    about = tasks.call_of(moment(), SEALER, draft(), {"taskId": token})
    assert (about.id, about.method, about.params) == (call().id, "tasks/get", {"taskId": "own"})
    assert (about.target.server, about.target.name, about.exposed) == ("notes", "add", "notes__add")
    assert about.task == TaskRef("own", token, "pid:1#1")
    assert about.round == 2


def test_every_id_that_leads_nowhere_gets_the_same_answer() -> None:
    """S59: a tool that is gone or hidden takes its tasks along."""
    token = tasks.seal(SEALER, call(), "own")
    gone = tasks.seal(SEALER, made("gone", "notes"), "own")
    hides = replace(moment(), hides=lambda principal, target: target.name == "add")
    for now, each, hidden in ((moment(), "nonsense", ""), (moment(), gone, ""), (hides, token, "notes__add")):
        with pytest.raises(UnknownTarget) as caught:
            tasks.call_of(now, SEALER, draft(), {"taskId": each})
        shown = each if len(each) <= 128 else f"{each[:127]}…"
        assert (caught.value.code, caught.value.message) == (-32602, f"Unknown task: {shown}")
        assert caught.value.call.exposed == (hidden or shown)
    with pytest.raises(RequestError, match="taskId must be a string"):
        tasks.call_of(moment(), SEALER, draft(), {"taskId": 7})


def about(method: str) -> Call:
    return tasks.call_of(moment(), SEALER, draft(method), {"taskId": tasks.seal(SEALER, call(), "own-1")})


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update"])
def test_a_server_that_forgot_a_task_is_repeated_in_our_words(method: str) -> None:
    failed = Failure(Reason.PROTOCOL_ERROR, "", error=ErrorObject(-32602, "no task own-1"))
    answer = tasks.answer(moment(), about(method), Exchange(), failed)
    assert answer.status == 400
    assert json.loads(answer.body)["error"]["message"].startswith("Unknown task: ")
    assert b"own-1" not in answer.body


def test_other_errors_name_the_task_as_its_client_knows_it() -> None:
    asked = about("tasks/cancel")
    failed = Failure(Reason.PROTOCOL_ERROR, "", error=ErrorObject(-32602, "own-1 is over", rawjson.raw({"a": 1})))
    error = json.loads(tasks.answer(moment(), asked, Exchange(), failed).body)["error"]
    assert asked.task is not None
    assert error == {"code": -32602, "message": f"{asked.task.shown} is over", "data": {"a": 1}}
    stopped = tasks.answer(moment(), asked, Exchange(), Failure(Reason.TIMEOUT, "late"))
    assert json.loads(stopped.body)["error"]["code"] == -31003


def test_an_error_inside_of_a_task_is_fitted_like_one_of_its_own() -> None:
    asked = about("tasks/get")
    plain = {"code": -32603, "message": "broke", "data": {"part": 1}}
    assert rawjson.decode_value(tasks.carried_error(moment(), asked, rawjson.raw(plain))) == plain
    hop = tasks.carried_error(moment(), asked, rawjson.raw({"code": -32020, "message": "x"}))
    fitted = rawjson.decode_value(hop)
    assert isinstance(fitted, dict)
    assert fitted["code"] == -31004
    broken = rawjson.raw("no error")
    assert tasks.carried_error(moment(), asked, broken) is broken


def test_a_result_inside_of_a_task_does_not_say_again_which_task_it_is_of() -> None:
    meta = {"io.modelcontextprotocol/related-task": {"taskId": "own-1"}, "dev.mcp-gateway/refusal": {}}
    inner = tasks.carried_result(moment(), about("tasks/get"), rawjson.raw({"content": [], "_meta": meta}))
    assert rawjson.decode_value(inner) == {"content": []} | (
        {"_meta": {}} if b"_meta" in rawjson.raw_bytes(inner) else {}
    )
    odd = rawjson.raw([1])
    assert tasks.carried_result(moment(), about("tasks/get"), odd) is odd
