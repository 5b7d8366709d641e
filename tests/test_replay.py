"""Candidates over recorded logs: exactly the decisions that change, and nothing that the log cannot tell."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.config.root import LoadedConfig
from gateway.model.call import Call, Target
from gateway.model.catalog import Kind
from gateway.model.principal import Principal
from gateway.policy.decision import Question
from gateway.policy.engine import Engine
from gateway.protocol.rawjson import Object, Value
from gateway.replay import Change, Log, Replay
from tests.kit.calls import call
from tests.kit.configs import loaded
from tests.kit.recording import record_calls, record_unknown

ANN = Principal("key:ann", "key", "ann", frozenset({"analysts"}))
BOT = Principal("key:bot", "key", "bot", frozenset({"automation"}))
ISSUER = "https://as.example"


def subject(name: str, *groups: str, **claims: str) -> Principal:
    """Somebody with a token."""
    identity = f"sub:{ISSUER}/{name}"
    return Principal(identity, "sub", "as", frozenset(groups), claims={"iss": ISSUER, "sub": name, **claims})


def policies(*entries: Object, payload: str = "conditions", **sections: object) -> LoadedConfig:
    return loaded({"policies": list(entries), "audit": {"payload": payload}, **sections})


def policy(name: str = "p", clients: str = "*", **rules: object) -> Object:
    return {"name": name, "clients": [clients], **rules}  # type: ignore[dict-item]  # reason: rules are JSON.


def rule(when: str, tools: str = "a/t") -> Object:
    return {"tools": tools, "when": when}


def replayed(
    folder: Path, candidate: LoadedConfig, *, state: bool = True, **span: datetime
) -> tuple[list[Change], Replay]:
    log = Log(folder / "audit", folder / "state" if state else None, **span)
    replay = Replay(Engine.build(candidate), log, knows_views=bool(candidate.config.views))
    return [*replay.run()], replay


async def changes(
    folder: Path, before: LoadedConfig, after: LoadedConfig, *calls: Call, state: bool = True
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Record calls under one set of policies and return what another one changes, and what it leaves open."""
    await record_calls(folder, before, calls)
    found, replay = replayed(folder, after, state=state)
    assert replay.tally.judged + replay.tally.undecidable == len(calls)
    return [(change.call.who, change.after.action) for change in found], dict(replay.tally.reasons)


def _many(count: int) -> list[Call]:
    dice = random.Random(7)
    made = []
    for number in range(count):
        name = dice.choice(("query", "search", "export", "delete_row"))
        arguments: Object = {"limit": dice.randrange(1500), "sql": "select " + "x" * dice.randrange(200)}
        if dice.random() < 0.1:
            del arguments["limit"]
        who = dice.choice((ANN, BOT, subject("eve", "analysts")))
        made.append(call(name, "warehouse", arguments, principal=who, id=f"call-{number}"))
    return made


def _query(limit: int) -> LoadedConfig:
    when = f"args.limit <= {limit} && args.sql.startsWith('select')"
    analysts = policy("analysts", "group:analysts", allow=[rule(when, "warehouse/query"), "warehouse/search"])
    return policies(analysts, policy("all", deny=["warehouse/delete_*"]))


async def test_over_ten_thousand_calls_exactly_what_a_changed_rule_changes_is_found(tmp_path: Path) -> None:
    """S61: the decisions are those of the engine that serves calls."""
    calls = _many(10_000)
    await record_calls(tmp_path, _query(1000), calls)
    unchanged, replay = replayed(tmp_path, _query(1000))
    assert (unchanged, replay.tally.judged, replay.tally.undecidable) == ([], 10_000, 0)
    found, replay = replayed(tmp_path, _query(500))
    assert (replay.tally.judged, replay.tally.undecidable) == (10_000, 0)
    expected = {
        each.id
        for each in calls
        if each.principal is not BOT
        and each.target.name == "query"
        and isinstance(limit := each.arguments.get("limit"), int)
        and 500 < limit <= 1000
    }
    assert len(expected) > 100
    assert {change.call.call_id for change in found} == expected
    assert {(change.call.stand.rule, change.after.reason) for change in found} == {("allow[0]", "condition")}


