"""What a server says is looked at where its config asks for it, and only there (S148, S149)."""

from __future__ import annotations

import asyncio

import pytest

from gateway.config.servers import ResultFilters, Server
from gateway.errors import Reason
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.pipeline.filter import NOTE, Filter, Sieve, sieves
from gateway.pipeline.interceptor import Passage
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members, Object, Raw, Value
from gateway.telemetry.metrics import Metrics
from gateway.text.pieces import LENGTH
from tests.kit.calls import OK, Next, call, passage

KEY = "AK" + "IAIOSFODNN7EXAMPLE"
ESCAPE = "\x1b[31mred\u200b"
CLEAN = "red"


def members(**values: Value) -> Members:
    return {name: rawjson.raw(value) for name, value in values.items()}


def value(found: Members) -> Object:
    return {name: rawjson.decode_value(item) for name, item in found.items()}


async def run(outcome: Outcome, way: Passage | None = None, **settings: object) -> Outcome:
    return await sifted(ResultFilters.model_validate(settings), outcome, way)


async def sifted(
    settings: ResultFilters, outcome: Outcome, way: Passage | None = None, metrics: Metrics | None = None
) -> Outcome:
    sieve = Sieve.of(settings)
    return await Filter(lambda _: sieve, metrics or Metrics())(call("t"), way or passage(), Next(outcome))


def texts(text: str) -> Object:
    return {
        "content": [
            {"type": "text", "text": text},
            {"type": "resource", "resource": {"uri": "x:/y", "text": text}},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
        ],
        "structuredContent": {"a": [text], text: 1},
        "_meta": {"note": text},
    }


async def test_with_filters_off_the_very_outcome_comes_back() -> None:
    outcome = Complete(members(**texts(ESCAPE)))
    assert await run(outcome) is outcome


async def test_hidden_characters_are_taken_out_everywhere_in_a_result() -> None:
    ended = await run(Complete(members(**texts(ESCAPE))), hidden="strip")
    assert isinstance(ended, Complete)
    assert value(ended.result) == texts(CLEAN)


async def test_what_has_nothing_in_it_keeps_its_bytes() -> None:
    item = Raw(b'[ {"text":"caf\\u00e9 1.0", "data" : "aGk=" } ]')
    ended = await run(Complete({"content": item}), hidden="strip", secrets="redact", markers="strip")
    assert isinstance(ended, Complete)
    assert ended.result["content"] is item


@pytest.mark.parametrize(
    ("settings", "text", "after"),
    [
        ({"secrets": "redact"}, f"key {KEY} end", "key [redacted: aws_key] end"),
        ({"markers": "strip"}, "a <IMPORTANT> b", "a [removed: instruction_tag] b"),
        ({"hidden": "flag", "secrets": "flag", "markers": "flag"}, f"{ESCAPE} {KEY} <system>", None),
    ],
)
async def test_each_filter_does_what_it_says(settings: dict[str, str], text: str, after: str | None) -> None:
    way = passage()
    ended = await sifted(ResultFilters.model_validate(settings), Complete(members(text=text)), way)
    assert isinstance(ended, Complete)
    assert value(ended.result) == {"text": text if after is None else after}
    assert all(f"{name} {action}: " in way.exchange.notes[NOTE] for name, action in settings.items())
    assert KEY not in way.exchange.notes[NOTE]


@pytest.mark.parametrize("name", ["hidden", "secrets", "markers"])
async def test_what_is_blocked_is_withheld_as_a_whole(name: str) -> None:
    way = passage()
    settings = ResultFilters.model_validate({name: "block"})
    ended = await sifted(settings, Complete(members(text=f"{ESCAPE} {KEY} <system>")), way)
    assert isinstance(ended, Failure)
    assert (ended.reason, ended.may_have_run) == (Reason.BLOCKED_CONTENT, True)
    assert name in ended.text
    assert KEY not in ended.text
    assert "block" in way.exchange.notes[NOTE]


