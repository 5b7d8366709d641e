"""What the pages are told of a running gateway."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.admin.operations import Act
from gateway.admin.views import Busy, Chosen, Corner, Supposed
from gateway.audit.query import Wanted
from gateway.dashboard import COLUMNS, ROWS, Dashboard, named, standing
from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.operations import Operator
from gateway.runtime import Runtime
from tests.kit.definitions import catalog_of, tool
from tests.test_runtime import notes, records, running, until, write

ACT = Act("alice", "127.0.0.1")
KEY = "k" * 40
SECRET = "very-secret-value-0123456789"


def configured(folder: Path) -> Path:
    policies = [
        {
            "name": "team",
            "clients": ["bot", "group:staff", "scope:notes", "sub:https://idp.example.com/ann"],
            "allow": ["a/whoami", "a/search_notes", {"tools": "a/read_note", "when": "args.id == 'n1'"}],
            "approve": [{"tools": "a/search_notes"}],
        },
        {"name": "more", "clients": ["group:staff"], "allow": ["a/delete_note"], "mode": "shadow"},
    ]
    server = notes(folder, "one") | {"env": {"TOKEN": SECRET}}
    return write(folder, servers={"a": server}, clients={"bot": {"key": KEY}}, policies=policies)


async def ready(runtime: Runtime) -> Dashboard:
    await until(lambda: bool(runtime.current().catalog.routes), "a catalog")
    return Dashboard(runtime, dict)


async def test_the_matrix_says_what_a_call_would_meet(tmp_path: Path) -> None:
    async with running(configured(tmp_path)) as runtime:
        matrix = await (await ready(runtime)).matrix(Corner())
        only = await Dashboard(runtime, dict).matrix(Corner("a", "NOTE", 1, 1))
        none = await Dashboard(runtime, dict).matrix(Corner("b", "", 5, COLUMNS))
    assert matrix.whos == ("bot", "sub:https://idp.example.com/ann", "group:staff", "scope:notes")
    cells = dict(zip(matrix.tools, matrix.cells, strict=True))
    assert cells["a/whoami"] == ("yes",) * 4
    assert cells["a/search_notes"] == ("asks",) * 4
    assert cells["a/read_note"] == ("depends",) * 4
    assert cells["a/delete_note"] == ("no",) * 4
    assert (matrix.total_whos, matrix.total_tools) == (4, len(matrix.tools))
    assert len(only.whos) == 3
    assert all("note" in tool for tool in only.tools)
    assert only.total_tools == len(only.tools) + 1
    assert (none.whos, none.tools, none.cells, none.total_tools) == ((), (), (), 0)


async def test_lists_are_weighed_as_the_status_weighs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.dashboard._STEP", 2)
    async with running(configured(tmp_path)) as runtime:
        weights = await (await ready(runtime)).weights()
        assert weights == Operator(runtime, "").status()["clients"]
    bot = weights["bot"]
    assert isinstance(bot, dict)
    assert bot["tools"] == 3


async def test_without_policies_everybody_may_call_everything(tmp_path: Path) -> None:
    async with running(write(tmp_path, servers={"a": notes(tmp_path, "one")})) as runtime:
        dashboard = await ready(runtime)
        snapshot = runtime.current()
        assert [label for label, _ in named(snapshot)] == ["anonymous"]
        assert standing(snapshot.engine, named(snapshot)[0][1], Target(Kind.TOOL, "a", "whoami")) == "yes"
        assert dashboard.policies() == ()


async def test_a_call_is_explained_as_the_command_line_does(tmp_path: Path) -> None:
    async with running(configured(tmp_path)) as runtime:
        dashboard = await ready(runtime)
        allowed = dashboard.explain(Supposed("bot", "a/read_note", '{"id": "n1"}'))
        refused = dashboard.explain(Supposed("bot", "a/read_note", '{"id": "n2"}'))
        group = dashboard.explain(Supposed("sub:x/y", "a/whoami", "", groups="other, staff"))
        unlisted = dashboard.explain(Supposed("bot", "a/nope"))
        wrong = (
            Supposed("nobody", "a/x"),
            Supposed("bot", "a"),
            Supposed("bot", "a/x", "[1]"),
            Supposed("bot", "a/x", "{"),
            Supposed("bot", "a/x", '"\ud800"'),
            Supposed("bot", "a/x", '{"x":"' + "y" * 70_000 + '"}'),
            Supposed("bot", "a/x", "{}", "noview"),
        )
        for supposed in wrong:
            with pytest.raises(ValueError, match=r"."):
                dashboard.explain(supposed)
    assert (allowed.allowed, allowed.visible) == (True, True)
    assert (refused.allowed, refused.visible) == (False, True)
    assert "its condition does not hold" in " ".join(refused.lines)
    assert group.allowed
    assert "note: it is in no list" in unlisted.lines[-1]


async def test_policies_are_shown_as_they_were_written_and_no_secret_with_them(tmp_path: Path) -> None:
    async with running(configured(tmp_path)) as runtime:
        shown = (await ready(runtime)).policies()
    assert [policy["name"] for policy in shown] == ["team", "more"]
    assert shown[1]["mode"] == "shadow"
    assert SECRET not in repr(shown)


async def test_the_chain_and_its_end_are_told(tmp_path: Path) -> None:
    async with running(configured(tmp_path)) as runtime:
        dashboard = await ready(runtime)
        await dashboard.signed(ACT, "in")
        chain = await dashboard.chain()
    last = next(each for each in records(tmp_path) if each["seq"] == chain["last_seq"])
    assert (chain["healthy"], chain["readable"], chain["segments"]) == (True, True, 1)
    assert chain["last_hash"] == last["hash"]
    assert chain["durable_seq"] == chain["last_seq"]
    assert last["event"] == "admin.sign_in"


async def test_a_search_is_recorded_with_what_it_was_for_and_only_one_runs(tmp_path: Path) -> None:
    """S172."""
    async with running(configured(tmp_path)) as runtime:
        dashboard = await ready(runtime)
        await dashboard.signed(ACT, "in")
        wanted = Wanted(frozenset({"alice"}), event="admin.*")
        first, second = await asyncio.gather(
            dashboard.audit(ACT, wanted, None), dashboard.audit(ACT, wanted, None), return_exceptions=True
        )
        assert isinstance(second, Busy)
        assert not isinstance(first, BaseException)
        assert [record["event"] for record in first.records][-1] == "admin.sign_in"
        await dashboard.sign_in_refused("203.0.113.9", "unknown_token")
    [read] = [each for each in records(tmp_path) if each["event"] == "admin.audit_read"]
    assert read["admin"] == {"user": "alice", "principal": "alice", "event_glob": "admin.*"}
    [failed] = [each for each in records(tmp_path) if each["event"] == "auth.failed"]
    assert failed["auth"] == {"kind": "admin", "reason": "unknown_token"}


async def test_calls_are_counted_whether_they_ran_or_not(tmp_path: Path) -> None:
    async with running(configured(tmp_path)) as runtime:
        dashboard = await ready(runtime)
        operator = Operator(runtime, "")
        await operator.call_as(ACT, "bot", "a/whoami", {})
        await operator.call_as(ACT, "bot", "a/delete_note", {})
        seen = await dashboard.traffic(Chosen(3600.0, "server"))
        assert dashboard.calls() == ()
    assert (seen.whole.ok, seen.whole.refused) == (1, 1)
    assert [name for name, _ in seen.by_name] == ["a"]


async def test_tools_pins_and_approvals_come_in_parts(tmp_path: Path) -> None:
    async with running(configured(tmp_path)) as runtime:
        dashboard = await ready(runtime)
        tools, rest = dashboard.tools("a", 0, 2), dashboard.tools("a", 2, 100)
        pin = await dashboard.differences("a", 0, 10)
        with pytest.raises(KeyError):
            await dashboard.differences("nope", 0, 10)
        with pytest.raises(KeyError, match="differs"):
            await dashboard.difference("a", "tool:whoami")
        with pytest.raises(KeyError, match="waits"):
            dashboard.approval("alice", "nope")
        assert (dashboard.waiting("alice"), dashboard.pending()) == ((), 0)
    assert isinstance(tools["tools"], list)
    assert isinstance(rest["tools"], list)
    assert len(tools["tools"]) == 2
    assert tools["total"] == 2 + len(rest["tools"])
    assert (pin["total"], pin["differences"]) == (0, [])


async def test_of_ten_thousand_tools_a_page_holds_what_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(configured(tmp_path)) as runtime:
        dashboard = await ready(runtime)
        catalog = catalog_of({"a": [tool(f"tool_{number}") for number in range(10_000)]})
        many = replace(runtime.current(), catalog=catalog)
        monkeypatch.setattr(runtime, "current", lambda: many)
        first, last = await dashboard.matrix(Corner()), await dashboard.matrix(Corner("a", "TOOL_", 9_960, 2))
        tools = dashboard.tools("a", 9_990, 100)
        monkeypatch.undo()
    assert (len(first.tools), len(first.cells), first.total_tools) == (ROWS, ROWS, 10_000)
    assert (len(last.tools), len(last.whos), last.tools[-1]) == (40, 2, "a/tool_9999")
    assert isinstance(tools["tools"], list)
    assert (len(tools["tools"]), tools["total"]) == (10, 10_000)