async def test_each_way_of_keeping_arguments_tells_what_it_can(tmp_path: Path) -> None:
    before = policy(allow=[rule("args.n < 10")])
    after = policy(allow=[rule("args.n < 5 && !(has(args.path) && args.path.inside('/etc'))")])
    calls = [call(arguments={"n": n, **more}, id=f"{n}") for n in (1, 7, 12) for more in ({}, {"path": "/etc/x"})]
    for payload, decided in (
        ("none", 0),
        ("shape", 0),
        ("shape+hmac", 0),
        ("conditions", 3),
        ("redacted", 6),
        ("full", 6),
    ):
        folder = tmp_path / payload
        await record_calls(folder, policies(before, payload=payload), calls)
        found, replay = replayed(folder, policies(after))
        assert replay.tally.judged == decided, payload
        # A rule is asked as a whole, or not at all.
        assert all(change.after.action == "deny" for change in found)
        if decided == 6:
            assert sorted(change.call.call_id for change in found) == ["1", "7", "7"]
        else:
            assert set(replay.tally.reasons) == {
                "p allow[0] reads args.path" if payload == "conditions" else "p allow[0] reads args.n"
            }


async def test_values_beside_the_chain_need_the_state_directory(tmp_path: Path) -> None:
    config = policies(policy(allow=[rule("args.n < 10")]), payload="full")
    asked = call(arguments={"n": 1})
    assert await changes(tmp_path, config, config, asked, state=False) == ([], {"p allow[0] reads args.n": 1})


async def test_masked_and_cut_values_are_not_taken_for_what_they_were(tmp_path: Path) -> None:
    before = policy(allow=["a/t"], audit={"redact": ["/secret"]})
    after = policy(allow=[rule("size(args.long) > 0 && size(args.secret) > 0 && size(args.list) > 0")])
    for member, arguments in (
        ("long", {"long": "x" * 300, "secret": "", "list": []}),
        ("secret", {"long": "x", "secret": "hunter2", "list": []}),
        ("list", {"long": "x", "list": ["x" * 300], "secret": "s"}),
    ):
        made: Object = arguments  # type: ignore[assignment]  # reason: a literal of JSON.
        folder = tmp_path / member
        _, reasons = await changes(folder, policies(before, payload="redacted"), policies(after), call(arguments=made))
        assert len(reasons) == 1, member


@pytest.mark.parametrize(
    ("arguments", "when", "decided"),
    [
        ({}, "!has(args.x)", True),
        ({"y": 1}, "!has(args.x)", True),
        ({"y": 1}, "args.x == 1", True),
        ({"x": 1}, "has(args.x)", False),
        ({"x": {}}, "has(args.x.y)", False),
        ({"x": "text"}, "args.x.y == 1", True),
        ({"x": {"z": 1}}, "args.x.y == 1", False),
        ({"y": 1}, "size(args) == 1", False),
    ],
)
async def test_a_shape_alone_tells_what_was_not_there(
    tmp_path: Path, arguments: Object, when: str, decided: bool
) -> None:
    before, after = policy(allow=["a/t"]), policy(allow=[rule(when)])
    _, reasons = await changes(tmp_path, policies(before, payload="shape"), policies(after), call(arguments=arguments))
    assert (reasons == {}) is decided


async def test_a_rule_that_cannot_be_asked_does_not_matter_where_others_decide(tmp_path: Path) -> None:
    before = policies(policy(allow=["a/*"]), payload="none")
    unknown = rule("args.x == 1", "a/*")
    asked = [call("t", arguments={"x": 1}), call("u", arguments={"x": 1}), call("v", arguments={"x": 1})]
    after = policies(policy(allow=[unknown, "a/t"], deny=[rule("args.x == 2", "a/u"), "a/u"]))
    found, reasons = await changes(tmp_path, before, after, *asked)
    assert found == [("key:bot", "deny")]
    assert reasons == {"p allow[0] reads args.x": 1}


async def test_subjects_are_told_apart_with_the_key_of_the_log_and_not_at_all_without(tmp_path: Path) -> None:
    before = policies(policy(allow=["a/t"]))
    after = policies(policy("eve", f"sub:{ISSUER}/eve", allow=["a/t"]), policy("staff", "group:staff", allow=["a/t"]))
    eve, mal, kim = subject("eve"), subject("mal"), subject("kim", "staff")
    calls = [call(principal=who, id=who.id) for who in (eve, mal, kim)]
    await record_calls(tmp_path, before, calls)
    found, replay = replayed(tmp_path, after)
    assert [change.after.reason for change in found] == ["default_deny"]
    assert found[0].call.call_id == mal.id
    assert "mal" not in found[0].call.who
    found, replay = replayed(tmp_path, after, state=False)
    assert (found, replay.tally.judged) == ([], 1)
    assert replay.tally.reasons == {"policy eve: whether it is about a subject whose id is not in the log": 2}
    (tmp_path / "state" / "audit-hmac.key").unlink()
    assert replayed(tmp_path, after)[1].tally.undecidable == 2


