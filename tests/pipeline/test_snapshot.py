"""One frozen moment answers what is listed, where a name leads, and how a URI is shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gateway.auth.authenticate import Authenticator
from gateway.model.catalog import Catalog, Kind, Route
from gateway.model.principal import ANONYMOUS
from gateway.pipeline.interceptor import Chain
from gateway.pipeline.snapshot import Lists, Snapshot, snapshot_digest
from gateway.policy.engine import Engine
from tests.kit.calls import BOT, Next
from tests.kit.configs import loaded
from tests.kit.definitions import catalog_of, definition, tool

CATALOG = catalog_of(
    {
        "a": [tool("read"), tool("drop"), definition(Kind.RESOURCE, "file:///x"), definition(Kind.PROMPT, "p")],
        "b": [tool("read"), definition(Kind.RESOURCE, "file:///x")],
    }
)
POLICY: dict[str, object] = {"name": "p", "clients": ["bot"], "allow": ["any:a/**"], "deny": ["a/drop"]}


def snapshot(policies: list[dict[str, object]], catalog: Catalog = CATALOG) -> Snapshot:
    config = loaded({"servers": {"a": {"command": "a"}, "b": {"command": "b"}}, "policies": policies})
    authenticator = Authenticator(config, lambda: datetime.now(UTC))
    return Snapshot(config, catalog, Engine.build(config), authenticator, Chain([], Next()), "d")


def test_lists_and_lookups_agree_on_what_exists() -> None:
    """S59, S60: what is not listed is as unknown as what does not exist."""
    moment = snapshot([POLICY])
    assert [route.exposed for route in moment.listed(Kind.TOOL, BOT, None)] == ["a__read"]
    assert moment.resolve(Kind.TOOL, "a__read", BOT, None) is not None
    for name in ("a__drop", "b__read", "a__nope", "read", "A__read", "a__read "):
        assert moment.resolve(Kind.TOOL, name, BOT, None) is None


def test_a_policy_for_somebody_else_leaves_nothing() -> None:
    """S57."""
    assert snapshot([POLICY]).listed(Kind.TOOL, ANONYMOUS, None) == ()


def test_without_policies_everything_is_seen() -> None:
    assert len(snapshot([]).listed(Kind.TOOL, ANONYMOUS, None)) == 3


def test_tools_and_prompts_are_looked_up_apart() -> None:
    """G086."""
    moment = snapshot([POLICY])
    assert moment.resolve(Kind.PROMPT, "a__p", BOT, None) is not None
    assert moment.resolve(Kind.TOOL, "a__p", BOT, None) is None


def test_a_uri_is_bare_unless_it_is_ambiguous_for_this_principal() -> None:
    """G085."""
    everything, partly = snapshot([]), snapshot([POLICY])
    [first, second] = everything.listed(Kind.RESOURCE, ANONYMOUS, None)
    assert everything.bare_uri(first, ANONYMOUS, None) == "a+file:///x"
    assert everything.bare_uri(second, ANONYMOUS, None) == "b+file:///x"
    assert partly.bare_uri(first, BOT, None) == "file:///x"
    assert partly.resolve_uri("file:///x", BOT, None).target is not None
    assert everything.resolve_uri("file:///x", ANONYMOUS, None).ambiguous == ("a", "b")


@pytest.mark.parametrize(
    "changed", [{"a": [tool("read", description="new")]}, {"a": []}, {"a": [tool("read"), tool("x")]}]
)
def test_every_change_of_a_definition_makes_another_moment(changed: dict[str, list[object]]) -> None:
    """S75."""
    before = snapshot_digest("c", catalog_of({"a": [tool("read")]}))
    assert snapshot_digest("c", catalog_of(changed)) != before  # type: ignore[arg-type]  # reason: lists of definitions.
    assert snapshot_digest("other", catalog_of({"a": [tool("read")]})) != before


def test_a_list_is_worked_out_once_a_second_and_kinds_and_principals_are_kept_apart() -> None:
    now = [100.0]
    lists, made = Lists(lambda: now[0]), list[float]()

    def make() -> tuple[Route, ...]:
        made.append(now[0])
        return ()

    for kind, who in ((Kind.TOOL, "a"), (Kind.TOOL, "a"), (Kind.PROMPT, "a"), (Kind.TOOL, "b")):
        lists.get((kind, who, frozenset(), frozenset(), None), make)
    assert len(made) == 3
    now[0] += 1.0
    lists.get((Kind.TOOL, "a", frozenset(), frozenset(), None), make)
    assert len(made) == 4


def test_lists_of_ever_new_principals_do_not_pile_up() -> None:
    lists = Lists()
    for number in range(10_000):
        lists.get((Kind.TOOL, str(number), frozenset(), frozenset(), None), lambda: ())
    assert len(lists) <= 4096


def test_nothing_of_a_withheld_server_is_reached_not_even_by_name() -> None:
    """S137: ``SERVER+URI`` is accepted for every other server."""
    moment = replace(snapshot([]), withheld=frozenset({"a"}))
    assert moment.resolve_uri("a+file:///x", ANONYMOUS, None).target is None
    found = moment.resolve_uri("b+file:///x", ANONYMOUS, None).target
    assert found is not None
    assert found.server == "b"


def test_a_principals_moment_is_asked_for_only_where_servers_list_by_who_asks() -> None:
    moment = snapshot([])
    assert moment.of(BOT) is moment
    own = replace(moment, own=("a",))
    assert own.of(BOT) is own
    mine = replace(own, digest="mine")
    assert replace(own, portray=lambda base, principal: mine).of(BOT) is mine
