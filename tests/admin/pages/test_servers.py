"""The pages of servers."""

from __future__ import annotations

import pytest

from gateway.admin.access import Refused
from gateway.admin.pages import servers
from gateway.admin.pages.servers import SIZE, milliseconds, pin_tone, taken, tone
from gateway.admin.views import Tally
from tests.kit.pages import HOSTILE, SERVER, SHOWN, Told, page, visit


async def test_every_server_is_shown_with_its_state_and_those_that_are_off() -> None:
    shown = page(await servers.servers(Told().gateway, visit("/servers"))).body.text
    assert SHOWN in shown
    assert "10,000" in shown
    assert "variable X is not set" in shown


async def test_many_servers_have_pages() -> None:
    told = Told()
    told.servers = {f"s{number}": SERVER for number in range(SIZE + 1)}
    shown = page(await servers.servers(told.gateway, visit("/servers", page="1"))).body.text
    assert f"server=s{SIZE}" in shown
    assert "server=s0&" not in shown


async def test_one_server_is_shown_with_some_of_its_tools_and_where_consent_is_given() -> None:
    told = Told()
    shown = page(await servers.one(told.gateway, visit("/servers/one", server=HOSTILE, page="2"))).body.text
    assert 'href="https://idp.example.com/consent?x=1&amp;y=2" rel="noopener noreferrer"' in shown
    assert "10,000 tools" in shown
    assert ("tools", HOSTILE, 2 * SIZE, SIZE) in told.asked
    assert "in 3 s" in shown


async def test_an_odd_consent_address_is_shown_and_leads_nowhere() -> None:
    told = Told()
    told.servers = {"a": {**SERVER, "consent_url": "javascript:alert(1)"}}
    shown = page(await servers.one(told.gateway, visit(server="a"))).body.text
    assert "javascript:alert(1)" in shown


async def test_a_server_that_is_none_is_not_found() -> None:
    with pytest.raises(Refused) as refused:
        await servers.one(Told().gateway, visit(server="nope"))
    assert refused.value.status == 404


def test_states_have_tones_and_durations_units() -> None:
    assert [tone(state) for state in ("up", "failed", "degraded", "off")] == ["good", "bad", "warn", "plain"]
    assert [pin_tone(state) for state in ("recorded", "changed", "off")] == ["good", "bad", "plain"]
    assert [milliseconds(value) for value in (5.0, 2000.0)] == ["5 ms", "2 s"]
    assert (taken(Tally()), taken(Tally(1, 0, 0, 50.0, 50.0))) == ("–", "50 ms")
