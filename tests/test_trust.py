"""Servers are held to their pins: before a start, when they answer, and when their lists are read."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.config.root import Config
from gateway.config.servers import Server
from gateway.downstream.dialect import Hello, Page
from gateway.downstream.inspection import Meeting, Quarantined
from gateway.errors import ConfigError, DownstreamError
from gateway.model.call import Call, Target
from gateway.model.catalog import Kind, Listing
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Outcome
from gateway.pinning import forms
from gateway.pinning.pins import Overtaken
from gateway.pinning.verify import NOT_APPROVED
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era
from gateway.state.folder import FolderDocuments
from gateway.telemetry.metrics import Metrics
from gateway.trust import Trust
from gateway.watched import World, hold
from tests.kit.calls import call
from tests.kit.definitions import definition, listing, tool
from tests.kit.pinning import news_of

CLIENTS = {"bot": {"key": "k" * 40}}


@dataclass
class Watched:
    """A trust over one server ``a``, and what it told."""

    folder: Path
    server: dict[str, Any]
    sections: dict[str, Any] = field(default_factory=lambda: {"clients": CLIENTS})
    entries: list[Object] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    severed: list[str] = field(default_factory=list)
    settled: bool = True

    def __post_init__(self) -> None:
        self.metrics = Metrics()
        self.metrics.known_servers(["a"])
        self.trust = self.again()

    def again(self) -> Trust:
        """Start anew with the same state."""
        self.trust = Trust(FolderDocuments(self.folder), b"k" * 32, news_of(self.entries, self.metrics))
        self.trust.connect(World(self._settled, self.changed.append, lambda name, why: self.severed.append(why)))
        self.trust.apply(self.config())
        return self.trust

    async def _settled(self, server: str) -> bool:
        return self.settled

    def config(self, **server: Any) -> Config:
        return Config.model_validate({"servers": {"a": {**self.server, **server}}, **self.sections})

    def configured(self) -> Server:
        return self.config().servers["a"]

    def events(self) -> list[object]:
        return [entry["event"] for entry in self.entries]

    def named(self) -> list[object]:
        return [entry["pin"]["name"] for entry in self.entries if entry["event"] == "pin.mismatch"]  # type: ignore[call-overload,index]  # reason: JSON.


def script(folder: Path, text: str = "one") -> Path:
    path = folder / "server"
    path.write_text(f"#!/bin/sh\n# {text}\n")
    path.chmod(0o700)
    return path


def command(folder: Path, **settings: Any) -> dict[str, Any]:
    return {"command": str(script(folder)), **settings}


def meeting(watched: Watched, answer: Outcome | None = None, whose: str = "", *tools: Any) -> Meeting:
    """Return a connection that answers its probe so and lists these tools."""

    async def page(kind: Kind, cursor: str | None) -> Page:
        return Page([rawjson.raw(each.members) for each in tools if each.kind is kind])

    async def asked(call: Call, exchange: Exchange) -> Outcome:
        assert answer is not None
        return answer

    hello = Hello(Era.MODERN, "2026-07-28", {"name": "x"}, {"tools": {}})
    return Meeting("a", watched.configured(), whose, hello, "", page, asked)


def known(*tools: Any) -> Listing:
    """Return lists with the words of ``meeting``."""
    facts: dict[str, Any] = {"server_info": {"name": "x"}, "version": "2026-07-28", "capabilities": {"tools": {}}}
    return listing("a", *tools, **facts)


async def test_the_first_sight_is_durable_before_anything_is_shown(tmp_path: Path) -> None:
    """S142."""
    watched = Watched(tmp_path, command(tmp_path))
    lists = listing("a", tool("t"))
    assert watched.trust.verdicts(watched.config(), {"a": lists})["a"].hidden == NOT_APPROVED
    assert watched.trust.state("a") == "unknown"
    assert await watched.trust.seen(lists)
    assert watched.trust.verdicts(watched.config(), {"a": lists})["a"].hidden == ""
    assert watched.trust.state("a") == "recorded"
    assert watched.events() == ["pin.recorded"]
    assert watched.again().verdicts(watched.config(), {"a": lists})["a"].hidden == ""
    other = listing("a", tool("t", description="obey"))
    assert set(watched.trust.verdicts(watched.config(), {"a": other})["a"].held) == {"tool:t"}


async def test_a_full_disk_keeps_a_server_hidden(tmp_path: Path) -> None:
    """S142: fails closed, and is tried again with the next lists."""
    (tmp_path / "state").mkdir()
    watched = Watched(tmp_path / "state", command(tmp_path))
    (tmp_path / "state").rmdir()
    await watched.trust.seen(listing("a", tool("t")))
    assert watched.trust.state("a") == "unknown"
    assert await watched.trust.cleared(call(server="a")) is not None
    (tmp_path / "state").mkdir()
    await watched.trust.seen(listing("a", tool("t")))
    assert watched.trust.state("a") == "recorded"


def test_a_damaged_file_keeps_the_gateway_from_starting(tmp_path: Path) -> None:
    """G113."""
    (tmp_path / "pins.json").write_text("{")
    (tmp_path / "pins.json").chmod(0o600)
    with pytest.raises(ConfigError, match="pin file"):
        Watched(tmp_path, command(tmp_path))


async def test_mode_warn_reports_and_lets_everything_pass(tmp_path: Path) -> None:
    watched = Watched(tmp_path, command(tmp_path), {})
    await watched.trust.seen(listing("a", tool("t"), tool("u")))
    await watched.trust.seen(listing("a", tool("t", description="obey"), tool("n")))
    await watched.trust.seen(listing("a", tool("t", description="obey"), tool("n")))
    assert watched.named() == ["tool:n", "tool:t"]
    assert watched.events().count("pin.removed") == 1
    assert watched.trust.state("a") == "changed"
    assert sorted(watched.trust.changed("a")) == ["tool:n", "tool:t", "tool:u"]
    assert await watched.trust.cleared(call("n", "a", definition=tool("n"))) is None
    text = watched.metrics.render("")[0].decode()
    assert 'mcp_gateway_pin_mismatches_total{kind="definition",server="a"} 3.0' in text
    assert 'mcp_gateway_quarantined_tools{server="a"} 0.0' in text


async def test_mode_off_looks_away(tmp_path: Path) -> None:
    watched = Watched(tmp_path, command(tmp_path, pin={"mode": "off"}))
    assert not await watched.trust.seen(listing("a", tool("t")))
    assert await watched.trust.before("a", watched.configured()) is None
    assert await watched.trust.met(meeting(watched)) is None
    watched.trust.wrong_key("a", "", "f" * 64)
    assert (watched.entries, watched.trust.state("a"), watched.trust.state("gone")) == ([], "off", "off")


async def test_one_byte_of_the_executable_keeps_it_from_starting(tmp_path: Path) -> None:
    """S134, G116: looked at before each start, not only at the first."""
    watched = Watched(tmp_path, command(tmp_path))
    assert await watched.trust.before("a", watched.configured())
    await watched.trust.seen(listing("a", tool("t")))
    assert await watched.trust.before("a", watched.configured())
    script(tmp_path, "two")
    with pytest.raises(Quarantined, match="executable_sha256 is not as approved"):
        await watched.trust.before("a", watched.configured())
    assert watched.named() == ["executable_sha256"]
    assert "pin.quarantined" in watched.events()
    assert watched.changed[-1] == "a"
    assert len(watched.severed) == 1
    assert watched.trust.state("a") == "quarantined"
    assert await watched.trust.cleared(call(server="a")) is not None
    script(tmp_path)
    assert await watched.trust.before("a", watched.configured())
    assert watched.trust.state("a") == "recorded"


async def test_a_declared_file_counts_like_the_executable(tmp_path: Path) -> None:
    """S134."""
    lock = tmp_path / "lock"
    lock.write_text("1")
    watched = Watched(tmp_path, command(tmp_path, pin={"files": [str(lock)]}))
    await watched.trust.before("a", watched.configured())
    await watched.trust.seen(listing("a", tool("t")))
    lock.write_text("2")
    with pytest.raises(Quarantined, match="file:"):
        await watched.trust.before("a", watched.configured())


async def test_a_program_exchanged_between_look_and_start_is_not_spoken_to(tmp_path: Path) -> None:
    """S134: swap the file between check and exec."""
    watched = Watched(tmp_path, command(tmp_path))
    await watched.trust.before("a", watched.configured())
    await watched.trust.seen(listing("a", tool("t")))
    seals = await watched.trust.before("a", watched.configured())
    assert seals is not None
    await watched.trust.after("a", watched.configured(), seals)
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\n# two\n")
    other.chmod(0o700)
    other.replace(tmp_path / "server")
    with pytest.raises(Quarantined):
        await watched.trust.after("a", watched.configured(), seals)


async def test_another_program_earlier_in_the_path_is_another_server(tmp_path: Path) -> None:
    """G116."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        script(tmp_path / name)
    late = f"{tmp_path}/empty:{tmp_path}/one"
    watched = Watched(tmp_path, {"command": "server", "env": {"PATH": late}, "pin": {"rotating": ["PATH"]}})
    await watched.trust.before("a", watched.configured())
    await watched.trust.seen(listing("a", tool("t")))
    (tmp_path / "empty").mkdir()
    os.rename(tmp_path / "two" / "server", tmp_path / "empty" / "server")
    with pytest.raises(Quarantined, match="executable"):
        await watched.trust.before("a", watched.configured())


