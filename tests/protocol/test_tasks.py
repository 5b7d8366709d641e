"""Tasks as the two eras write them (Tasks extension; 2025-11-25 basic/utilities/tasks)."""

from __future__ import annotations

import pytest

from gateway.protocol import rawjson, tasks
from gateway.protocol.rawjson import JsonError, Members, Object, Value
from gateway.protocol.tasks import LONGEST_PAUSE, MAX_ID, SHORTEST_PAUSE, Task
from gateway.protocol.versions import Era


def members(**values: Value) -> Members:
    return {key: rawjson.raw(value) for key, value in values.items()}


@pytest.mark.parametrize(("era", "suffix"), [(Era.MODERN, "Ms"), (Era.LEGACY, "")])
def test_a_task_is_read_in_each_eras_words(era: Era, suffix: str) -> None:
    told = members(taskId="t", status="working", **{f"ttl{suffix}": 60_000, f"pollInterval{suffix}": 500})
    assert tasks.read(told, era) == Task("t", "working", 60.0, 0.5)
    assert not Task("t", "input_required", None, 1.0).over
    assert all(Task("t", status, None, 1.0).over for status in ("completed", "failed", "cancelled"))


@pytest.mark.parametrize(
    "told",
    [
        {"status": "working"},
        {"taskId": 7, "status": "working"},
        {"taskId": "", "status": "working"},
        {"taskId": "x" * (MAX_ID + 1), "status": "working"},
        {"taskId": "t"},
        {"taskId": "t", "status": "sleeping"},
    ],
)
def test_what_has_no_usable_id_or_status_is_no_task(told: Object) -> None:
    assert tasks.read(members(**told), Era.MODERN) is None


@pytest.mark.parametrize(
    ("poll", "pause"),
    [(0, SHORTEST_PAUSE), (10**9, LONGEST_PAUSE), (-1, 1.0), ("soon", 1.0), (True, 1.0), (None, 1.0)],
)
def test_a_server_is_looked_at_neither_all_the_time_nor_hardly_ever(poll: Value, pause: float) -> None:
    task = tasks.read(members(taskId="t", status="working", pollIntervalMs=poll, ttlMs=None), Era.MODERN)
    assert task == Task("t", "working", None, pause)


def test_a_handle_is_flat_in_one_era_and_wrapped_in_the_other() -> None:
    flat = members(taskId="t", status="working")
    assert tasks.started(flat, Era.MODERN) is not None
    assert tasks.started(flat, Era.LEGACY) is None
    assert tasks.started({"task": rawjson.raw(flat)}, Era.LEGACY) is not None
    assert tasks.started(members(task=[1]), Era.LEGACY) is None


def test_who_runs_calls_as_tasks_says_so_in_its_eras_words() -> None:
    modern: Object = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    legacy: Object = {"tasks": {"requests": {"tools": {"call": {}}}}}
    assert [tasks.runs_tools(each, "modern") for each in (modern, legacy, {})] == [True, False, False]
    assert [tasks.runs_tools(each, "legacy") for each in (modern, legacy, {})] == [False, True, False]
    assert not tasks.runs_tools({"tasks": {"requests": {"tools": True}}}, "legacy")
    assert not tasks.declared({"extensions": {"io.modelcontextprotocol/tasks": True}})


def test_a_tool_says_whether_it_runs_as_a_task() -> None:
    assert tasks.support(members(execution={"taskSupport": "required"})) == tasks.REQUIRED
    assert tasks.support(members(execution=[])) is None
    assert tasks.support({}) is None


def test_questions_are_those_of_a_task_that_waits_for_answers() -> None:
    asked: Value = {"k": {"method": "elicitation/create"}}
    assert set(tasks.asked(members(status="input_required", inputRequests=asked))) == {"k"}
    assert tasks.asked(members(status="working", inputRequests=asked)) == {}
    with pytest.raises(JsonError):
        tasks.asked(members(status="input_required", inputRequests=[1]))


def test_a_message_says_which_task_it_belongs_to_and_no_longer_does() -> None:
    linked = tasks.relate(members(content=[], _meta={"own": 1}), "t")
    assert tasks.related(linked) == "t"
    bare = tasks.unrelated(linked)
    assert tasks.related(bare) is None
    assert rawjson.decode_value(bare["_meta"]) == {"own": 1}
    assert "_meta" not in tasks.unrelated(tasks.relate(members(content=[]), "t"))
    assert tasks.unrelated(members(content=[])) == members(content=[])
    broken = members(_meta="text")
    assert tasks.unrelated(broken) is broken
    assert tasks.related(members(_meta={tasks.RELATED: "t"})) is None


def test_a_task_gets_another_id_and_keeps_the_rest() -> None:
    assert tasks.renamed(members(taskId="a", status="working"), "b") == members(taskId="b", status="working")
