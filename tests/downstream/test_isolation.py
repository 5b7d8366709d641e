"""Who shares a connection (S101, G039, G040)."""

from __future__ import annotations

import pytest

from gateway.config.server_auth import ServerAuth
from gateway.downstream.isolation import (
    LANES,
    declared,
    extensions,
    fails_apart,
    is_of,
    is_own,
    key_of,
    lane,
    lanes,
    listed_with,
    may_use,
    needs_era,
    own_key,
)
from gateway.model.call import Call, Caller
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era
from tests.kit.transport import call, principal, server

MODERN, LEGACY = Era.MODERN, Era.LEGACY
EXCHANGE = {"client_id": "me", "client_secret": "pw", "issuer": "https://idp.example"}
IN_SESSION = Caller(LEGACY, "2025-11-25", session="s1")


@pytest.mark.parametrize(
    ("isolation", "catalog", "era", "caller", "expected"),
    [
        ("auto", "shared", MODERN, IN_SESSION, None),
        ("auto", "shared", LEGACY, IN_SESSION, "principal:key:bot"),
        ("auto", "shared", None, IN_SESSION, "principal:key:bot"),
        ("auto", "principal", MODERN, IN_SESSION, "principal:key:bot"),
        ("shared", "shared", LEGACY, IN_SESSION, None),
        ("shared", "shared", None, IN_SESSION, None),
        ("principal", "shared", MODERN, IN_SESSION, "principal:key:bot"),
        ("session", "shared", LEGACY, IN_SESSION, "session:s1"),
        ("session", "shared", MODERN, IN_SESSION, "session:s1"),
        ("session", "shared", LEGACY, Caller(MODERN, "2026-07-28"), "principal:key:bot"),
    ],
)
def test_the_key_follows_configuration_era_and_caller(
    isolation: str, catalog: str, era: Era | None, caller: Caller, expected: str | None
) -> None:
    made = server(isolation=isolation, catalog=catalog)
    assert key_of(made, era, call(caller=caller)) == expected


def test_two_principals_never_share_what_is_not_shared() -> None:
    made = server(isolation="principal")
    assert key_of(made, LEGACY, call(principal=principal("a"))) != key_of(made, LEGACY, call(principal=principal("b")))


def test_a_principal_cannot_be_named_like_a_session() -> None:
    made = call(principal=principal("x"), caller=Caller(LEGACY, "2025-11-25", session="key:x"))
    assert key_of(server(isolation="session"), LEGACY, made) != key_of(server(isolation="principal"), LEGACY, made)


def test_the_era_matters_only_where_nothing_is_said() -> None:
    assert needs_era(server(), call())
    assert not needs_era(server(isolation="shared"), call())
    assert not needs_era(server(catalog="principal"), call())


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"asks": ["sampling", "roots"]}, {"roots": {}, "sampling": {"context": {}, "tools": {}}}),
        ({"asks": ["roots"], "isolation": "shared"}, {}),
        ({"asks": ["roots"], "park": False}, {}),
        ({}, {}),
    ],
)
def test_lists_are_read_with_what_some_client_may_be_asked_for(config: Object, expected: Object) -> None:
    assert listed_with(server(**config)) == expected


def asked_of(capabilities: Object, session: str = "", name: str = "bot") -> Call:
    return call(
        principal=principal(name), caller=Caller(LEGACY, "2025-11-25", session=session, capabilities=capabilities)
    )


FORMS: Object = {"elicitation": {"form": {}}}
URLS: Object = {"elicitation": {"url": {}}}


@pytest.mark.parametrize("isolation", ["auto", "shared", "principal", "session"])
def test_what_is_declared_is_part_of_the_key_and_never_everybodys(isolation: str) -> None:
    """S96, G063: a question reaches nobody but the one whose call it is."""
    made = server(isolation=isolation, asks=["elicitation"])
    keys = {
        key_of(made, LEGACY, asked_of(FORMS)),
        key_of(made, LEGACY, asked_of(URLS)),
        key_of(made, LEGACY, asked_of({})),
        key_of(made, LEGACY, asked_of(FORMS, name="other")),
    }
    assert len(keys) == 4
    assert key_of(made, LEGACY, asked_of({**FORMS, "sampling": {}})) == key_of(made, LEGACY, asked_of(FORMS))


def test_a_session_owns_its_connections_whatever_is_declared_on_them() -> None:
    made = server(isolation="session", asks=["elicitation"])
    keys = [key_of(made, LEGACY, asked_of(each, "s1")) or "" for each in (FORMS, URLS, {})]
    assert [is_of(key, "s1") for key in keys] == [True] * 3
    assert not any(is_of(key, "s") or is_of(key, "s10") for key in keys)


@pytest.mark.parametrize(
    ("asks", "park", "era", "expected"),
    [
        (["elicitation", "roots"], True, LEGACY, {"elicitation": {"form": {}}, "roots": {}}),
        (["sampling"], True, LEGACY, {}),
        (["elicitation"], True, None, {"elicitation": {"form": {}}}),
        (["elicitation"], True, MODERN, {}),
        (["elicitation"], False, LEGACY, {}),
        ([], True, LEGACY, {}),
    ],
)
def test_what_the_client_declared_within_asks_is_declared(
    asks: list[str], park: bool, era: Era | None, expected: Object
) -> None:
    """S97."""
    made = server(asks=asks, park=park)
    said = asked_of({"elicitation": {"form": {}}, "roots": {"listChanged": True}})
    assert declared(made, era, said) == expected