async def test_strict_starts_nothing_that_the_file_does_not_hold(tmp_path: Path) -> None:
    """S131: its config is approved first, what it lists then."""
    watched = Watched(tmp_path, command(tmp_path, pin={"mode": "strict"}))
    with pytest.raises(Quarantined, match="not in the pin file"):
        await watched.trust.before("a", watched.configured())
    found = watched.trust.watched("a")
    assert found is not None
    assert await watched.trust.decide("a", found.verdict.differences, approve=True)
    assert await watched.trust.before("a", watched.configured())
    await watched.trust.met(meeting(watched))
    await watched.trust.seen(listing("a", tool("t")))
    assert set(found.verdict.held) == {"tool:t"}
    assert await watched.trust.decide("a", found.verdict.differences, approve=True)
    assert watched.trust.state("a") == "recorded"


async def test_strict_runs_no_package_without_a_version(tmp_path: Path) -> None:
    """S134."""
    (tmp_path / "npx").write_text("#!/bin/sh\n")
    (tmp_path / "npx").chmod(0o700)
    server = {"command": str(tmp_path / "npx"), "args": ["-y", "some-server"], "pin": {"mode": "strict"}}
    watched = Watched(tmp_path, server)
    found = watched.trust.watched("a")
    assert found is not None
    for _ in range(2):
        with pytest.raises(Quarantined):
            await watched.trust.before("a", watched.configured())
        await watched.trust.decide("a", found.verdict.differences, approve=True)
    with pytest.raises(Quarantined, match="launcher"):
        await watched.trust.before("a", watched.configured())


