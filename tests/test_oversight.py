"""What becomes of approvals is recorded, counted and told; no record holds an argument."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from gateway import oversight
from gateway.approvals.entry import Entry, Need, Subject
from gateway.approvals.file import FILE, ApprovalFile
from gateway.audit.keys import AuditKey
from gateway.catalog.build import build
from gateway.config.root import Config
from gateway.model.catalog import Catalog
from gateway.model.principal import Principal
from gateway.oversight import Oversight, Places
from gateway.protocol.rawjson import Object
from gateway.state.folder import FolderDocuments
from gateway.state.memory import MemoryStore
from gateway.state.sealing import Sealer
from gateway.tasks import TaskSet
from gateway.telemetry.metrics import Metrics
from tests.kit.calls import call
from tests.kit.configs import loaded
from tests.kit.definitions import listing, tool
from tests.kit.webhook import receiving

NEEDS = (Need("p", "approve[0]"),)


class World:
    """Oversight over one folder, and what it wrote."""

    def __init__(self, folder: Path) -> None:
        self.entries: list[Object] = []
        self.metrics = Metrics()
        self.catalog = Catalog()
        places = Places(FolderDocuments(folder), Sealer([b"s" * 32]), AuditKey.of(b"k" * 32), MemoryStore())
        self.oversight = Oversight(places, self.entries.append, self.metrics, lambda who: self.catalog)

    @property
    def events(self) -> list[object]:
        return [entry["event"] for entry in self.entries]

    @property
    def scraped(self) -> str:
        return self.metrics.render("")[0].decode()


async def ask(world: World, seconds: float = 60) -> Entry:
    who = Principal("sub:https://i/maria", "jwt", "idp", claims={"iss": "https://i"})
    return await world.oversight.ledger.ask(Subject.of(call(arguments={"a": "hush"}, principal=who)), NEEDS, seconds)


async def test_every_step_has_its_record_and_its_count(tmp_path: Path) -> None:
    world = World(tmp_path)
    ledger = world.oversight.ledger
    granted = await ledger.approve((await ask(world)).id, "alice")
    assert await ledger.use(granted)
    await ledger.deny((await ask(world)).id, "bob", "no")
    names = ("requested", "approved", "used", "requested", "denied")
    assert world.events == [f"approval.{name}" for name in names]
    for name in set(names):
        assert f'mcp_gateway_approvals_total{{outcome="{name}"}} {names.count(name)}.0' in world.scraped
    approved = world.entries[1]["approval"]
    assert isinstance(approved, dict)
    assert (approved["by"], approved["rules"], approved["state"]) == (["alice"], ["p/approve[0]"], "granted")
    text = json.dumps(world.entries)
    assert "hush" not in text
    assert "maria" not in text
    assert world.entries[-1]["approval"] == {**approved, "id": world.oversight.ledger.entries()[0].id} | {
        "by": [],
        "state": "denied",
        "reason": "no",
    }


async def test_whoever_is_configured_hears_that_a_call_waits(tmp_path: Path) -> None:
    with receiving() as receiver:
        world = World(tmp_path)
        world.oversight.apply(loaded({"alerts": {"to": [receiver.url]}}))
        entry = await ask(world)
        await world.oversight.alerts.aclose()
        [told] = receiver.got
    assert (told["kind"], told["approval"], told["client"]) == ("approval_requested", entry.id, "idp")


async def test_what_waits_is_shown_again_after_a_restart_and_ends_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oversight, "TICK", 0.01)
    await ask(World(tmp_path), 0.2)
    world = World(tmp_path)
    assert "mcp_gateway_approvals_pending 1.0" in world.scraped
    tasks = TaskSet(lambda name, error: pytest.fail(f"{name}: {error}"))
    tasks.start(world.oversight.run(), "oversight")
    async with asyncio.timeout(5):
        while "approval.expired" not in world.events:
            await asyncio.sleep(0.01)
    await tasks.aclose()
    assert world.oversight.ledger.entries() == []


async def test_a_disk_that_is_full_does_not_end_the_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def full(self: ApprovalFile, entries: Iterable[Entry], version: int) -> None:
        tries.append(version)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(oversight, "TICK", 0.01)
    world = World(tmp_path)
    await ask(world, 0.01)
    monkeypatch.setattr(ApprovalFile, "write", full)
    tasks = TaskSet(lambda name, error: pytest.fail(f"{name}: {error}"))
    tasks.start(world.oversight.run(), "oversight")
    async with asyncio.timeout(5):
        while len(tries) < 3:
            await asyncio.sleep(0.01)
    await tasks.aclose()


def test_a_definition_is_what_the_catalog_says_now(tmp_path: Path) -> None:
    world = World(tmp_path)
    config = Config.model_validate({"servers": {"a": {"command": "x"}}})
    before, after = tool("t"), tool("t", description="now it deletes")
    world.catalog = build(config.naming, config.servers, {"a": listing("a", after)})
    digest = world.oversight.desk.definition
    assert digest(call()) == ""
    assert digest(call(definition=before)) == after.digest
    assert digest(call("u", definition=tool("u"))) == tool("u").digest
    assert digest(call("t", server="b", definition=before, exposed="a__t")) == before.digest


async def test_what_another_replica_wrote_is_counted_and_damage_is_not(tmp_path: Path) -> None:
    one, two = World(tmp_path), World(tmp_path)
    entry = await ask(one)
    await two.oversight.reread(lambda name: True)
    assert "mcp_gateway_approvals_pending 1.0" in two.scraped
    assert two.events == [], "it was told by the one that was asked"
    (tmp_path / FILE).write_text("{")
    await two.oversight.reread(lambda name: True)
    assert two.oversight.ledger.find(entry.id) == entry