async def test_errors_tasks_and_questions_are_looked_at_too() -> None:
    error = ErrorObject(-32000, ESCAPE, rawjson.raw({"why": ESCAPE}))
    failed = await run(Failure(Reason.PROTOCOL_ERROR, "x", error=error), hidden="strip")
    assert isinstance(failed, Failure)
    assert failed.error is not None
    assert failed.error.data is not None
    assert (failed.error.message, rawjson.decode_value(failed.error.data)) == (CLEAN, {"why": CLEAN})

    started = await run(Started(members(status=ESCAPE)), hidden="strip")
    assert isinstance(started, Started)
    assert value(started.result) == {"status": CLEAN}

    asked = await run(InputRequired(members(q={"params": {"message": ESCAPE}}), "state"), hidden="strip")
    assert isinstance(asked, InputRequired)
    assert value(asked.requests) == {"q": {"params": {"message": CLEAN}}}
    assert asked.state == "state"


async def test_a_refusal_of_the_gateways_own_stays() -> None:
    refusal = Failure(Reason.TIMEOUT, "x")
    assert await run(refusal, hidden="block") is refusal


async def test_notifications_pass_as_they_may_be_read_and_not_at_all_when_blocked() -> None:
    heard: list[Object] = []
    exchange = Exchange(notify=lambda method, params: heard.append(value(params)))

    class Telling(Next):
        async def __call__(self, call: object, passage: Passage) -> Outcome:
            passage.exchange.notify("notifications/message", members(data=f"{ESCAPE} hello"))
            passage.exchange.notify("notifications/message", members(data=f"{KEY} hello"))
            passage.exchange.notify("notifications/message", members(data="x" * 40_000))
            return OK

    sieve = Sieve.of(ResultFilters(hidden="strip", secrets="block"))
    assert await Filter(lambda _: sieve, Metrics())(call("t"), Passage(exchange), Telling()) == OK
    assert heard == [{"data": f"{CLEAN} hello"}]
    assert "secrets block" in exchange.notes[NOTE]


async def test_a_question_with_something_to_block_is_refused_and_never_asked() -> None:
    asked: list[Object] = []
    answered: list[Object] = []

    async def ask(requests: dict[str, Raw]) -> Object:
        asked.append(value(requests))
        return {key: {"action": "accept"} for key in requests}

    class Asking(Next):
        async def __call__(self, call: object, passage: Passage) -> Outcome:
            assert passage.exchange.ask is not None
            answered.append(await passage.exchange.ask(members(good={"m": ESCAPE}, bad={"m": KEY})))
            answered.append(await passage.exchange.ask(members(bad={"m": KEY})))
            return OK

    sieve = Sieve.of(ResultFilters(hidden="strip", secrets="block"))
    assert await Filter(lambda _: sieve, Metrics())(call("t"), Passage(Exchange(ask=ask)), Asking()) == OK
    assert asked == [{"good": {"m": CLEAN}}]
    assert answered == [{"bad": None, "good": {"action": "accept"}}, {"bad": None}]


async def test_fields_are_left_out_of_structured_results_and_of_texts_that_repeat_them() -> None:
    rows: Value = [{"name": "a", "ssn": "1"}, {"name": "b", "ssn": "2"}]
    result = members(
        content=[{"type": "text", "text": '{"rows":[{"name":"a","ssn":"1"}]}'}, {"type": "text", "text": "ssn of a"}],
        structuredContent={"rows": rows},
    )
    ended = await run(Complete(result), fields=["/rows/*/ssn"])
    assert isinstance(ended, Complete)
    assert value(ended.result) == {
        "content": [{"type": "text", "text": '{"rows":[{"name":"a"}]}'}, {"type": "text", "text": "ssn of a"}],
        "structuredContent": {"rows": [{"name": "a"}, {"name": "b"}]},
    }


async def test_a_long_result_is_looked_at_whole() -> None:
    text = f"{'word ' * LENGTH}{KEY} {'word ' * LENGTH}"
    ended = await run(Complete(members(text=text)), secrets="redact")
    assert isinstance(ended, Complete)
    assert value(ended.result) == {"text": text.replace(KEY, "[redacted: aws_key]")}


