"""What replicas keep of a session: readable for them alone, for one session alone, and never too much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.endpoint.legacy import facts
from gateway.endpoint.legacy.facts import MAX_CLAIMS, Agreed, Facts
from gateway.endpoint.updates import Claims
from gateway.protocol import rawjson
from gateway.state.sealing import Sealer
from gateway.state.store import MAX_VALUE

SEALER = Sealer([b"k" * 32])
KEPT = Facts(
    "key:alice",
    "view",
    "2025-11-25",
    rawjson.raw({"elicitation": {}}),
    rawjson.raw({"name": "canary-client", "x": [1, None]}),
    "debug",
    {"one+note://1": ("one", "note://1")},
    7,
)


def test_facts_come_back_as_they_were() -> None:
    value = facts.seal(SEALER, "id", KEPT, 60.0)
    read = facts.opened(SEALER, "id", value)
    assert read is not None
    assert read.declared() == ({"elicitation": {}}, {"name": "canary-client", "x": [1, None]})
    assert replace(read, capabilities=KEPT.capabilities, info=KEPT.info) == KEPT
    assert b"canary" not in value
    assert b"alice" not in value


def test_nobody_else_can_make_them_up_or_give_them_to_another_session() -> None:
    value = facts.seal(SEALER, "id", KEPT, 60.0)
    assert facts.opened(SEALER, "other", value) is None
    assert facts.opened(Sealer([b"x" * 32]), "id", value) is None
    assert facts.opened(SEALER, "id", value[:-1]) is None
    assert facts.opened(SEALER, "id", b"\xff") is None
    assert facts.opened(Sealer([b"k" * 32], lambda: 0.0), "id", facts.seal(SEALER, "id", KEPT, 0.0)) is not None
    assert facts.opened(SEALER, "id", facts.seal(Sealer([b"k" * 32], lambda: 0.0), "id", KEPT, 60.0)) is None


@pytest.mark.parametrize(
    "change",
    [{"version": "2031-01-01"}, {"info": rawjson.raw([])}, {"capabilities": rawjson.raw(None)}, {"revision": "x"}],
)
def test_facts_of_another_kind_are_none(change: dict[str, object]) -> None:
    """A replica of another version of the gateway may write what is not understood here."""
    said: dict[str, object] = {
        "principal": "key:alice",
        "view": None,
        "version": "2025-11-25",
        "capabilities": {},
        "info": {},
        "log_level": None,
        "uris": {},
        "revision": 0,
    }
    good, bad = (SEALER.seal("legacy-session", rawjson.encode(each), b"id", 60.0) for each in (said, said | change))
    assert facts.opened(SEALER, "id", good.encode()) is not None
    assert facts.opened(SEALER, "id", bad.encode()) is None


def test_what_was_changed_in_two_places_is_both() -> None:
    def claims(*names: str) -> Claims:
        return {name: ("one", name) for name in names}

    def wrote(revision: int, level: str | None, *names: str) -> Facts:
        return replace(KEPT, revision=revision, log_level=level, uris=claims(*names))

    known = Agreed(3, None, claims("a", "b"))
    own = Agreed(3, "debug", claims("b", "c"))
    # The other added d and gave up b; here c was added, a given up, and the level set.
    assert facts.merged(known, wrote(4, None, "a", "d"), own) == Agreed(4, "debug", claims("c", "d"))
    # Without a level of its own it takes the other's.
    assert facts.merged(known, wrote(4, "error", "a", "b"), known) == Agreed(4, "error", claims("a", "b"))
    # Two revisions of one number: what only one of them has is kept.
    assert facts.merged(known, wrote(3, None, "d"), known) == Agreed(3, None, claims("a", "b", "d"))


def test_the_end_of_a_session_is_told_for_that_session_alone_and_is_none_of_its_facts() -> None:
    value = facts.seal_end(SEALER, "id", 60.0)
    assert facts.tells_end(SEALER, "id", value)
    assert facts.opened(SEALER, "id", value) is None
    assert not facts.tells_end(SEALER, "other", value)
    assert not facts.tells_end(SEALER, "id", facts.seal(SEALER, "id", KEPT, 60.0))
    assert not facts.tells_end(SEALER, "id", b"")


def test_a_key_does_not_tell_the_id() -> None:
    key = facts.key_of("s3cret-id")
    assert key.startswith("session:")
    assert "s3cret" not in key
    assert key != facts.key_of("s3cret-ie")
    assert facts.turn_of("s3cret-id") not in (key, facts.turn_of("s3cret-ie"))
    assert "s3cret" not in facts.turn_of("s3cret-id")


def test_more_subscriptions_than_fit_stay_with_their_replica() -> None:
    # What takes the most room once it is written: six bytes for one.
    claims = {f"note://{number}/{chr(1) * 200}": ("one", chr(2) * 200) for number in range(100)}
    kept = facts.within(claims)
    assert list(kept) == list(claims)[: len(kept)]
    assert 0 < len(kept) < 100
    assert len(rawjson.encode(kept)) <= MAX_CLAIMS
    most = replace(
        KEPT, uris=kept, capabilities=rawjson.raw({"x": "y" * 16_370}), info=rawjson.raw({"x": "y" * 16_370})
    )
    assert len(facts.seal(SEALER, "id", most, 60.0)) < MAX_VALUE
    assert facts.within({}) == {}