async def test_what_may_change_is_taken_and_told(tmp_path: Path) -> None:
    watched = Watched(tmp_path, command(tmp_path, env={"TOKEN": "1"}, pin={"rotating": ["TOKEN"]}))
    await watched.trust.before("a", watched.configured())
    await watched.trust.seen(listing("a", tool("t")))
    watched.server["env"] = {"TOKEN": "2"}
    watched.trust.apply(watched.config())
    assert await watched.trust.before("a", watched.configured())
    assert watched.named() == ["env:TOKEN"]
    assert "alert.raised" in watched.events()
    assert watched.trust.state("a") == "recorded"


PROBED = {"probe": {"tool": "whoami", "arguments": {}, "expect": {"/structuredContent/dataset": "prod"}}}


def said(dataset: str) -> Complete:
    return Complete({"structuredContent": rawjson.raw({"dataset": dataset})})


async def test_a_wrong_answer_quarantines_until_a_right_one(tmp_path: Path) -> None:
    """S132, S137."""
    watched = Watched(tmp_path, command(tmp_path, pin=PROBED))
    await watched.trust.met(meeting(watched, said("prod")))
    await watched.trust.seen(known(tool("t")))
    with pytest.raises(Quarantined, match="probe:/structuredContent/dataset"):
        await watched.trust.met(meeting(watched, said("test")))
    assert watched.trust.state("a") == "quarantined"
    assert await watched.trust.before("a", watched.configured())
    await watched.trust.met(meeting(watched, said("prod")))
    assert watched.trust.state("a") == "recorded"


