"""The first page."""

from __future__ import annotations

import pytest

from gateway.admin.access import Refused
from gateway.admin.operations import Act
from gateway.admin.pages import overview
from gateway.admin.pages.visit import Redirect
from gateway.errors import ConfigError, Problem
from tests.kit.pages import HOSTILE, SHOWN, Told, page, posted, visit


async def test_what_waits_and_what_is_wrong_is_seen_at_once() -> None:
    shown = page(await overview.overview(Told().gateway, visit())).body.text
    assert "<strong>1 of 1</strong>" in shown
    assert SHOWN in shown
    assert "writes" in shown
    assert "anonymous ones too" in shown
    assert 'action="/ui/reload"' in shown


async def test_who_may_not_decide_sees_no_arguments_and_no_reload() -> None:
    shown = page(await overview.overview(Told().gateway, visit(roles=("view",)))).body.text
    assert "Review" not in shown
    assert "<form" not in shown


async def test_a_config_is_read_again_and_a_refused_one_says_why() -> None:
    told = Told()
    done = await overview.reload(told.gateway, posted("/reload", {}))
    assert isinstance(done, Redirect)
    assert told.asked == [("reload", Act("alice", "127.0.0.1"))]
    told.fails = ConfigError([Problem("bad <key>")])
    refused = page(await overview.reload(told.gateway, posted("/reload", {})))
    assert refused.status == 422
    assert "bad &lt;key&gt;" in refused.body.text
    with pytest.raises(Refused):
        await overview.reload(told.gateway, posted("/reload", {}, roles=("view", "approve")))


async def test_one_of_several_says_which_it_is_and_whether_what_they_share_is_there() -> None:
    told = Told()
    assert "replica" not in page(await overview.overview(told.gateway, visit())).body.text
    since = "2026-08-23T10:00:00+00:00"
    told.shared = {
        "replica": "0123456789ab",
        "store": {"kind": "shared", "state": "degraded", "since": since},
        "database": {"kind": "postgres", "reachable": True, "since": since},
    }
    shown = page(await overview.overview(told.gateway, visit())).body.text
    assert "0123456789ab" in shown
    assert "limits are this replica&#x27;s own" in shown or "limits are this replica's own" in shown
    assert "nothing new can be approved" not in shown


async def test_the_last_failed_reload_is_shown() -> None:
    told = Told()
    told.last_load = {"ok": False, "at": "2026-08-23T10:00:00Z", "problems": ["line 3: <x>"]}
    shown = page(await overview.overview(told.gateway, visit())).body.text
    assert "line 3: &lt;x&gt;" in shown
    assert "the one before is in force" in shown
    assert "<strong>config refused</strong>" in shown


@pytest.mark.parametrize(
    ("cause", "user", "said"),
    [
        ("start", None, "at the start"),
        ("watch", None, "because a file changed"),
        ("signal", None, "on SIGHUP"),
        ("admin", HOSTILE, SHOWN),
    ],
)
async def test_how_the_config_came_to_be_read_is_told(cause: str, user: str | None, said: str) -> None:
    told = Told()
    told.last_load = {"ok": True, "at": "2026-08-23T10:00:00Z", "problems": [], "cause": cause, "user": user}
    shown = page(await overview.overview(told.gateway, visit())).body.text
    assert said in shown[shown.index("last read") : shown.index("in force since")]
    assert "watched: a change is read by itself" in shown
    told.config = {"watched": False}
    assert "read on request and on SIGHUP" in page(await overview.overview(told.gateway, visit())).body.text
