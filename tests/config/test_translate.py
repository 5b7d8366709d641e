from __future__ import annotations

import pytest
from pydantic import ValidationError

from gateway.config.places import Document, Mapping, Places
from gateway.config.root import Config
from gateway.config.translate import Translation, literals_at
from tests.kit.config_files import CANARY


def words(tree: Mapping, *, literal: bool = True) -> list[tuple[str, str, str]]:
    translation = Translation(tree, Places(Document("f", tree, {})), lambda loc: literal)
    with pytest.raises(ValidationError) as caught:
        Config.model_validate(tree)
    return [(one.path, one.message, one.hint) for _, one in translation.problems(caught.value)]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"listen": {"prot": 1}}, ("listen.prot", "unknown key", "did you mean 'port'?")),
        ({"listen": 5}, ("listen", "must be a mapping", "")),
        ({"listen": {"tls": {"cert": "c"}}}, ("listen.tls.key", "is missing", "")),
        ({"listen": {"port": 1.5}}, ("listen.port", "must be a whole number", "")),
        ({"listen": {"port": "x"}}, ("listen.port", "must be a whole number", "")),
        ({"listen": {"port": 65536}}, ("listen.port", "must be at most 65535", "")),
        ({"alerts": {"rate": {"factor": 1}}}, ("alerts.rate.factor", "must be more than 1.0", "")),
        ({"alerts": {"rate": {"factor": "x"}}}, ("alerts.rate.factor", "must be a number", "")),
        ({"listen": {"host": 5}}, ("listen.host", "must be text", "put it in quotes")),
        ({"listen": {"behind_tls_proxy": 7}}, ("listen.behind_tls_proxy", "must be true or false", "")),
        (
            {"servers": {"a": {"command": "x", "args": "y"}}},
            ("servers.a.args", "must be a list", "write [one, two], or one item a line after '- '"),
        ),
        ({"servers": []}, ("servers", "must be a mapping", "")),
        (
            {"telemetry": {"log_level": "dbug"}},
            ("telemetry.log_level", "must be one of debug, info, warning, error", "did you mean 'debug'?"),
        ),
        ({"clients": {"a": {"expires": "soon"}}}, ("clients.a.expires", "must be a date such as 2027-01-31", "")),
        ({"policies": [{"name": "p", "clients": []}]}, ("policies[0].clients", "must not be empty", "")),
        (
            {"policies": [{"name": "a b", "clients": ["*"]}]},
            ("policies[0].name", "must be a name: a letter or digit, then up to 63 of those and . _ -", ""),
        ),
        (
            {"policies": [{"name": "p", "clients": ["*"], "deny": [None]}]},
            ("policies[0].deny[0]", "must be a selector such as server/name, or a mapping with tools", ""),
        ),
        (
            {"policies": [{"name": "p", "clients": ["*"], "deny": [{"tools": 5}]}]},
            ("policies[0].deny[0].tools", "must be text", "put it in quotes"),
        ),
        (
            {"policies": [{"name": "p", "clients": ["*"], "limits": [{}]}]},
            ("policies[0].limits[0]", "needs exactly one of rate and concurrency", ""),
        ),
    ],
)
def test_every_kind_of_error_has_words_of_its_own(tree: Mapping, expected: tuple[str, str, str]) -> None:
    assert words(tree) == [expected]


def test_every_pattern_of_the_models_has_words() -> None:
    for tree in (
        {"listen": {"path": "x"}},
        {"naming": {"separator": "......"}},
        {"servers": {"a": {"command": "x", "namespace": "."}}},
        {"audit": {"durability": "x"}},
        {"policies": [{"name": "", "clients": ["*"]}]},
    ):
        ((_, message, _),) = words(tree)  # type: ignore[arg-type]  # reason: a dict of dicts is a tree.
        assert message.startswith("must be ")


def test_no_text_holds_what_was_written() -> None:
    tree: Mapping = {
        "listen": {"port": CANARY, "path": CANARY, "drain": CANARY, "max_body": CANARY, "public_url": CANARY},
        "telemetry": {"log_level": CANARY},
        "limits": {"requests": CANARY},
        "clients": {"a": {"key_sha256": [CANARY], "expires": CANARY}},
        "servers": {"a": {"url": f"x://{CANARY}", "asks": [CANARY]}},
    }
    found = words(tree)
    assert len(found) == 11
    assert CANARY not in str(found)


def test_no_word_is_suggested_for_what_came_from_a_variable() -> None:
    tree: Mapping = {"telemetry": {"log_level": "dbug"}}
    assert words(tree, literal=False) == [("telemetry.log_level", "must be one of debug, info, warning, error", "")]


def test_the_words_of_a_choice_are_those_of_the_model() -> None:
    assert literals_at(("telemetry", "log_format")) == ["json", "console"]
    assert literals_at(("servers", "a", "asks", 0)) == ["elicitation", "sampling", "roots"]
    assert literals_at(("listen", "port")) == []