async def test_a_wrong_answer_to_one_principal_stands_until_somebody_looks(tmp_path: Path) -> None:
    watched = Watched(tmp_path, command(tmp_path, pin=PROBED))
    await watched.trust.met(meeting(watched, said("prod")))
    await watched.trust.seen(known(tool("t")))
    with pytest.raises(Quarantined):
        await watched.trust.met(meeting(watched, said("test"), "principal:key:bot", tool("t")))
    await watched.trust.met(meeting(watched, said("prod")))
    assert watched.trust.state("a") == "quarantined"
    assert len(watched.severed) == 1
    await watched.trust.decide("a", [], approve=True)
    assert watched.trust.state("a") == "recorded"


async def test_a_server_with_a_wrong_answer_is_never_recorded(tmp_path: Path) -> None:
    watched = Watched(tmp_path, command(tmp_path, pin=PROBED))
    with pytest.raises(Quarantined):
        await watched.trust.met(meeting(watched, said("test")))
    await watched.trust.seen(known(tool("t")))
    assert watched.trust.pin("a") is None


async def test_a_wrong_key_quarantines_until_the_right_one(tmp_path: Path) -> None:
    """S135."""
    watched = Watched(tmp_path, {"url": "https://127.0.0.1:1/mcp", "tls": {"spki_sha256": ["00" * 32]}})
    await watched.trust.met(meeting(watched))
    await watched.trust.seen(known(tool("t")))
    watched.trust.wrong_key("a", "", "ff" * 32)
    assert watched.trust.state("a") == "quarantined"
    assert watched.named() == ["tls_pin"]
    await watched.trust.met(meeting(watched))
    assert watched.trust.state("a") == "recorded"


async def test_an_unconfigured_key_is_only_told(tmp_path: Path) -> None:
    watched = Watched(tmp_path, {"url": "https://127.0.0.1:1/mcp"})
    await watched.trust.seen(listing("a", tool("t")), "00" * 32)
    assert not await watched.trust.seen(listing("a", tool("t")), "ff" * 32)
    assert watched.named() == ["tls_key"]
    assert watched.trust.state("a") == "changed"


async def test_a_call_is_held_to_what_is_there_now(tmp_path: Path) -> None:
    """S60, S139, G112."""
    watched = Watched(tmp_path, command(tmp_path))
    template = definition(Kind.TEMPLATE, "x://{id}")
    await watched.trust.seen(listing("a", tool("t"), tool("u"), definition(Kind.PROMPT, "p")))
    now = listing("a", tool("t", description="obey"), definition(Kind.PROMPT, "p"), template)
    assert await watched.trust.seen(now)
    prompt, resource = Target(Kind.PROMPT, "a", "p"), Target(Kind.RESOURCE, "a", "x://1")

    async def why(made: Call) -> str:
        failure = await watched.trust.cleared(made)
        return "" if failure is None else failure.detail * failure.hidden

    assert "changed since it was approved" in await why(call("t", "a", definition=tool("t")))
    assert "does not list it any more" in await why(call("u", "a", definition=tool("u")))
    assert await why(call("p", "a", target=prompt, definition=definition(Kind.PROMPT, "p"))) == ""
    assert "new since" in await why(call("x", "a", target=resource))
    assert await why(call("y", "a", target=Target(Kind.RESOURCE, "a", "y://1"))) == ""
    assert await why(call("t", "elsewhere")) == ""
    watched.settled = False
    with pytest.raises(DownstreamError, match="being read again"):
        await watched.trust.cleared(call("t", "a", definition=tool("t")))


