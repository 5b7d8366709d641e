"""How strictly a server is held when its config does not say."""

from __future__ import annotations

import pytest

from gateway.config.root import Config
from gateway.pinning.modes import default_mode, terms_of
from tests.kit.definitions import stdio


@pytest.mark.parametrize(
    ("sections", "mode"),
    [
        ({}, "warn"),
        ({"audit": {"dir": "elsewhere"}, "naming": {"separator": "_"}}, "warn"),
        ({"clients": {"bot": {"key": "k" * 40}}}, "tofu"),
        ({"policies": [{"name": "p", "clients": ["*"], "allow": ["*/*"]}]}, "tofu"),
        ({"views": {"v": {"include": ["*/*"]}}}, "tofu"),
        ({"listen": {"tls": {"cert": "c", "key": "k", "client_ca": "ca"}}}, "tofu"),
        ({"listen": {"tls": {"cert": "c", "key": "k"}}}, "warn"),
    ],
)
def test_pins_hold_once_callers_or_rules_are_configured(sections: dict[str, object], mode: str) -> None:
    config = Config.model_validate(sections)
    assert default_mode(config) == mode
    assert terms_of(stdio(), config).mode == mode


def test_a_server_may_say_it_itself() -> None:
    pin = {"mode": "strict", "new_tools": "allow", "rotating": ["Authorization"]}
    terms = terms_of(stdio(pin=pin), Config())
    assert (terms.mode, terms.new_tools, terms.rotating) == ("strict", True, frozenset({"Authorization"}))