async def test_claims_that_conditions_read_are_recorded_and_asked_about_again(tmp_path: Path) -> None:
    before = policies(policy(allow=[rule("principal.claims.dept == 'crm'")]))
    crm, hr, none = subject("a", dept="crm"), subject("b", dept="hr"), subject("c")
    calls = [call(principal=who) for who in (crm, hr, none)]
    await record_calls(tmp_path, before, calls)
    found, replay = replayed(tmp_path, before)
    assert (found, replay.tally.judged) == ([], 3)
    absent = policies(policy(allow=[rule("!has(principal.claims.dept)")]))
    found, replay = replayed(tmp_path, absent)
    assert [change.after.action for change in found] == ["deny", "allow"]
    other = policies(policy(allow=[rule("principal.claims.team == 'x' || principal.id == 'sub:x'")]))
    assert replayed(tmp_path, other)[1].tally.reasons == {"p allow[0] reads principal.claims.team": 3}
    identity = policies(policy(allow=[rule("principal.id == 'sub:x'")]))
    assert replayed(tmp_path, identity)[1].tally.reasons == {"p allow[0] reads principal.id": 3}


async def test_annotations_views_and_times_are_those_of_the_call(tmp_path: Path) -> None:
    before = policies(policy(allow=["a/*"]), views={"small": {"include": ["a/v"]}})
    reads = Target(Kind.TOOL, "a", "r", {"readOnlyHint": True, "title": "1.5"})
    asked = [
        call("t"),
        call(target=reads),
        call("v", caller=replace(call().caller, view="small")),
    ]
    await record_calls(tmp_path, before, asked)
    hints = policies(policy(allow=[rule("tool.annotations.readOnlyHint", "a/*")]))
    found, replay = replayed(tmp_path, hints)
    assert [change.call.target.name for change in found] == ["t", "v"]
    # A title that looks like a number may have been one.
    assert replay.tally.reasons == {"p allow[0] reads tool.annotations": 1}
    viewed = policies(policy(allow=[rule("view == 'small'", "a/*")]))
    assert [change.call.target.name for change in replayed(tmp_path, viewed)[0]] == ["t", "r"]
    narrow = policies(policy(allow=["a/*"]), views={"small": {"include": ["a/t"]}})
    assert [change.after.reason for change in replayed(tmp_path, narrow)[0]] == ["not_in_view"]
    now = datetime.now(UTC)
    today, tomorrow = f"{now:%a}", f"{now + timedelta(days=1):%a}"
    if now.hour == 23:
        today = f"{today}, {tomorrow}"
        tomorrow = f"{now + timedelta(days=2):%a}"
    open_, shut = (policies(policy(allow=["a/*"], hours=f"{day} 00:00-24:00")) for day in (today, tomorrow))
    assert replayed(tmp_path, open_)[0] == []
    assert {change.after.reason for change in replayed(tmp_path, shut)[0]} == {"hours"}


async def test_a_span_of_time_leaves_out_what_is_before_and_after(tmp_path: Path) -> None:
    await record_calls(tmp_path, policies(policy(allow=["a/*"])), [call()])
    nothing = policies(policy(deny=["a/*"]))
    hour = timedelta(hours=1)
    now = datetime.now(UTC)
    assert len(replayed(tmp_path, nothing, since=now - hour, until=now + hour)[0]) == 1
    assert replayed(tmp_path, nothing, since=now + hour)[1].tally.judged == 0
    assert replayed(tmp_path, nothing, until=now - hour)[1].tally.judged == 0


async def test_names_that_nobody_offers_and_broken_lines_are_counted_apart(tmp_path: Path) -> None:
    directory = await record_calls(tmp_path, policies(policy(allow=["a/*"])), [call()])
    await record_unknown(tmp_path, call("nope"), 3)
    with next(directory.glob("*1.jsonl")).open("ab") as file:
        file.write(b'{"event":"call.start",\n{"event":"call.start","tool":{}}\n')
    _, replay = replayed(tmp_path, policies(policy(allow=["a/*"])))
    tally = replay.tally
    assert (tally.judged, tally.unknown_names, tally.unreadable, tally.undecidable) == (1, 1, 1, 1)
    assert tally.reasons == {"what was asked for is not in it": 1}


async def test_a_refusal_that_is_lifted_is_a_change_too_and_another_rule_is_none(tmp_path: Path) -> None:
    before = policies(policy(allow=["a/t"], deny=["a/u"]))
    after = policies(policy("new", allow=["a/*"]))
    assert await changes(tmp_path, before, after, call("t"), call("u")) == ([("key:bot", "allow")], {})