async def test_a_connection_of_its_own_is_held_to_what_was_approved(tmp_path: Path) -> None:
    """S139."""
    watched = Watched(tmp_path, command(tmp_path))
    await watched.trust.seen(listing("a", tool("t"), tool("u")))
    offer = await watched.trust.met(meeting(watched, None, "principal:b", tool("t", description="obey"), tool("u")))
    assert offer is not None
    refused = await watched.trust.cleared(call("t", "a", definition=tool("t")), offer)
    assert refused is not None
    assert refused.hidden
    assert await watched.trust.cleared(call("u", "a", definition=tool("u")), offer) is None
    [told] = [entry["pin"] for entry in watched.entries if entry["event"] == "pin.mismatch"]
    assert isinstance(told, dict)
    assert (told["name"], told["connection"]) == ("tool:t", "principal")


async def test_an_unchanged_server_keeps_what_is_known_of_it_over_a_reload(tmp_path: Path) -> None:
    """G128."""
    watched = Watched(tmp_path, command(tmp_path))
    await watched.trust.seen(listing("a", tool("t")))
    await watched.trust.seen(listing("a", tool("t", description="obey")))
    watched.trust.apply(watched.config())
    assert watched.trust.state("a") == "changed"
    watched.trust.apply(watched.config(args=["other"]))
    assert watched.trust.state("a") == "quarantined"


async def test_a_rejection_and_an_approval_are_of_what_is_there(tmp_path: Path) -> None:
    watched = Watched(tmp_path, command(tmp_path))
    await watched.trust.seen(listing("a", tool("t")))
    await watched.trust.seen(listing("a", tool("t", description="obey")))
    found = watched.trust.watched("a")
    assert found is not None
    await watched.trust.decide("a", found.verdict.differences, approve=False)
    assert found.verdict.held["tool:t"].startswith("rejected")
    await watched.trust.decide("a", found.verdict.differences, approve=True)
    assert (found.verdict.held, watched.trust.state("a")) == ({}, "recorded")


def test_the_catalog_is_told_what_to_hold(tmp_path: Path) -> None:
    watched = Watched(tmp_path, command(tmp_path))
    verdicts = watched.trust.verdicts(watched.config(), {"a": Listing("a", (tool("t"),))})
    assert hold(verdicts, "a", definition(Kind.RESOURCE, "x://1")) == NOT_APPROVED
    assert hold(verdicts, "b", tool("t")) is None


async def test_several_servers_are_recorded_at_once(tmp_path: Path) -> None:
    made = {"a": command(tmp_path), "b": command(tmp_path)}
    watched = Watched(tmp_path, made["a"])
    watched.trust.apply(Config.model_validate({"servers": made, "clients": CLIENTS}))
    await asyncio.gather(*(watched.trust.seen(listing(name, tool("t"))) for name in made))
    assert {name: watched.trust.state(name) for name in made} == {"a": "recorded", "b": "recorded"}


async def test_a_server_that_was_watched_from_its_middle_on_is_recorded_at_its_next_start(tmp_path: Path) -> None:
    """Pins that are turned on by a reload see a process that runs already."""
    watched = Watched(tmp_path, command(tmp_path))
    await watched.trust.seen(known(tool("t")))
    await watched.trust.before("a", watched.configured())
    await watched.trust.seen(known(tool("t")))
    assert watched.trust.state("a") == "recorded"
    script(tmp_path, "two")
    with pytest.raises(Quarantined):
        await watched.trust.before("a", watched.configured())


