"""Reloads of a config on disk, asked for and noticed, without the gateway around them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway import reloading
from gateway.admin.operations import Act
from gateway.config.loader import load
from gateway.config.root import LoadedConfig
from gateway.config.sources import Sources
from gateway.config.watch import Pace, Watch
from gateway.errors import ConfigError, Problem
from gateway.protocol.rawjson import Value
from gateway.reloading import SIGNALLED, Reloading, Running, restless
from gateway.tasks import TaskSet
from gateway.telemetry.metrics import Metrics
from tests.kit.certificates import make

ALICE = Act("alice", "127.0.0.1")
QUICK = Pace(interval=0.01, settle=0.02, doubt=0.05, patience=1)


class Site:
    """A gateway that only remembers its config."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "gateway.yaml"
        self.write(in_flight=1)
        self.config = load(self.file, {})
        self.renewed: Collection[str] = ()
        self.events: list[tuple[str, dict[str, Value]]] = []
        self.metrics = Metrics()
        self.trouble: Exception | None = None
        self.reloading = Reloading(Running(lambda: self.config, self._recall, self._put), self._note, self.metrics)

    def write(self, **limits: object) -> None:
        self.file.write_text(json.dumps({"limits": limits}))

    @property
    def in_flight(self) -> int:
        return self.config.config.limits.in_flight

    async def _recall(self, loaded: LoadedConfig) -> None:
        assert loaded is not self.config
        if self.trouble is not None:
            raise self.trouble

    def _put(self, loaded: LoadedConfig, renewed: Collection[str]) -> None:
        self.config, self.renewed = loaded, renewed

    def _note(self, event: str, facts: dict[str, Value]) -> None:
        self.events.append((event, facts))

    def last(self) -> dict[str, Value]:
        found = self.reloading.status()["last_load"]
        assert isinstance(found, dict)
        return found

    def metric(self, line: str) -> bool:
        return line in self.metrics.render("")[0].decode()

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        def crashed(name: str, error: BaseException) -> None:
            raise AssertionError(name) from error

        tasks = TaskSet(crashed)
        tasks.start(self.reloading.follow(Watch(self.reloading.sources, restless, QUICK)), "watch")
        try:
            yield
        finally:
            await tasks.aclose()


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not done():
            await asyncio.sleep(0.01)


async def test_a_reload_says_who_wanted_it_and_what_it_led_to(tmp_path: Path) -> None:
    site = Site(tmp_path)
    heard: list[int] = []
    forget = site.reloading.afterwards(lambda: heard.append(site.in_flight))
    assert site.last()["cause"] == "start"
    site.write(in_flight=2)
    said = await site.reloading.reload(ALICE)
    assert (said["ok"], said["cause"], said["user"], said["needs_restart"]) == (True, "admin", "alice", [])
    forget()
    site.write(in_flight=3)
    await site.reloading.reload(SIGNALLED)
    assert heard == [2]
    assert [(event, facts["cause"], facts["user"]) for event, facts in site.events] == [
        ("config.loaded", "admin", "alice"),
        ("config.loaded", "signal", None),
    ]
    assert site.events[1][1]["config_sha256"] == site.config.digest
    assert site.metric('mcp_gateway_config_reloads_total{result="ok"} 2.0')


@pytest.mark.parametrize("text", ["", "limits: {", "limits: {in_flight: 0}", "nothing: {}", None])
async def test_a_bad_config_changes_nothing_and_is_told(tmp_path: Path, text: str | None) -> None:
    """S182: truncated, broken, wrong, unknown, removed."""
    site = Site(tmp_path)
    since = site.reloading.status()["in_force_since"]
    if text is None:
        site.file.unlink()
    else:
        site.file.write_text(text)
    with pytest.raises(ConfigError):
        await site.reloading.reload(ALICE)
    assert (site.in_flight, site.reloading.good) == (1, False)
    assert site.last()["problems"]
    assert site.reloading.status()["in_force_since"] == since
    assert site.events == [("config.reload_failed", {"problems": 1, "cause": "admin", "user": "alice"})]
    assert site.metric("mcp_gateway_config_reload_success 0.0")
    site.write(in_flight=2)
    await site.reloading.reload(ALICE)
    assert (site.in_flight, site.reloading.good) == (2, True)
    assert site.metric("mcp_gateway_config_reload_success 1.0")