def test_a_client_cannot_make_connections_by_declaring_new_things() -> None:
    made = server(asks=["elicitation", "sampling", "roots"])
    said: list[Object] = [{"elicitation": {"form": {"n": n}, f"x{n}": {}}, "sampling": {"n": n}} for n in range(9)]
    assert len({key_of(made, LEGACY, asked_of(each)) for each in said}) == 1
    assert declared(made, LEGACY, asked_of(said[0])) == {"elicitation": {"form": {}}, "sampling": {}}


def test_the_era_matters_for_a_server_that_may_ask() -> None:
    assert needs_era(server(isolation="shared", asks=["roots"]), call())
    assert not needs_era(server(isolation="shared", asks=["roots"], park=False), call())


@pytest.mark.parametrize("way", [{"authorization_code": {"per": "principal"}}, {"token_exchange": EXCHANGE}])
def test_a_token_of_one_caller_serves_no_other(way: dict[str, object]) -> None:
    """S48, S101: in both eras, and it need not be known which."""
    made = server(auth=ServerAuth.model_validate(way))
    assert key_of(made, MODERN, call()) == key_of(made, LEGACY, call()) == "principal:key:bot"
    assert not needs_era(made, call())
    assert key_of(server(auth=ServerAuth.model_validate({"authorization_code": {}})), MODERN, call()) is None


APPS: Object = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
OTHER: Object = {"extensions": {"com.example/search": {}}}


@pytest.mark.parametrize("isolation", ["auto", "principal", "session"])
def test_extensions_are_part_of_the_key_of_a_legacy_server_and_keep_calls_apart(isolation: str) -> None:
    made = server(isolation=isolation)
    said: list[Object] = [APPS, OTHER, {}, {"extensions": {}}]
    keys = {key_of(made, LEGACY, asked_of(each)) for each in said}
    assert len(keys) == 3
    assert key_of(made, LEGACY, asked_of(APPS)) != key_of(made, LEGACY, asked_of(APPS, name="other"))
    assert extensions(made, LEGACY, asked_of(APPS)) == APPS["extensions"]


def test_a_shared_connection_is_everybodys_whatever_extensions_its_clients_have() -> None:
    made = server(isolation="shared")
    assert key_of(made, LEGACY, asked_of(APPS)) is None
    assert extensions(made, LEGACY, asked_of(APPS)) == {}


def test_extensions_travel_with_each_request_to_a_modern_server_so_that_it_is_shared() -> None:
    assert key_of(server(), MODERN, asked_of(APPS)) is None
    assert needs_era(server(isolation="principal"), asked_of(APPS))
    assert not needs_era(server(isolation="principal"), asked_of({}))


def test_extensions_let_a_server_ask_for_nothing() -> None:
    """S97."""
    assert declared(server(asks=["elicitation"]), LEGACY, asked_of(APPS)) == {}


def test_further_connections_of_a_key_belong_to_whom_it_belongs() -> None:
    made = server(isolation="session", asks=["elicitation"])
    key = key_of(made, LEGACY, asked_of(FORMS, "s1")) or ""
    assert [lane(key, number) == key for number in (1, 2)] == [True, False]
    assert is_of(lane(key, 2), "s1")
    assert len({lane(key, number) for number in range(1, 5)}) == 4
    assert (lanes(made), lanes(server(isolation="shared"))) == (LANES, 1)


def test_a_task_is_reached_on_its_owners_connections_alone() -> None:
    """S101: whatever was declared on them."""
    made = server(isolation="principal", asks=["elicitation"])
    capable = Caller(LEGACY, "2025-11-25", session="s1", capabilities={"elicitation": {}})
    for key in (None, "principal:key:bot", "session:s1", key_of(made, LEGACY, call(caller=capable))):
        assert may_use(key, call(caller=IN_SESSION))
    assert not may_use("principal:key:other", call(caller=IN_SESSION))
    assert not may_use("session:s2", call(caller=IN_SESSION))
    assert not may_use("session:", call(caller=Caller(MODERN, "2026-07-28")))


def test_a_principals_own_connections_are_told_from_everybody_elses() -> None:
    made = server(catalog="principal", asks=["roots"])
    asking = call(caller=Caller(MODERN, "2026-07-28", capabilities={"roots": {}}))
    keys = [key_of(made, MODERN, asking), key_of(made, LEGACY, asking)]
    assert own_key(principal("bot")) in keys
    assert [is_own(key, principal("bot")) for key in keys] == [True, True]
    assert not any(is_own(key, principal("bo")) for key in keys)
    assert not is_own(None, principal("bot"))


def test_what_fails_for_one_account_says_nothing_about_others_and_a_command_about_all() -> None:
    assert not fails_apart(server(catalog="principal"))
    assert fails_apart(server(url="http://127.0.0.1:1/mcp", catalog="principal"))
    assert not fails_apart(server(url="http://127.0.0.1:1/mcp"))