async def test_files_belong_to_a_server_that_is_an_address_too(tmp_path: Path) -> None:
    file = tmp_path / "contract.json"
    file.write_text("one")
    watched = Watched(tmp_path, {"url": "http://127.0.0.1:1/mcp", "pin": {"files": [str(file)]}})
    await watched.trust.before("a", watched.configured())
    await watched.trust.seen(listing("a", tool("t")))
    file.write_text("two")
    with pytest.raises(Quarantined, match=r"contract\.json is not as approved"):
        await watched.trust.before("a", watched.configured())


# Shared with other replicas.


def anything(name: str) -> bool:
    return True


async def test_two_replicas_that_see_a_server_first_judge_by_what_won(tmp_path: Path) -> None:
    """S142."""
    one, two = Watched(tmp_path, command(tmp_path)), Watched(tmp_path, command(tmp_path))
    await one.trust.seen(known(tool("t")))
    other = known(tool("t", description="obey"))
    await two.trust.seen(other)
    assert set(two.trust.verdicts(two.config(), {"a": other})["a"].held) == {"tool:t"}
    assert (one.events(), two.events().count("pin.recorded")) == (["pin.recorded"], 0)


async def test_of_two_replicas_that_see_the_same_at_once_one_says_so(tmp_path: Path) -> None:
    replicas = [Watched(tmp_path, command(tmp_path)) for _ in range(4)]
    lists = known(tool("t"))
    await asyncio.gather(*(each.trust.seen(lists) for each in replicas for _ in range(2)))
    await asyncio.gather(*(each.trust.reread(anything) for each in replicas))
    assert [event for each in replicas for event in each.events()] == ["pin.recorded"]
    assert {each.trust.state("a") for each in replicas} == {"recorded"}


async def test_what_another_replica_decides_is_acted_on(tmp_path: Path) -> None:
    one, two = Watched(tmp_path, command(tmp_path)), Watched(tmp_path, command(tmp_path))
    now = known(tool("t", description="new"))
    await one.trust.seen(known(tool("t")))
    for each in (one, two):
        await each.trust.reread(anything)
        await each.trust.seen(now)
        assert each.trust.state("a") == "changed"
    two.changed.clear()
    watched = one.trust.watched("a")
    assert watched is not None
    assert await one.trust.decide("a", watched.verdict.differences, approve=True)
    await two.trust.reread(anything)
    assert (two.trust.state("a"), two.changed) == ("recorded", ["a"])
    await two.trust.reread(anything)
    assert two.changed == ["a"], "nothing is new"


async def test_a_decision_on_what_others_decided_meanwhile_is_refused_and_on_the_rest_made(tmp_path: Path) -> None:
    one, two = Watched(tmp_path, command(tmp_path)), Watched(tmp_path, command(tmp_path))
    now = known(tool("t", description="new"), tool("u", description="new"))
    await one.trust.seen(known(tool("t"), tool("u")))
    for each in (one, two):
        await each.trust.reread(anything)
        await each.trust.seen(now)
    differences = {item.item: item for item in one.trust.watched("a").verdict.differences}  # type: ignore[union-attr] # it is configured
    assert await one.trust.decide("a", [differences["tool:t"]], approve=True)
    assert await two.trust.decide("a", [differences["tool:u"]], approve=True)
    assert two.trust.state("a") == "recorded"
    with pytest.raises(Overtaken):
        await one.trust.decide("a", [differences["tool:u"]], approve=False)
    assert one.trust.state("a") == "recorded"


async def test_a_first_sight_that_could_not_be_written_is_written_when_that_can_be(tmp_path: Path) -> None:
    place = tmp_path / "state"
    place.mkdir()
    watched = Watched(place, command(tmp_path))
    place.rename(tmp_path / "away")
    await watched.trust.seen(known(tool("t")))
    assert (watched.trust.state("a"), watched.events()) == ("unknown", [])
    (tmp_path / "away").rename(place)
    await watched.trust.reread(anything)
    assert (watched.trust.state("a"), watched.changed) == ("recorded", ["a"])
    assert watched.events() == ["pin.recorded"]


