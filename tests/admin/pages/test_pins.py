"""The pages on which what differs from a pin is approved and rejected."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from gateway.admin.access import Refused
from gateway.admin.operations import Act
from gateway.admin.pages import pins
from gateway.admin.pages.pins import SIZE
from gateway.admin.pages.visit import Redirect
from tests.kit.pages import HOSTILE, REFUSALS, SHOWN, Told, page, posted, visit

ALICE = Act("alice", "127.0.0.1")


def hidden(text: str, name: str) -> list[str]:
    return [unescape(value) for value in re.findall(rf'name="{name}" value="([^"]*)"', text)]


async def test_every_server_and_what_differs_there_is_listed() -> None:
    shown = page(await pins.servers(Told().gateway, visit("/pins"))).body.text
    assert SHOWN in shown
    assert "changed" in shown
    assert "/ui/pins/server?server=" in shown


async def test_a_difference_is_shown_escaped_with_its_own_buttons() -> None:
    shown = page(await pins.server(Told().gateway, visit("/pins/server", server=HOSTILE))).body.text
    assert f"<del>{SHOWN}" in shown
    assert "not there" in shown
    assert "held back" in shown
    assert hidden(shown, "target") == [f"{HOSTILE}/tool:{HOSTILE}"] * 2
    assert [json.loads(each) for each in hidden(shown, "digests")] == [{f"tool:{HOSTILE}": "d2"}] * 2


async def test_a_difference_leads_to_all_of_it_with_the_same_buttons() -> None:
    """What is approved must be there to read to its end: a line ends after 240 characters."""
    told = Told()
    brief = page(await pins.server(told.gateway, visit("/pins/server", server="off"))).body.text
    assert "/ui/pins/whole?server=off&amp;item=tool%3A" in brief
    told.whole = {"after_text": f'{{"description":"{"x" * 5000} {HOSTILE}"}}'}
    shown = page(await pins.whole(told.gateway, visit("/pins/whole", server="a", item="tool:t"))).body.text
    assert "x" * 5000 in shown
    assert SHOWN.removesuffix("&quot;&#x27;&amp;") in shown
    assert "Not there." in shown
    assert [json.loads(each) for each in hidden(shown, "digests")] == [{"tool:t": "d2"}] * 2
    assert "/ui/pins/whole" not in shown


async def test_instructions_are_shown_as_they_are() -> None:
    told = Told()
    told.whole = {"aspect": "instructions", "before_text": "{old", "after_text": "new,\u202e"}
    shown = page(await pins.whole(told.gateway, visit("/pins/whole", server="a", item="instructions"))).body.text
    assert ">{old</pre>" in shown
    assert "new,<span" in shown


async def test_what_does_not_differ_is_not_there_to_be_shown() -> None:
    told = Told()
    told.fails = KeyError("nothing differs")
    with pytest.raises(Refused) as missing:
        await pins.whole(told.gateway, visit("/pins/whole", server="a", item="tool:t"))
    assert missing.value.status == 404


async def test_all_of_it_can_be_approved_only_where_all_of_it_is_shown() -> None:
    told = Told()
    told.difference_total = 3
    few = page(await pins.server(told.gateway, visit("/pins/server", server="off"))).body.text
    assert json.loads(hidden(few, "digests")[0]) == {"tool:0": "d2", "tool:1": "d2", "tool:2": "d2"}
    assert hidden(few, "target")[0] == "off"
    told.difference_total = 10_000
    many = page(await pins.server(told.gateway, visit("/pins/server", server="off", page="3"))).body.text
    assert "Approve all" not in many
    assert f"{3 * SIZE + 1} to {4 * SIZE} of 10,000" in many
    assert told.asked[-1] == ("differences", "off", 3 * SIZE, SIZE)


async def test_who_lacks_the_role_sees_it_and_decides_nothing() -> None:
    shown = page(await pins.server(Told().gateway, visit("/pins/server", roles=("view",), server="off"))).body.text
    assert "<form" not in shown
    told = Told()
    with pytest.raises(Refused) as refused:
        await pins.approve(told.gateway, posted("/pins/approve", {"digests": "{}"}, roles=("approve",)))
    assert refused.value.status == 403
    assert told.asked == []


async def test_what_was_shown_is_what_is_decided() -> None:
    told = Told()
    form = {"server": "a", "target": "a/tool:x", "digests": '{"tool:x":"d2"}'}
    done = await pins.approve(told.gateway, posted("/pins/approve", form))
    await pins.reject(told.gateway, posted("/pins/reject", form))
    assert isinstance(done, Redirect)
    assert done.to.text == "/ui/pins/server?server=a&done=approve"
    assert told.asked == [
        ("pins", ALICE, "approve", "a/tool:x", {"tool:x": "d2"}),
        ("pins", ALICE, "reject", "a/tool:x", {"tool:x": "d2"}),
    ]


@pytest.mark.parametrize("digests", ["", "[]", "{", "1", '"x"'])
async def test_a_form_that_does_not_say_what_was_shown_decides_nothing(digests: str) -> None:
    told = Told()
    with pytest.raises(Refused) as refused:
        await pins.approve(told.gateway, posted("/pins/approve", {"target": "a", "digests": digests}))
    assert refused.value.status == 400
    assert told.asked == []


@pytest.mark.parametrize(("fault", "status"), REFUSALS)
async def test_what_cannot_be_decided_is_said(fault: Exception, status: int) -> None:
    told = Told()
    told.fails = fault
    with pytest.raises(Refused) as refused:
        await pins.approve(told.gateway, posted("/pins/approve", {"target": "a", "digests": "{}"}))
    assert refused.value.status == status
    with pytest.raises(Refused) as missing:
        await pins.server(Told().gateway, visit(server="nope"))
    assert missing.value.status == 404
