"""``pins``: what it prints and how it ends; what it brings about is in ``tests/matrix/test_pins.py``."""

from __future__ import annotations

import io
import json

import pytest

from gateway.cli.main import main
from gateway.cli.output import Output
from gateway.cli.pins import show
from gateway.pinning.diff import MORE
from gateway.protocol.rawjson import Object
from tests.kit.gateway import Gateway


def difference(**members: object) -> dict[str, object]:
    base = {"item": "tool:t", "shown": "t", "aspect": "definition", "effect": "hold", "held": True, "rejected": False}
    return {**base, "before": "1" * 64, "after": "2" * 64, "diff": [], **members}


def printed(facts: bool = False, **server: object) -> str:
    stream = io.StringIO()
    row = {"state": "changed", "mode": "tofu", "reason": "", "approved_at": "2026-01-01", "facts": {}, "definitions": 3}
    servers: Object = json.loads(json.dumps({"a": {**row, "differences": [], **server}}))
    show(servers, Output(stream, terminal=False), facts=facts)
    return stream.getvalue()


def test_servers_are_one_line_each() -> None:
    assert printed() == "a  changed  tofu  2026-01-01  3  0\n"


def test_a_difference_is_shown_with_what_changed_in_it() -> None:
    diff = [{"pointer": "/description", "before": "old", "after": "new"}, {"pointer": "", "before": None, "after": "x"}]
    assert printed(differences=[difference(diff=diff)]).splitlines()[1:] == [
        "a/t: definition, held back: 111111111111 -> 222222222222",
        "  /description",
        "  - old",
        "  + new",
        "  /",
        "  + x",
    ]


@pytest.mark.parametrize("after", ["… then send it all to", "a long description…", MORE])
def test_where_a_difference_is_cut_the_way_to_all_of_it_is_said(after: str) -> None:
    cut = difference(diff=[{"pointer": "/description", "before": "old", "after": after}])
    assert "pins show a/tool:t --json)" in printed(differences=[cut])
    assert "--json" not in printed(differences=[{**cut, "before_text": "", "after_text": "{}"}])
    assert "--json" not in printed(differences=[difference(diff=[{"pointer": "/x", "before": "1", "after": "2"}])])


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"rejected": True}, "rejected"),
        ({"held": False, "effect": "quarantine", "aspect": "file"}, "file, quarantines the server"),
        ({"held": False, "effect": "tell", "after": ""}, "reported: 111111111111 -> nothing"),
    ],
)
def test_what_follows_from_it_is_said(members: dict[str, object], what: str) -> None:
    assert what in printed(differences=[difference(**members)])


def test_a_reason_and_facts_are_shown_when_asked_for() -> None:
    text = printed(facts=True, reason="the server is quarantined: cwd is not as approved")
    assert "a: the server is quarantined: cwd is not as approved" in text
    stream = io.StringIO()
    show({"a": {"facts": {"origin": "https://x:443"}}}, Output(stream, terminal=False), facts=True)
    assert "  origin = https://x:443" in stream.getvalue()


def test_control_characters_of_a_server_reach_no_terminal() -> None:
    assert "\x1b" not in printed(differences=[difference(shown="t\x1b[2K")])


def test_what_is_as_recorded_is_said_by_exit_codes(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    """G114: 0 the same, 2 could not tell."""
    file = str(gateway.file)
    assert main(["pins", "show", "-c", file]) == 0
    assert "notes  recorded  tofu" in capsys.readouterr().out
    assert main(["pins", "check", "notes", "-c", file]) == 0
    assert main(["pins", "check", "broken", "-c", file]) == 2
    assert main(["pins", "show", "notes", "--json", "-c", file]) == 0
    out = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(out)["servers"]["notes"]["differences"] == []


def test_nothing_to_approve_is_fine_and_an_unknown_name_is_not(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(gateway.file)
    assert main(["pins", "approve", "notes", "-c", file]) == 0
    assert "nothing differs" in capsys.readouterr().out
    assert main(["pins", "approve", "nope", "-c", file]) == 2
    assert 'no server "nope"' in capsys.readouterr().err
    assert main(["pins", "approve", "notes/nope", "-c", file]) == 2
    assert main(["pins", "approve", "-c", file]) == 2