async def test_what_has_to_be_made_for_a_config_is_made_before_anything_changes(tmp_path: Path) -> None:
    site = Site(tmp_path)
    done: list[str] = []

    def first(wanted: LoadedConfig) -> Callable[[], None]:
        done.append(f"made for {wanted.config.limits.in_flight}")
        return lambda: done.append(f"in force with {site.in_flight}")

    def second(wanted: LoadedConfig) -> Callable[[], None]:
        if wanted.config.limits.in_flight == 2:
            raise ConfigError([Problem("no certificate")])
        return lambda: None

    site.reloading.prepares(first)
    site.reloading.prepares(second)
    site.write(in_flight=2)
    with pytest.raises(ConfigError, match="no certificate"):
        await site.reloading.reload(ALICE)
    assert (site.in_flight, done) == (1, ["made for 2"])
    site.write(in_flight=3)
    await site.reloading.reload(ALICE)
    assert done[1:] == ["made for 3", "in force with 3"]


async def test_a_changed_file_is_put_in_force_by_itself_once(tmp_path: Path) -> None:
    site = Site(tmp_path)
    async with site.followed():
        site.write(in_flight=2)
        await until(lambda: site.in_flight == 2)
        site.file.touch()
        site.write(in_flight=2)
        site.write(in_flight=3)
        await until(lambda: site.in_flight == 3)
        assert site.reloading.status()["watched"] is True
    assert [facts["cause"] for _, facts in site.events] == ["watch", "watch"]
    assert site.reloading.status()["watched"] is False


async def test_what_was_reloaded_on_request_is_not_reloaded_again(tmp_path: Path) -> None:
    site = Site(tmp_path)
    async with site.followed():
        site.write(in_flight=2)
        await site.reloading.reload(ALICE)
        site.write(in_flight=3)
        await until(lambda: site.in_flight == 3)
    assert [facts["cause"] for _, facts in site.events] == ["admin", "watch"]


