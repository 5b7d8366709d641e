"""The pages on which calls are approved and denied."""

from __future__ import annotations

import threading

import pytest

from gateway.admin.access import Refused
from gateway.admin.operations import Act, Forbidden
from gateway.admin.pages import approvals
from gateway.admin.pages.approvals import SIZE
from gateway.admin.pages.markup import Html, text
from gateway.admin.pages.visit import Redirect
from tests.kit.pages import ENTRY, REFUSALS, SHOWN, Told, page, posted, visit

ALICE = Act("alice", "127.0.0.1")


async def test_what_waits_is_listed_and_leads_to_its_own_page() -> None:
    shown = page(await approvals.waiting(Told().gateway, visit("/approvals")))
    assert SHOWN in shown.body.text
    assert "/ui/approvals/one?id=e1" in shown.body.text
    assert "<form" not in shown.body.text
    assert shown.live


async def test_many_are_shown_a_page_at_a_time() -> None:
    told = Told()
    told.entries = [{**ENTRY, "id": f"e{number}"} for number in range(SIZE + 1)]
    first = page(await approvals.waiting(told.gateway, visit("/approvals")))
    second = page(await approvals.waiting(told.gateway, visit("/approvals", page="1")))
    assert first.body.text.count("Review") == 2 * SIZE
    assert f"?id=e{SIZE}" in second.body.text
    assert "?id=e0" not in second.body.text


async def test_one_is_shown_whole_with_exactly_its_arguments() -> None:
    shown = page(await approvals.one(Told().gateway, visit("/approvals/one", id="e1"))).body.text
    assert "12345678901234567890" in shown
    assert "U+202E" in shown
    assert "&lt;i&gt;" in shown
    assert 'action="/ui/approvals/approve"' in shown
    assert 'action="/ui/approvals/deny"' in shown
    assert shown.count('name="csrf" value="mark"') == 2


async def test_arguments_are_laid_out_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be 128 KiB of numbers."""
    threads = []

    def laid_out(source: str) -> Html:
        threads.append(threading.current_thread())
        return text(source)

    monkeypatch.setattr("gateway.admin.pages.approvals.laid_out", laid_out)
    await approvals.one(Told().gateway, visit("/approvals/one", id="e1"))
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize(
    ("change", "words"), [({"yours": False}, "other users"), ({"state": "granted"}, "decided already")]
)
async def test_there_is_no_button_for_what_is_not_to_be_decided(change: dict[str, object], words: str) -> None:
    told = Told()
    told.entries = [{**ENTRY, **change}]  # type: ignore[dict-item]  # reason: members of JSON.
    shown = page(await approvals.one(told.gateway, visit("/approvals/one", id="e1"))).body.text
    assert words in shown
    assert "<form" not in shown


async def test_a_yes_and_a_no_are_the_users_own() -> None:
    told = Told()
    yes = await approvals.approve(told.gateway, posted("/approvals/approve", {"id": "e1"}))
    no = await approvals.deny(told.gateway, posted("/approvals/deny", {"id": "e1", "reason": "not now"}))
    assert isinstance(yes, Redirect)
    assert isinstance(no, Redirect)
    assert (yes.to.text, no.to.text) == ("/ui/approvals?done=approved", "/ui/approvals?done=denied")
    assert told.asked == [("approval", ALICE, "approve", "e1", ""), ("approval", ALICE, "deny", "e1", "not now")]
    assert "may pass once" in page(await approvals.waiting(told.gateway, visit(done="approved"))).body.text


@pytest.mark.parametrize(("fault", "status"), [*REFUSALS, (Forbidden("the rule asks other users"), 403)])
async def test_what_cannot_be_decided_is_said(fault: Exception, status: int) -> None:
    told = Told()
    told.fails = fault
    with pytest.raises(Refused) as refused:
        await approvals.approve(told.gateway, posted("/approvals/approve", {"id": "e1"}))
    assert refused.value.status == status


async def test_arguments_are_for_those_who_decide_alone() -> None:
    for handler in (approvals.waiting, approvals.one, approvals.approve, approvals.deny):
        told = Told()
        with pytest.raises(Refused) as refused:
            await handler(told.gateway, posted("", {"id": "e1"}, roles=("view", "pins", "reload")))
        assert refused.value.status == 403
        assert told.asked == []
    with pytest.raises(Refused) as missing:
        await approvals.one(Told().gateway, visit(id="nope"))
    assert missing.value.status == 404
