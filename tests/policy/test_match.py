"""Whom a policy is about is matched exactly (contract §3, G071, G076)."""

from __future__ import annotations

import pytest

from gateway.config.access import Client
from gateway.model.principal import ANONYMOUS, Principal
from gateway.policy.match import ClientError, parse_clients, principal_named

BOT = Principal("key:ci-bot", "key", "ci-bot", groups=frozenset({"automation"}))
USER = Principal("sub:https://idp.example/alice", "jwt", "idp", frozenset({"analysts"}), frozenset({"crm.write"}))
TRICKY = Principal("sub:https://idp.example/ci-bot", "jwt", "ci-bot")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("ci-bot", {BOT.id}),
        ("key:ci-bot", {BOT.id}),
        ("ci-bo", set()),
        ("ci-*", set()),
        ("group:automation", {BOT.id}),
        ("group:analysts", {USER.id}),
        ("group:anal", set()),
        ("scope:crm.write", {USER.id}),
        ("scope:crm", set()),
        (USER.id, {USER.id}),
        ("sub:https://idp.example/ci-bot", {TRICKY.id}),
        ("*", {BOT.id, USER.id, TRICKY.id}),
        ("anonymous", {ANONYMOUS.id}),
        ("cert:spiffe://x", set()),
    ],
)
def test_each_form_means_exactly_its_principals(entry: str, expected: set[str]) -> None:
    who = parse_clients([entry])
    assert {each.id for each in (BOT, USER, TRICKY, ANONYMOUS) if who.matches(each)} == expected


def test_one_of_several_forms_is_enough() -> None:
    who = parse_clients(["group:analysts", "ci-bot"])
    assert who.matches(BOT)
    assert who.matches(USER)
    assert not who.matches(TRICKY)


@pytest.mark.parametrize("entry", ["", "group:", "scope:", "key:", "foo:bar", "Group:x", ":x"])
def test_what_names_nobody_is_an_error(entry: str) -> None:
    with pytest.raises(ClientError, match="is no principal"):
        parse_clients([entry])


CLIENTS = {"ci-bot": Client(groups=["automation"])}


def test_a_name_stands_for_the_configured_client_with_its_groups() -> None:
    for text in ("ci-bot", "key:ci-bot"):
        found = principal_named(text, CLIENTS)
        assert (found.id, found.kind, found.groups) == ("key:ci-bot", "key", frozenset({"automation"}))
    assert principal_named("anonymous", CLIENTS) is ANONYMOUS
    assert principal_named("sub:https://x/y", CLIENTS).id == "sub:https://x/y"
    assert principal_named("whoever", None).id == "key:whoever"


@pytest.mark.parametrize(
    ("text", "why"),
    [("ci-bat", "did you mean ci-bot"), ("x", "configured: ci-bot"), ("group:a", "nobody"), ("sub:", "nobody")],
)
def test_what_stands_for_nobody_is_an_error(text: str, why: str) -> None:
    with pytest.raises(ClientError, match=why):
        principal_named(text, CLIENTS)