async def test_a_change_before_anybody_watched_is_seen(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.write(in_flight=2)
    async with site.followed():
        await until(lambda: site.in_flight == 2)


async def test_a_file_that_is_wrong_only_until_it_is_written_to_the_end_is_never_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S185: a writer that pauses for longer than files have to stand still."""
    site = Site(tmp_path)
    real = Watch.moved

    async def moved(watch: Watch) -> bool:
        site.write(in_flight=2)
        return await real(watch)

    monkeypatch.setattr(Watch, "moved", moved)
    async with site.followed():
        site.file.write_text('{"limits": {"in_fl')
        await until(lambda: site.in_flight == 2)
    assert [event for event, _ in site.events] == ["config.loaded"]


async def test_a_file_that_stays_wrong_is_told_once_and_one_that_keeps_changing_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    async with site.followed():
        site.file.write_text("{")
        await until(lambda: bool(site.events))
        site.file.touch()
        site.write(in_flight=2)
        await until(lambda: site.in_flight == 2)
        asked: list[int] = []

        async def moved(_watch: Watch) -> bool:
            asked.append(1)
            return True

        monkeypatch.setattr(Watch, "moved", moved)
        site.file.write_text("{{")
        await until(lambda: len(site.events) > 2)
    assert [event for event, _ in site.events] == ["config.reload_failed", "config.loaded", "config.reload_failed"]
    assert len(asked) == 4


async def test_a_secret_in_a_file_is_a_source_like_any_other(tmp_path: Path) -> None:
    site = Site(tmp_path)
    (tmp_path / "number").write_text("4\n")
    async with site.followed():
        site.file.write_text('limits: {requests: "${file:number}/minute"}')
        await until(lambda: bool(site.events))
        (tmp_path / "number").write_text("5\n")
        await until(lambda: len(site.events) > 1)
    assert str(site.config.config.limits.requests).startswith("5/")


async def test_files_that_are_gone_for_a_moment_do_no_harm(tmp_path: Path) -> None:
    site = Site(tmp_path)
    async with site.followed():
        site.file.unlink()
        await until(lambda: not site.reloading.good)
        site.write(in_flight=1)
        await until(lambda: site.reloading.good)
    assert [event for event, _ in site.events] == ["config.reload_failed", "config.loaded"]
    assert isinstance(site.reloading.sources(), Sources)


async def test_what_breaks_a_reload_refuses_it_and_the_watch_goes_on(tmp_path: Path) -> None:
    site = Site(tmp_path)
    told = f"{site.file}: could not be reloaded: OSError"
    async with site.followed():
        site.trouble = OSError("/secret/place is full")
        site.write(in_flight=2)
        await until(lambda: not site.reloading.good)
        assert site.last()["problems"] == [told]
        assert site.metric("mcp_gateway_config_reload_success 0.0")
        assert site.reloading.status()["watched"] is True
        with pytest.raises(ConfigError, match="could not be reloaded: OSError"):
            await site.reloading.reload(ALICE)
        site.trouble = None
        site.write(in_flight=3)
        await until(lambda: site.in_flight == 3)
    assert [event for event, _ in site.events] == ["config.reload_failed", "config.reload_failed", "config.loaded"]
    assert site.metric("mcp_gateway_config_reload_success 1.0")


async def test_what_breaks_the_watch_itself_is_told_and_it_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path)
    monkeypatch.setattr(reloading, "_AGAIN", 0.01)
    real, broken = Watch.changed, [PermissionError("x"), ValueError("y")]

    async def changed(watch: Watch) -> None:
        if broken:
            raise broken.pop()
        await real(watch)

    async def moved(_watch: Watch) -> bool:
        raise OSError("z")

    monkeypatch.setattr(Watch, "changed", changed)
    monkeypatch.setattr(Watch, "moved", moved)
    async with site.followed():
        site.file.write_text("{")
        await until(lambda: not site.reloading.good)
        site.write(in_flight=2)
        await until(lambda: site.in_flight == 2)
    assert [event for event, _ in site.events] == ["config.reload_failed", "config.loaded"]
    said = capsys.readouterr().err
    assert (said.count("config_watch_failed"), "PermissionError" in said, "ValueError" in said) == (2, True, True)


async def test_a_listener_that_fails_ends_no_watch(tmp_path: Path) -> None:
    site, asked = Site(tmp_path), list[int]()
    forget = site.reloading.afterwards(lambda: asked.append(1 // int("0")))
    async with site.followed():
        site.write(in_flight=2)
        await until(lambda: not site.reloading.good)
        forget()
        site.write(in_flight=3)
        await until(lambda: site.in_flight == 3 and site.reloading.good)


async def test_a_certificate_that_is_still_served_is_watched_after_the_config_names_another(tmp_path: Path) -> None:
    """The other one is for after a restart; until then the old one may be renewed, more than once."""
    site = Site(tmp_path)
    paths = {name: (tmp_path / f"{name}.pem", tmp_path / f"{name}-key.pem") for name in ("old", "new")}
    for name, (cert, key) in paths.items():
        make(name).write(cert)
        make(name).write_key(key)

    def served(name: str) -> str:
        return json.dumps({"listen": {"tls": {"cert": str(paths[name][0]), "key": str(paths[name][1])}}})

    site.file.write_text(served("old"))
    site.config = load(site.file, {})
    renewals: list[str] = []

    def prepare(wanted: LoadedConfig) -> Callable[[], None]:
        tls = wanted.config.listen.tls
        return lambda: renewals.append(Path(tls.cert).name if tls else "")

    site.reloading.prepares(prepare)
    async with site.followed():
        site.file.write_text(served("new"))
        await until(lambda: renewals == ["old.pem"])
        assert site.last()["needs_restart"] == ["listen.tls"]
        for count in (2, 3):
            make("old").write(paths["old"][0])
            await until(lambda count=count: len(renewals) == count)  # type: ignore[misc]  # reason: a default binds it.
        # It was read anew: nothing differs any more.
        seen = site.reloading.sources()
        assert seen.referred[("listen", "tls", "cert")] == paths["old"][0]
        assert paths["new"][0] in seen.files
        await asyncio.sleep(0.1)
    assert renewals == ["old.pem"] * 3
