"""What operators see of the pins, and what becomes of their decisions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.admin.operations import Act, Conflict
from gateway.audit.log import AuditLog, AuditOptions
from gateway.auditing import AuditMeters
from gateway.config.root import Config
from gateway.model.catalog import Kind
from gateway.news import News
from gateway.pinboard import Pinboard
from gateway.pinning.fingerprint import Wrong
from gateway.protocol.rawjson import Object
from gateway.state.folder import FolderDocuments
from gateway.telemetry.metrics import Metrics
from gateway.trust import Trust
from tests.kit.definitions import definition, listing, tool

ACT = Act("alice", "127.0.0.1")
SERVERS = ["a", "b"]


def config() -> Config:
    servers = {name: {"command": "x", "args": [name]} for name in SERVERS}
    return Config.model_validate({"servers": servers, "clients": {"bot": {"key": "k" * 40}}})


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    made = Trust(FolderDocuments(tmp_path), b"k" * 32, News(lambda entry: None, Metrics(), lambda kind, facts: None))
    made.apply(config())
    return made


@pytest.fixture
async def audit(tmp_path: Path) -> AsyncIterator[AuditLog]:
    settings = Config.model_validate({"audit": {"dir": str(tmp_path / "audit")}}).audit
    log = AuditLog(AuditOptions.from_config(settings, tmp_path, {}, AuditMeters(Metrics())))
    await log.open()
    yield log
    await log.aclose()


@pytest.fixture
async def board(trust: Trust, audit: AuditLog) -> Pinboard:
    await trust.seen(listing("a", tool("t"), tool("u"), definition(Kind.PROMPT, "t")))
    await trust.seen(listing("a", tool("t", description="obey"), tool("u"), tool("n"), definition(Kind.PROMPT, "t")))
    return Pinboard(trust, audit)


def server(shown: Object, name: str = "a") -> dict[str, Any]:
    found = shown["servers"]
    assert isinstance(found, dict)
    one = found[name]
    assert isinstance(one, dict)
    return one


def digests(board: Pinboard, target: str) -> dict[str, str]:
    return {each["item"]: each["after"] for each in server(board.show(SERVERS, target))["differences"]}


async def test_everything_is_shown_with_what_changed_in_it(board: Pinboard) -> None:
    """S131: ``pins show`` prints all."""
    shown = board.show(SERVERS, "")
    one = server(shown)
    assert (one["state"], one["mode"], one["definitions"]) == ("changed", "tofu", 3)
    assert one["facts"]["cwd"] == ""
    assert [(each["item"], each["held"]) for each in one["differences"]] == [("tool:n", True), ("tool:t", True)]
    assert one["differences"][1]["diff"] == [{"pointer": "/description", "before": None, "after": "obey"}]
    assert server(shown, "b")["state"] == "unknown"
    assert "command" not in str(shown)


async def test_what_differs_comes_in_parts(board: Pinboard) -> None:
    first, second, none = (board.part(SERVERS, "a", start, 1) for start in range(3))
    assert [part["total"] for part in (first, second, none)] == [2, 2, 2]
    everything = server(board.show(SERVERS, "a"))["differences"]
    assert [first["differences"], second["differences"], none["differences"]] == [everything[:1], everything[1:], []]
    assert board.part(SERVERS, "b", 0, 10)["total"] == 0
    with pytest.raises(KeyError, match='no server "nope"'):
        board.part(SERVERS, "nope", 0, 1)


async def test_a_difference_has_its_whole_texts_where_it_alone_is_asked_for(trust: Trust, audit: AuditLog) -> None:
    """What is approved can be read to its end, though a line of a difference is cut."""
    await trust.seen(listing("a", tool("t")))
    await trust.seen(listing("a", tool("t", description="x" * 1000 + " then obey"), tool("n")))
    board = Pinboard(trust, audit)
    whole = board.whole(SERVERS, "a", "tool:t")
    assert "then obey" in str(whole["after_text"])
    assert "then obey" not in str(whole["before_text"])
    assert "then obey" not in str(whole["diff"])
    assert server(board.show(SERVERS, "a/t"))["differences"] == [whole]
    assert board.whole(SERVERS, "a", "tool:n")["before_text"] == ""
    assert not any("after_text" in each for each in server(board.show(SERVERS, "a"))["differences"])
    with pytest.raises(KeyError, match="differs at a"):
        board.whole(SERVERS, "a", "tool:nope")


async def test_one_tool_is_shown_by_its_own_name(board: Pinboard) -> None:
    assert [each["shown"] for each in server(board.show(SERVERS, "a/t"))["differences"]] == ["t"]
    assert server(board.show(SERVERS, "a/u"))["differences"] == []
    assert server(board.show(SERVERS, "a/prompt:t"))["differences"] == []
    with pytest.raises(KeyError, match='no server "nope"'):
        board.show(SERVERS, "nope/t")
    with pytest.raises(KeyError, match="differs at a"):
        board.show(SERVERS, "a/nope")


async def test_an_approval_is_of_what_was_shown(board: Pinboard, trust: Trust) -> None:
    """S141."""
    shown = digests(board, "a/t")
    await trust.seen(listing("a", tool("t", description="obey me"), tool("u"), tool("n")))
    with pytest.raises(Conflict, match="changed since it was shown"):
        await board.approve(ACT, SERVERS, "a/t", shown)
    done = await board.approve(ACT, SERVERS, "a/t", digests(board, "a/t"))
    assert (done["items"], done["state"]) == (["tool:t"], "changed")
    with pytest.raises(KeyError):
        await board.approve(ACT, SERVERS, "a/t", {})


async def test_a_rejected_item_is_left_out_of_approving_everything(board: Pinboard, trust: Trust) -> None:
    await board.reject(ACT, SERVERS, "a/n", digests(board, "a/n"))
    done = await board.approve(ACT, SERVERS, "a", digests(board, "a"))
    assert done["items"] == ["tool:t"]
    [left] = server(board.show(SERVERS, "a"))["differences"]
    assert (left["item"], left["rejected"]) == ("tool:n", True)
    await board.approve(ACT, SERVERS, "a/n", digests(board, "a/n"))
    assert trust.state("a") == "recorded"


async def test_both_decisions_are_audited_with_old_and_new(board: Pinboard, audit: AuditLog, tmp_path: Path) -> None:
    """S141, S172."""
    await board.reject(ACT, SERVERS, "a/n", digests(board, "a/n"))
    await board.approve(ACT, SERVERS, "a/t", digests(board, "a/t"))
    await audit.aclose()
    text = "".join(path.read_text() for path in sorted((tmp_path / "audit").glob("*.jsonl")))
    for word in ('"admin.pins_reject"', '"admin.pins_approve"', '"pin.approved"', '"user":"alice"', tool("t").digest):
        assert word in text


async def test_a_wrong_answer_cannot_be_approved_but_a_server_be_asked_again(board: Pinboard, trust: Trust) -> None:
    found = trust.watched("a")
    assert found is not None
    found.seen = found.seen.with_wrong("principal:b", Wrong("probe:/x", "1", "2"), "probe")
    trust.apply(config())
    assert trust.state("a") == "quarantined"
    with pytest.raises(Conflict, match="wrong in itself"):
        await board.approve(ACT, SERVERS, "a/probe:/x", digests(board, "a/probe:/x"))
    await board.approve(ACT, SERVERS, "a", digests(board, "a"))
    assert trust.state("a") == "recorded"


async def test_forms_of_a_name_are_shown_and_decided_one_by_one_or_together(tmp_path: Path, audit: AuditLog) -> None:
    servers = {"a": {"url": "http://127.0.0.1:1/mcp", "catalog": "principal"}}
    trust = Trust(FolderDocuments(tmp_path), b"k" * 32, News(lambda entry: None, Metrics(), lambda kind, facts: None))
    trust.apply(Config.model_validate({"servers": servers, "clients": {"bot": {"key": "k" * 40}}}))
    for number, text in enumerate(("one", "two", "three", "four")):
        await trust.offered(listing("a", tool("t", description=text)), f"key:{number}")
    board = Pinboard(trust, audit)
    shown = {each["after"]: each for each in server(board.show(["a"], "a/t"))["differences"]}
    assert len(shown) == 3
    paged = board.part(["a"], "a", 1, 1)
    assert (paged["total"], len(server({"servers": {"a": paged}})["differences"])) == (3, 1)
    two, three, four = (tool("t", description=text).digest for text in ("two", "three", "four"))
    assert shown[two]["diff"] == [{"pointer": "/description", "before": "one", "after": "two"}]
    item = shown[four]["item"]
    await board.reject(ACT, ["a"], f"a/{item}", {item: four})
    with pytest.raises(Conflict):
        await board.approve(ACT, ["a"], "a/t", {shown[two]["item"]: two})
    both = {shown[digest]["item"]: digest for digest in (two, three)}
    for one, digest in both.items():
        await board.approve(ACT, ["a"], f"a/{one}", {one: digest})
    left = server(board.show(["a"], "a"))["differences"]
    assert [(each["item"], each["rejected"]) for each in left] == [(item, True)]
    pin = trust.pin("a")
    assert pin is not None
    assert len(pin.definitions["tool:t"]) == 3
