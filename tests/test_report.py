"""The status of servers, as people read it."""

from __future__ import annotations

from dataclasses import replace

from gateway import report
from gateway.downstream.health import ServerStatus, State
from gateway.model.catalog import HeldBack, Kind
from gateway.protocol.rawjson import Object
from gateway.report import PinReport
from tests.kit.configs import loaded
from tests.kit.definitions import catalog_of, definition, tool

STATUS = ServerStatus(
    server="a",
    kind="stdio",
    state=State.FAILED,
    since="2026-01-01T00:00:00.000Z",
    last_error="command not found: x",
    next_retry=3.6,
)


def test_every_server_is_told_with_counts_and_its_last_error() -> None:
    """G129, G131."""
    config = loaded({"servers": {"a": {"command": "x"}, "b": {"command": "y"}}}, off={"c": "env.KEY: KEY is not set"})
    catalog = catalog_of({"a": [tool("t", description="x" * 400), definition(Kind.TEMPLATE, "x://{id}")]})
    told = report.servers(config, {"a": STATUS}, catalog, lambda _: PinReport("changed", ("tool:t",)))
    assert list(told) == ["a", "b", "c"]
    first = told["a"]
    assert isinstance(first, dict)
    assert (first["state"], first["next_retry_s"], first["tools"], first["resources"]) == ("failed", 4, 1, 1)
    assert first["last_error"] == "command not found: x"
    assert isinstance(first["approx_tokens"], int)
    assert 100 < first["approx_tokens"] < 200
    assert (first["pin"], first["pin_changed"]) == ("changed", ["tool:t"])
    assert told["b"] == {"state": "starting"}
    assert told["c"] == {"state": "off", "last_error": "env.KEY: KEY is not set"}


def test_names_that_others_wrote_are_escaped() -> None:
    """S152."""
    held = HeldBack("a", Kind.TOOL, "x\n\x1b[31m", "", "same name")
    catalog = catalog_of({"a": [tool("t")]})
    config = loaded({"servers": {"a": {"command": "x"}}})
    told = report.servers(config, {"a": STATUS}, type(catalog)(held_back=(held,)), lambda _: PinReport("off"))
    assert "\x1b" not in str(told)
    assert "\n" not in str(told)


def test_a_consent_that_is_needed_is_told_with_its_address() -> None:
    waiting = replace(STATUS, state=State.CONSENT, consent_url="http://gw/oauth/start?ticket=t")
    config = loaded({"servers": {"a": {"command": "x"}}})
    told = report.servers(config, {"a": waiting}, catalog_of({"a": []}), lambda _: PinReport("off"))["a"]
    assert isinstance(told, dict)
    assert (told["state"], told["consent_url"]) == ("waiting for consent", "http://gw/oauth/start?ticket=t")


def test_what_lists_weigh_is_told_by_server() -> None:
    catalog = catalog_of({"a": [tool("t", description="x" * 400)], "b": [tool("u"), tool("v")]})
    routes = catalog.by_kind[Kind.TOOL]
    told = report.by_server(routes)
    assert list(told) == ["a", "b"]
    assert [part["tools"] for part in told.values() if isinstance(part, dict)] == [1, 2]


def test_clients_are_weighed_and_anonymous_callers_where_there_are_any() -> None:
    clients = {name: {"key": name * 40} for name in ("b", "a")}
    assert report.weighed(loaded({"clients": clients}), 3) == ["b", "a"]
    assert report.weighed(loaded(), 3) == ["anonymous"]


def test_what_would_take_long_to_judge_is_not_told() -> None:
    many = {f"c{number}": {"key": f"{number:040}"} for number in range(51)}
    assert report.weighed(loaded({"clients": many}), 1) == []
    assert report.weighed(loaded(), report.MAX_JUDGED) == ["anonymous"]
    assert report.weighed(loaded(), report.MAX_JUDGED + 1) == []


def test_where_each_has_its_own_lists_it_is_told_of_how_many() -> None:
    servers: Object = {"a": {"state": "up"}, "b": {"state": "up"}}
    told = report.with_own(servers, {"a": (3, 1)})
    assert told == {"a": {"state": "up", "own_lists": {"known": 3, "failing": 1}}, "b": {"state": "up"}}
    assert report.with_own(servers, {}) == servers
