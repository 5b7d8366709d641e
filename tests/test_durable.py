"""Where what must never expire is opened, the key that all replicas have, and what an earlier gateway left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gateway.approvals.entry import Need, Subject
from gateway.approvals.file import FILE, ApprovalFile
from gateway.approvals.ledger import Ledger
from gateway.catalog.keep import Keep
from gateway.config.root import LoadedConfig
from gateway.downstream.oauth.vault import SealedVault
from gateway.durable import FINGERPRINT_KEY, IMPORTED, KEY, LOCAL_SEALING_KEY, TRIES, Act, Durable, opened
from gateway.errors import ConfigError
from gateway.pinning.pins import PIN_FILE, Pin, Pins
from gateway.protocol.rawjson import Object
from gateway.state.documents import Change
from gateway.state.files import read_or_create_key
from gateway.state.folder import FolderDocuments
from gateway.state.sealing import Sealer
from gateway.telemetry.metrics import Metrics
from tests.kit.approvals import Told
from tests.kit.calls import call
from tests.kit.configs import loaded
from tests.kit.definitions import listing, tool

NEW, OLD = b"n" * 32, b"o" * 32
PIN = Pin({"origin": "https://a:443"}, at="2026-01-01T00:00:00+00:00")


def config(database: str = "") -> LoadedConfig:
    return loaded({"state": {"dir": "/nonexistent", "database": database, "sealing_keys": ["k" * 32]}})


def made(folder: Path, name: str) -> Path:
    state = folder / name
    state.mkdir(exist_ok=True)
    return state


def durable(folder: Path, name: str, sealer: Sealer | None = None, shared: bool = True) -> Durable:
    """Open the documents of one replica."""
    database = f"file://{folder / 'shared'}" if shared else ""
    return Durable(config(database), made(folder, name), sealer or Sealer([NEW]), lambda _: None, Metrics())


def test_alone_everything_is_where_it_always_was(tmp_path: Path) -> None:
    alone = durable(tmp_path, "one", shared=False)
    assert isinstance(alone.documents, FolderDocuments)
    assert alone.documents.place(PIN_FILE) == str(tmp_path / "one" / PIN_FILE)
    assert alone.key == (tmp_path / "one" / FINGERPRINT_KEY).read_bytes()
    assert alone.status()["kind"] == "state_dir"


def test_all_replicas_have_the_key_that_the_first_one_made(tmp_path: Path) -> None:
    one, two = durable(tmp_path, "one"), durable(tmp_path, "two")
    assert one.key == two.key == (tmp_path / "one" / FINGERPRINT_KEY).read_bytes()
    kept = (tmp_path / "shared" / KEY).read_bytes()
    assert one.key not in kept
    assert two.status() == {
        "kind": "directory",
        "reachable": True,
        "since": two.documents.health().since,
        "reason": None,
    }


def test_the_key_is_sealed_again_under_a_new_sealing_key(tmp_path: Path) -> None:
    first = durable(tmp_path, "one", Sealer([OLD]))
    assert durable(tmp_path, "two", Sealer([NEW, OLD])).key == first.key
    assert durable(tmp_path, "three", Sealer([NEW])).key == first.key
    with pytest.raises(ConfigError, match="sealed with other keys"):
        durable(tmp_path, "four", Sealer([OLD]))
    (tmp_path / "shared" / KEY).write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="sealed with other keys"):
        durable(tmp_path, "one")


def test_a_place_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError):
        opened(config(f"file://{tmp_path}/file"), tmp_path)
    with pytest.raises(ConfigError, match=r"gateway\.yaml.*state\.database.*cannot be used"):
        opened(config("postgres://nobody:hush@127.0.0.1:1/x"), tmp_path)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / KEY).mkdir()
    with pytest.raises(ConfigError, match="cannot be read or made"):
        durable(tmp_path, "one")


async def left_behind(state: Path, sealer: Sealer) -> FolderDocuments:
    """Leave what a gateway that shared nothing has kept."""
    own = FolderDocuments(state)
    read_or_create_key(state / FINGERPRINT_KEY, 32)
    Pins(own).save("a", PIN, None)
    await Ledger(ApprovalFile(own, sealer), Told()).ask(Subject.of(call()), (Need("p", "approve[0]"),), 600)
    Keep(own).store(listing("a", tool("t")), "f")
    SealedVault(own, sealer).store({"access": "x"}, "a", "token", "")
    return own


async def test_what_a_gateway_kept_for_itself_moves_along_once(tmp_path: Path) -> None:
    state = made(tmp_path, "one")
    await left_behind(state, Sealer([NEW]))
    documents = durable(tmp_path, "one").documents
    assert durable(tmp_path, "two").key == (state / FINGERPRINT_KEY).read_bytes()
    assert Pins(documents).get("a") == PIN
    assert [entry.subject.name for entry in ApprovalFile(documents, Sealer([NEW])).load()[0]] == [call().target.name]
    assert Keep(documents).load("a", "f") is not None
    assert SealedVault(documents, Sealer([NEW])).load("a", "token", "") == {"access": "x"}
    # What is removed there does not come back with the next start.
    documents.replace(PIN_FILE, None, None)
    assert Pins(durable(tmp_path, "one").documents).get("a") is None
    assert documents.load(IMPORTED) is not None


async def test_approvals_that_were_sealed_with_a_key_of_its_own_move_along_too(tmp_path: Path) -> None:
    state = made(tmp_path, "one")
    await left_behind(state, Sealer([read_or_create_key(state / LOCAL_SEALING_KEY, 32)]))
    documents = durable(tmp_path, "one").documents
    assert len(ApprovalFile(documents, Sealer([NEW])).load()[0]) == 1


async def test_what_is_there_already_stays_and_another_key_imports_nothing(tmp_path: Path) -> None:
    durable(tmp_path, "one")
    await left_behind(made(tmp_path, "two"), Sealer([NEW]))
    documents = durable(tmp_path, "two").documents
    assert Pins(documents).get("a") is None
    (tmp_path / "shared" / IMPORTED).unlink()
    Pins(documents).save("b", Pin(), None)
    await left_behind(made(tmp_path, "one"), Sealer([NEW]))
    documents = durable(tmp_path, "one").documents
    assert (Pins(documents).get("a"), Pins(documents).get("b")) == (None, Pin())


@pytest.mark.parametrize("name", [PIN_FILE, FILE])
async def test_what_is_damaged_stops_the_start_before_anybody_else_sees_it(tmp_path: Path, name: str) -> None:
    state = made(tmp_path, "one")
    await left_behind(state, Sealer([NEW]))
    (state / name).write_text("{")
    with pytest.raises(ConfigError, match="cannot be used"):
        durable(tmp_path, "one")
    assert not (tmp_path / "shared" / name).exists()


class Scripted(FolderDocuments):
    """Documents of which others change what a test says."""

    script: tuple[Change, ...] = ()

    async def changes(self) -> AsyncIterator[Change]:
        for change in self.script:
            yield change


async def test_changes_reach_those_they_are_for_and_an_outage_is_said_once(tmp_path: Path) -> None:
    records: list[Object] = []
    alerts: list[str] = []
    acted: list[str] = []
    metrics = Metrics()
    one = Durable(config(), tmp_path, Sealer([NEW]), records.append, metrics)
    one.documents = documents = Scripted(tmp_path)
    away = Change(frozenset(), reachable=False)
    documents.script = (
        Change(frozenset({"a.json", "other"})),
        Change(frozenset({"b/1"})),
        away,
        away,
        Change(frozenset()),
        Change(frozenset({"other"})),
    )

    def acting(word: str) -> Act:
        async def act(changed: Callable[[str], bool]) -> bool:
            acted.append(f"{word}{changed('b/1'):d}{changed('b/2'):d}")
            return True

        return act

    acts = {"a.json": acting("a"), "b/": acting("b")}
    async with asyncio.timeout(5):
        await one.follow(acts, lambda kind, _: alerts.append(kind))
    assert acted == ["a00", "b10", "a11", "b11"]
    assert [record["event"] for record in records] == ["database.unreachable", "database.recovered"]
    assert alerts == ["database_unreachable"]
    assert "mcp_gateway_database_up 1.0" in metrics.render("")[0].decode()


async def test_after_a_moment_that_nobody_was_told_of_everything_is_read_again(tmp_path: Path) -> None:
    one = Durable(config(), tmp_path, Sealer([NEW]), list[Object]().append, Metrics())
    one.documents = documents = Scripted(tmp_path)
    documents.script = (Change(frozenset(), anew=True),)
    acted: list[bool] = []

    async def act(changed: Callable[[str], bool]) -> bool:
        acted.append(changed("a.json"))
        return True

    async with asyncio.timeout(5):
        await one.follow({"a.json": act}, lambda kind, _: None)
    assert acted == [True]


@pytest.mark.parametrize(("fails", "tries"), [(2, 3), (99, TRIES)])
async def test_what_could_not_be_read_is_read_again_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int, tries: int
) -> None:
    """Nobody tells of the same change twice: without it pins of this replica would stay what they were."""
    monkeypatch.setattr("gateway.durable.PAUSE", 0.01)
    one = Durable(config(), tmp_path, Sealer([NEW]), list[Object]().append, Metrics())
    one.documents = documents = Scripted(tmp_path)
    documents.script = (Change(frozenset({"a.json"})),)
    acted: list[bool] = []

    async def act(changed: Callable[[str], bool]) -> bool:
        acted.append(changed("a.json"))
        return len(acted) > fails

    async with asyncio.timeout(5):
        await one.follow({"a.json": act}, lambda kind, _: None)
    assert acted == [True] * tries