CONDITIONS = (
    "args.a == 1",
    "args.b.c == 'x'",
    "has(args.a)",
    "!has(args.b.c)",
    "has(args.b) && args.b.c != 'y'",
    "size(args) < 3",
    "args.l.exists(i, i == 'x')",
    "args.b.c.size() > 2",
    "'a' in args",
    "args.n < 1.6",
    "args['b']['d'] == null",
    "principal.claims.dept == 'x'",
    "!has(principal.claims.dept)",
    "principal.claims.level > 1.4",
    "principal.id == 'key:ann'",
    "tool.annotations.readOnlyHint",
    "size(tool.annotations) == 0",
    "'g' in principal.groups",
    "tool.name.startsWith('t')",
    "args.b == args.b",
    "args.secret == 'hunter2'",
    "args.b.c.contains('x') || args.a > 5",
)
TEXTS: tuple[Value, ...] = ("x", "xyz", "y" * 300, "[R:3]", "list:2", "a…", "k\u200b", "hunter2")
OBJECTS: tuple[Value, ...] = ({}, {"c": "x"}, {"c": "xyz", "d": None}, {"e": {"f": [1]}})
LISTS: tuple[Value, ...] = (["x"], [], [{"c": "x"}, "z" * 300])
VALUES: tuple[Value, ...] = (1, 7, 1.5, True, None, *TEXTS, *OBJECTS, *LISTS)
HINTS: tuple[Object, ...] = ({}, {"readOnlyHint": True}, {"readOnlyHint": False, "title": "1.5"})
PEOPLE = (
    ANN,
    BOT,
    subject("eve"),
    subject("mal", "g", dept="x"),
    replace(subject("kim"), claims={"iss": ISSUER, "level": 1.5}),
)


def _some_rules(dice: random.Random) -> list[object]:
    found: list[object] = []
    for _ in range(dice.randint(0, 3)):
        selector = dice.choice(("a/*", "a/t"))
        found.append(selector if dice.random() < 0.2 else rule(dice.choice(CONDITIONS), selector))
    return found


def _some_policies(dice: random.Random, payload: str) -> LoadedConfig:
    made = []
    for number in range(dice.randint(1, 3)):
        clients = dice.choice(("*", "group:g", f"sub:{ISSUER}/eve", "ann", "anonymous"))
        audit = {"redact": dice.choice(([], ["/secret", "/b/c"]))}
        made.append(policy(f"p{number}", clients, allow=_some_rules(dice), deny=_some_rules(dice), audit=audit))
    return policies(*made, payload=payload)


def _some_call(dice: random.Random, identity: str) -> Call:
    arguments = {name: dice.choice(VALUES) for name in ("a", "b", "l", "n", "secret") if dice.random() < 0.5}
    target = Target(Kind.TOOL, "a", dice.choice(("t", "u")), dice.choice(HINTS))
    return call(arguments=arguments, principal=dice.choice(PEOPLE), target=target, id=identity)


@pytest.mark.parametrize("payload", ["none", "shape", "conditions", "redacted", "full"])
async def test_whatever_is_judged_is_what_the_engine_would_have_said(tmp_path: Path, payload: str) -> None:
    """Random policies over random calls: what a record does not tell may be left open, but never be wrong."""
    dice = random.Random(payload)
    judged = total = 0
    for number in range(4):
        folder = tmp_path / str(number)
        before = _some_policies(dice, payload)
        calls = [_some_call(dice, f"{index}") for index in range(40)]
        await record_calls(folder, before, calls)
        again, replay = replayed(folder, before)
        assert again == []
        if payload == "conditions" and not any(each.audit.redact for each in before.config.policies):
            assert not [reason for reason in replay.tally.reasons if "reads args" in reason]
        engine = Engine.build(before)
        for _ in range(4):
            candidate = _some_policies(dice, payload)
            found, replay = replayed(folder, candidate, state=dice.random() < 0.7)
            other = Engine.build(candidate)
            changed = {each.id for each in calls if _decided(engine, each) != _decided(other, each)}
            assert {change.call.call_id for change in found} <= changed
            # Each change that is not found is one that was left open.
            assert len(changed) - len(found) <= replay.tally.undecidable
            judged += replay.tally.judged
            total += len(calls)
    assert 0.1 < judged / total < 1


def _decided(engine: Engine, asked: Call) -> bool:
    question = Question(asked.principal, asked.target, asked.arguments, None, datetime.now(UTC))
    return engine.decide(question).allowed


async def test_how_much_of_the_log_was_read_is_told(tmp_path: Path) -> None:
    config = policies(policy(allow=["a/*"]))
    await record_calls(tmp_path, config, [call("t", "a", principal=ANN, arguments={"n": n}) for n in range(200)])
    heard: list[int] = []
    replay = Replay(Engine.build(config), Log(tmp_path / "audit"), knows_views=False)
    assert [*replay.run(heard.append)] == []
    whole = sum(path.stat().st_size for path in (tmp_path / "audit").glob("*.jsonl"))
    assert heard == sorted(heard)
    assert whole - 65_536 <= heard[-1] <= whole
