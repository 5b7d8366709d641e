from __future__ import annotations

import pytest
from pydantic import SecretStr

from gateway.config.places import Loc
from gateway.config.shape import annotations_at, is_secret, keys_at, nearest


@pytest.mark.parametrize(
    ("loc", "key"),
    [
        ((), "servers"),
        (("listen", "tls"), "client_ca"),
        (("servers", "any name"), "validate"),
        (("policies", 0, "allow", 3), "when"),
        (("policies", 0, "limits", 1), "per"),
        (("auth", "jwt"), "issuer"),
    ],
)
def test_the_keys_of_a_place(loc: Loc, key: str) -> None:
    assert key in keys_at(loc)


@pytest.mark.parametrize(
    "loc", [("nothing",), ("servers",), ("servers", "a", "env"), ("listen", "port"), ("policies",)]
)
def test_places_without_keys_of_their_own(loc: Loc) -> None:
    assert keys_at(loc) == []


@pytest.mark.parametrize(
    ("loc", "secret"),
    [
        (("clients", "a", "key"), True),
        (("admin", "metrics_token"), True),
        (("state", "sealing_keys", 0), True),
        (("servers", "a", "env", "ANY"), True),
        (("servers", "a", "headers", "Any"), True),
        (("servers", "a", "url"), True),
        (("servers", "a", "args", 0), False),
        (("listen", "host"), False),
        (("nothing",), False),
    ],
)
def test_which_places_hold_secrets(loc: Loc, secret: bool) -> None:
    assert is_secret(loc) is secret
    assert (SecretStr in annotations_at(loc)) is secret


def test_the_nearest_word_is_suggested_or_none() -> None:
    assert nearest("allowed_host", ["allowed_hosts", "allowed_origins"]) == "did you mean 'allowed_hosts'?"
    assert nearest("WIKI", ["wiki", "Wiki2"]) == "did you mean 'wiki'?"
    assert nearest("zzz", ["wiki"]) == ""
    assert nearest("x", []) == ""