async def test_pins_that_are_damaged_by_others_stay_as_they_are_known(tmp_path: Path) -> None:
    watched = Watched(tmp_path, command(tmp_path))
    await watched.trust.seen(known(tool("t")))
    assert await watched.trust.reread(anything)
    (tmp_path / "pins.json").write_text("{")
    assert not await watched.trust.reread(anything)
    assert watched.trust.state("a") == "recorded"
    await watched.trust.seen(known(tool("t", description="new")))
    differences = watched.trust.watched("a").verdict.differences  # type: ignore[union-attr] # it is configured
    assert not await watched.trust.decide("a", differences, approve=True)
    assert watched.trust.state("a") == "changed"


async def test_lists_of_single_principals_are_recorded_and_held_to_like_everybodys(tmp_path: Path) -> None:
    """S139, S142: the gateway's own connection need never list anything."""
    watched = Watched(tmp_path, command(tmp_path, catalog="principal"))
    trust, changed = watched.trust, tool("t", description="other")
    assert await trust.offered(known(tool("t")), "key:bot")
    assert watched.events() == ["pin.recorded"]
    assert not await trust.offered(known(tool("t")), "key:bot")
    # It is held back from whoever is listed it, and nobody else is shown anything else.
    assert not await trust.offered(known(changed), "key:eve")
    form = forms.item_of("tool:t", changed.digest)
    assert (watched.named(), trust.changed("a"), trust.state("a")) == ([form], [form], "changed")
    assert await trust.cleared(call("t", definition=tool("t"))) is None
    assert await trust.cleared(call("t", definition=changed)) is not None
    watched.settled = False
    assert await trust.cleared(call("t", definition=tool("t"))) is None
    offer = await trust.met(meeting(watched, None, "principal:key:bot", changed))
    assert offer is not None
    assert await trust.cleared(call("t", definition=tool("t")), offer) is not None
    state = trust.watched("a")
    assert state is not None
    [difference] = state.verdict.differences
    assert await trust.decide("a", [difference], approve=True)
    assert await trust.cleared(call("t", definition=tool("t")), offer) is None
    assert await trust.cleared(call("t", definition=changed), offer) is None
    assert trust.state("a") == "recorded"
    trust.forgotten("a", "key:eve")
    trust.forgotten("gone", "key:eve")
    assert state.seen.own == {}


async def test_own_lists_of_servers_that_are_not_watched_change_nothing(tmp_path: Path) -> None:
    watched = Watched(tmp_path, command(tmp_path, catalog="principal", pin={"mode": "off"}))
    assert not await watched.trust.offered(known(tool("t")), "key:bot")
    assert not await watched.trust.offered(listing("gone", tool("t")), "key:bot")
    assert watched.events() == []


async def test_a_first_sight_of_ones_own_that_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "gone", command(tmp_path, catalog="principal"))
    assert not await watched.trust.offered(known(tool("t")), "key:bot")
    assert watched.trust.state("a") == "unknown"
    (tmp_path / "gone").mkdir()
    await watched.trust.reread(anything)
    assert watched.trust.state("a") == "recorded"


async def test_a_form_that_another_replica_approved_may_be_shown_where_nobody_was_listed_it_yet(tmp_path: Path) -> None:
    one, two = (Watched(tmp_path, command(tmp_path, catalog="principal")) for _ in range(2))
    changed = tool("t", description="other")
    await one.trust.offered(known(tool("t")), "key:bot")
    await two.trust.reread(anything)
    await one.trust.offered(known(changed), "key:eve")
    watched = one.trust.watched("a")
    assert watched is not None
    assert await one.trust.decide("a", watched.verdict.differences, approve=True)
    two.changed.clear()
    await two.trust.reread(anything)
    assert two.changed == ["a"]
    assert hold(two.trust.verdicts(two.config(), {}), "a", changed) is None
    assert not await two.trust.offered(known(changed), "key:eve")
    assert two.trust.state("a") == "recorded"