async def test_what_was_found_is_counted_by_server_and_action() -> None:
    metrics = Metrics()
    metrics.known_servers(["a"])
    await sifted(
        ResultFilters(hidden="strip", secrets="flag"), Complete(members(text=f"{ESCAPE} {KEY}")), metrics=metrics
    )
    told = metrics.render("")[0].decode()
    assert 'output_filtered_total{action="strip",server="a"} 1.0' in told
    assert 'output_filtered_total{action="flag",server="a"} 1.0' in told


JWT_LIKE = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"


async def test_the_result_inside_of_a_task_loses_its_fields_like_any_other() -> None:
    task: Object = {"taskId": "t", "status": "completed", "result": {"structuredContent": {"ssn": "1", "name": "a"}}}
    ended = await run(Complete(members(**task)), fields=["/ssn"])
    assert isinstance(ended, Complete)
    assert value(ended.result)["result"] == {"structuredContent": {"name": "a"}}
    odd = Complete(members(taskId="t", result=[1]))
    assert await run(odd, fields=["/ssn"]) == odd


@pytest.mark.parametrize(
    "handle", [{"taskId": JWT_LIKE, "note": KEY}, {"task": {"taskId": JWT_LIKE, "note": KEY}}, {"task": [KEY]}]
)
async def test_an_id_that_looks_like_a_secret_still_leads_to_its_task(handle: Object) -> None:
    ended = await run(Started(members(**handle)), secrets="redact")
    assert isinstance(ended, Started)
    text = str(value(ended.result))
    assert KEY not in text
    assert (JWT_LIKE in text) is (JWT_LIKE in str(handle))
    looked = await run(Complete(members(taskId=JWT_LIKE)), secrets="redact")
    assert isinstance(looked, Complete)
    assert value(looked.result) == {"taskId": JWT_LIKE}


async def told(task: Members, metrics: Metrics | None = None, **settings: object) -> Object | None:
    """Return what a client is told of a task's change."""
    sieve = Sieve.of(ResultFilters.model_validate(settings))
    done: asyncio.Future[Members | None] = asyncio.get_running_loop().create_future()
    Filter(lambda _: sieve, metrics or Metrics()).sift("a", task, done.set_result)
    async with asyncio.timeout(5):
        found = await done
    return None if found is None else value(found)


async def test_what_a_server_tells_of_a_task_is_looked_at_like_what_it_answers() -> None:
    """S148, S149: a notification carries the whole result."""
    metrics = Metrics()
    metrics.known_servers(["a"])
    task = members(taskId=JWT_LIKE, result={"text": f"{KEY} {ESCAPE}", "structuredContent": {"ssn": "1"}})
    assert await told(task) == value(task)
    assert await told(task, metrics, secrets="redact", hidden="strip", fields=["/ssn"]) == {
        "taskId": JWT_LIKE,
        "result": {"text": f"[redacted: aws_key] {CLEAN}", "structuredContent": {}},
    }
    assert await told(task, metrics, secrets="block") is None
    counted = metrics.render("")[0].decode()
    assert 'output_filtered_total{action="redact",server="a"} 1.0' in counted
    assert 'output_filtered_total{action="block",server="a"} 1.0' in counted


async def test_a_long_word_on_a_task_is_looked_at_whole_and_elsewhere() -> None:
    text = f"{'word ' * LENGTH}{KEY}"
    assert await told(members(taskId="t", text=text), secrets="block") is None
    assert await told(members(taskId="t", text=text), secrets="redact") == {
        "taskId": "t",
        "text": text.replace(KEY, "[redacted: aws_key]"),
    }


def test_every_server_has_a_sieve_and_a_listen_has_one_that_does_nothing() -> None:
    server = Server.model_validate({"command": "x", "results": {"secrets": "block"}})
    made = sieves({"a": server})
    assert bool(made["a"])
    assert not made[""]
