"""Two whole runtimes around one store: a call that waits at one goes on at the other, and both logs tell of it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from gateway.audit.orphans import OpenCalls
from gateway.audit.verify import verify
from gateway.config.loader import load
from gateway.model.call import Call, Caller, Target, new_call_id
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome
from gateway.model.principal import ANONYMOUS
from gateway.neighbours import Neighbours
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era
from gateway.runtime import Runtime
from gateway.state.memory import MemoryStore
from tests.kit import valkey
from tests.kit.cluster import SCRIPTED, SEALING
from tests.kit.processes import eventually
from tests.kit.replicas import SEALER

ALL: Object = {"elicitation": {"form": {}}}
YES: Object = {"action": "accept", "content": {"word": "yes"}}


@asynccontextmanager
async def running(folder: Path, store: str) -> AsyncIterator[Runtime]:
    folder.mkdir()
    own = {"command": sys.executable, "args": ["-I", "-S", str(SCRIPTED), "--era", "legacy", "slow=0"]}
    config = {
        "servers": {"own": {**own, "asks": ["elicitation"], "protocol": "legacy"}},
        "state": {"dir": "state", "url": store, "sealing_keys": [SEALING]},
        "audit": {"dir": "audit"},
    }
    (folder / "gateway.yaml").write_text(json.dumps(config))
    runtime = Runtime(load(folder / "gateway.yaml", {}))
    await runtime.start()
    try:
        await eventually(lambda: runtime.current().catalog.routes)
        yield runtime
    finally:
        await runtime.aclose()


def asking(runtime: Runtime, rounds: int = 1) -> Call:
    route = runtime.current().resolve(Kind.TOOL, "own__asks", ANONYMOUS, None)
    assert route is not None
    arguments: Object = {"rounds": [["elicitation/create"]] * rounds}
    return Call(
        id=new_call_id(),
        rpc_id=1,
        method="tools/call",
        params={"name": "asks", "arguments": arguments},
        target=Target.of(route),
        principal=ANONYMOUS,
        caller=Caller(Era.MODERN, "2026-07-28", capabilities=ALL),
        exposed=route.exposed,
        definition=route.definition,
    )


def answered(made: Call, outcome: Outcome) -> Call:
    assert isinstance(outcome, InputRequired), outcome
    given: Object = dict.fromkeys(outcome.requests, YES)
    return replace(made, input_responses=given, request_state=outcome.state, round=made.round + 1)


async def run(runtime: Runtime, made: Call) -> Outcome:
    return await runtime.current().run(made, Exchange())


def records(folder: Path, made: Call) -> list[Object]:
    lines = [line for path in sorted((folder / "audit").glob("*.jsonl")) for line in path.read_text().splitlines()]
    found: list[Object] = [json.loads(line) for line in lines]
    return [record for record in found if record.get("call_id") == made.id]


def story(folder: Path, made: Call) -> list[object]:
    return [
        (record["event"], *(detail.get(key) for key in ("number", "held", "replica")))
        if isinstance(detail := record.get("round"), dict)
        else record["event"]
        for record in records(folder, made)
    ]


def left_open(folder: Path, made: Call) -> bool:
    calls = OpenCalls()
    for number, record in enumerate(records(folder, made)):
        calls.apply(record, number)
    return made.id in calls


@valkey.needed
async def test_a_call_that_goes_on_elsewhere_has_one_end_over_all_logs(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    with valkey.running() as store:
        async with running(a, store.url) as one, running(b, store.url) as two:
            made = asking(one, rounds=2)
            first = await run(one, made)
            second = await run(two, goes_on := answered(made, first))
            assert isinstance(await run(two, answered(goes_on, second)), Complete)
            here, there = one.post.replica, two.post.replica
            assert here != there
            await eventually(lambda: len(records(a, made)) == 5)
            assert story(a, made) == [
                "call.start",
                ("call.round", 1, True, None),
                ("call.round", 2, False, there),
                ("call.round", 2, True, there),
                ("call.round", 3, False, there),
            ]
            await eventually(lambda: len(records(b, made)) == 6)
            assert story(b, made) == [
                ("call.round", 2, False, here),
                ("call.round", 2, True, here),
                ("call.round", 2, False, None),
                ("call.round", 3, False, here),
                ("call.round", 3, True, here),
                "call.end",
            ]
            [end] = [record for record in records(b, made) if record["event"] == "call.end"]
            downstream = end["downstream"]
            assert isinstance(downstream, dict)
            assert downstream["replica"] == here
            assert not left_open(a, made)
            assert not left_open(b, made)
    assert verify(a / "audit").ok
    assert verify(b / "audit").ok


@valkey.needed
async def test_a_call_that_waits_where_a_gateway_ends_has_its_end_there_and_its_answer_is_refused(
    tmp_path: Path,
) -> None:
    with valkey.running() as store:
        async with running(tmp_path / "b", store.url) as two:
            async with running(tmp_path / "a", store.url) as one:
                made = asking(one)
                first = await run(one, made)
            last = await run(two, answered(made, first))
            assert isinstance(last, Failure)
            assert last.detail == "unknown_ticket"
    events = Counter(
        record["event"] for name in ("a", "b") for record in records(tmp_path / name, made) if isinstance(record, dict)
    )
    assert (events["call.start"], events["call.end"]) == (1, 1)


async def test_a_gateway_of_its_own_has_an_id_and_nobody_to_wait_for(tmp_path: Path) -> None:
    neighbours = Neighbours(MemoryStore(), SEALER, alone=True)
    await neighbours.start()
    await neighbours.drain(60)
    await neighbours.aclose()
    assert neighbours.replica == neighbours.post.replica
    assert not neighbours.post.listening.is_set()
