"""A flood fills no log and is not lost to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gateway import samples
from gateway.audit.keys import AuditKey
from gateway.audit.record import DecisionFacts
from gateway.auth.authenticate import Authenticator
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Catalog, Kind
from gateway.model.principal import Principal
from gateway.pipeline.interceptor import Chain
from gateway.pipeline.snapshot import Snapshot
from gateway.policy.engine import Engine
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era
from gateway.samples import Samples
from tests.kit.calls import Next
from tests.kit.configs import loaded
from tests.kit.definitions import catalog_of, tool

ALICE = Principal("key:alice", "key", "alice")
CALLER = Caller(Era.MODERN, "2026-07-28", source="203.0.113.9")


def named(name: str) -> Call:
    return Call("", "7", "tools/call", {}, Target(Kind.TOOL, "", name), ALICE, CALLER, exposed=name)


def why_hidden(call: Call) -> tuple[Target, DecisionFacts] | None:
    if call.exposed != "hidden":
        return None
    return Target(Kind.TOOL, "wiki", "secret"), DecisionFacts("deny", "p", "deny[0]", "deny_rule")


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(samples, "time", made)
    return made


@pytest.fixture
def written() -> Iterator[list[Object]]:
    records: list[Object] = []
    yield records
    assert all(isinstance(record["count"], int) for record in records)


def made(written: list[Object]) -> Samples:
    return Samples(written.append, AuditKey.of(b"k" * 32), why_hidden)


def counts(written: list[Object]) -> list[tuple[object, object]]:
    return [(record["event"], record["count"]) for record in written]


def test_a_flood_of_failures_from_one_source_is_one_record_in_ten_seconds(clock: Clock, written: list[Object]) -> None:
    """S154."""
    taken = made(written)
    for number in range(1001):
        clock.now = 100.0 + number * 0.02
        taken.refused_early("auth.failed", "2001:db8::1" if number % 2 else "2001:db8::2", {"reason": "unknown_key"})
    assert counts(written) == [("auth.failed", 1), ("auth.failed", 500), ("auth.failed", 500)]
    taken.refused_early("auth.failed", "203.0.113.7", {"reason": "unknown_key"})
    assert counts(written)[3:] == [("auth.failed", 1)]


def test_attacks_of_one_kind_are_ten_records_a_second_and_their_counts_add_up(
    clock: Clock, written: list[Object]
) -> None:
    taken = made(written)
    for _ in range(50):
        taken.refused_early("security.bad_json", "203.0.113.9", {"reason": "syntax"})
    taken.refused_early("security.origin_denied", "203.0.113.9", {"reason": "origin_denied"})
    assert counts(written) == [("security.bad_json", 1)] * 10 + [("security.origin_denied", 1)]
    taken.close()
    assert counts(written)[11:] == [("security.bad_json", 40)]


def test_a_refusal_of_a_hidden_name_says_what_hides_it_and_one_of_an_unknown_name_that_it_is_unknown(
    clock: Clock, written: list[Object]
) -> None:
    taken = made(written)
    taken.denied(named("hidden"))
    taken.denied(named("unknown"))
    told = [(record["server"], record["decision"]) for record in written]
    assert told[0] == ("wiki", {"action": "deny", "policy": "p", "rule": "deny[0]", "reason": "deny_rule"})
    assert told[1] == (None, {"action": "deny", "policy": None, "rule": None, "reason": "unknown_name"})


async def test_what_has_fallen_silent_is_told_while_the_gateway_runs(
    clock: Clock, written: list[Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = made(written)
    for _ in range(3):
        taken.listed(named("x"), 42)
        taken.limited(ALICE, CALLER)

    class Enough(Exception):
        pass

    async def sleep(seconds: float) -> None:
        assert seconds == samples.FLUSH
        if clock.now > 200:
            raise Enough
        clock.now += 61

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(Enough):
        await taken.run()
    assert counts(written) == [
        *(("list.served", 1), ("ratelimit.refused", 1)),
        *(("list.served", 2), ("ratelimit.refused", 2)),
    ]


def test_what_hides_a_name_is_told_by_its_callers_own_lists() -> None:
    policies = [{"name": "p", "clients": ["*"], "allow": ["a/*"]}]
    settings: dict[str, object] = {"servers": {"crm": {"command": "x"}}, "policies": policies}
    config = loaded(settings)
    chain, nobody = Chain([], Next()), Authenticator(config, lambda: datetime.now(UTC))
    base = Snapshot(config, Catalog(), Engine.build(config), nobody, chain)
    mine = replace(base, catalog=catalog_of({"crm": [tool("inbox")]}))
    base = replace(base, own=("crm",), portray=lambda snapshot, who: mine if who is ALICE else snapshot)
    found = samples.why_hidden(base, named("crm__inbox"))
    assert found is not None
    assert (found[0].name, found[1].action) == ("inbox", "deny")
    bob = replace(named("crm__inbox"), principal=Principal("key:bob", "key", "bob"))
    assert samples.why_hidden(base, bob) is None
    allowed = loaded({**settings, "policies": []})
    assert samples.why_hidden(replace(base, engine=Engine.build(allowed)), named("crm__inbox")) is None
