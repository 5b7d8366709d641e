"""Watching real files: every way they are written, nothing before they stand still, nothing where nothing changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.config import watch as watching
from gateway.config.reading import Reading
from gateway.config.sources import Look, Sources, look
from gateway.config.watch import Pace, Watch

QUICK = Pace(interval=0.01, settle=0.02, doubt=0.02, patience=0.05)


class Loads:
    """Stands for whoever loads: reads the files again when it is told to, and remembers what they were."""

    def __init__(self, *paths: Path, pattern: Path | None = None) -> None:
        self.paths, self.pattern = paths, pattern
        self.restless = 0
        self.again()
        self.watch = Watch(lambda: self.sources, self._moves, QUICK)

    def again(self) -> None:
        reading = Reading()
        for path in self.paths:
            reading.refer(("x",), path)
        if self.pattern is not None:
            for found in reading.glob(str(self.pattern)):
                reading.refer(("p", found), Path(found))
        self.sources: Sources = reading.sources()

    def _moves(self) -> None:
        self.restless += 1

    async def changed(self) -> None:
        async with asyncio.timeout(5):
            await self.watch.changed()


def over(path: Path) -> None:
    path.with_suffix(".new").write_text("new")
    path.with_suffix(".new").rename(path)


def truncated(path: Path) -> None:
    with path.open("r+") as file:
        file.truncate(0)
        file.write("new")


def swapped(path: Path) -> None:
    """As Kubernetes does: ``f -> ..data/f``, ``..data -> ..one``, and then ``..data -> ..two``, and ..one is gone."""
    two = path.parent / "..two"
    two.mkdir()
    (two / path.name).write_text("new")
    (path.parent / "..data_tmp").symlink_to("..two")
    (path.parent / "..data_tmp").rename(path.parent / "..data")
    (path.parent / "..one" / path.name).unlink()
    (path.parent / "..one").rmdir()


def recreated(path: Path) -> None:
    path.unlink()
    path.parent.rename(path.parent.with_name("gone"))
    path.parent.mkdir()
    path.write_text("new")


@pytest.mark.parametrize("change", [over, truncated, swapped, recreated, Path.unlink])
async def test_every_way_to_write_is_seen(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """S185."""
    path = tmp_path / "folder" / "f"
    (path.parent / "..one").mkdir(parents=True)
    (path.parent / "..one" / "f").write_text("old")
    (path.parent / "..data").symlink_to("..one")
    if change is swapped:
        path.symlink_to("..data/f")
    else:
        path.write_text("old")
    loads = Loads(path)
    change(path)
    await loads.changed()


async def test_what_was_not_there_is_waited_for(tmp_path: Path) -> None:
    loads = Loads(tmp_path / "later" / "secret", pattern=tmp_path / "policies" / "*.yaml")
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "secret").write_text("s")
    await loads.changed()
    loads.again()
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yaml").write_text("policies: []")
    await loads.changed()
    loads.again()
    (tmp_path / "policies" / "a.yaml").unlink()
    await loads.changed()


async def test_touching_and_writing_the_same_again_is_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    path.write_text("same")
    loads = Loads(path)
    judged = asyncio.Event()
    real, loop = watching._differ, asyncio.get_running_loop()

    def differ(sources: Sources, now: Look) -> bool:
        found = real(sources, now)
        loop.call_soon_threadsafe(judged.set)
        return found

    monkeypatch.setattr(watching, "_differ", differ)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        changed = group.create_task(loads.watch.changed())
        for again in (path.touch, lambda: path.write_text("same"), lambda: over_with(path, "same")):
            again()
            judged.clear()
            await judged.wait()
            assert not changed.done()
        # It is not judged again and again, and a change after that is still seen.
        path.write_text("other")
        await changed


def over_with(path: Path, text: str) -> None:
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)


async def test_a_file_in_the_middle_of_being_written_is_waited_for_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S185: in pieces, at each look another one."""
    path = tmp_path / "f"
    path.write_text("")
    loads = Loads(path)
    pieces = iter("abcdefgh")

    def slowly(sources: Sources) -> Look:
        if piece := next(pieces, ""):
            with path.open("a") as file:
                file.write(piece)
        return look(sources)

    monkeypatch.setattr(watching, "look", slowly)
    await loads.changed()
    assert path.read_text() == "abcdefgh"
    assert loads.restless == 1


async def test_a_new_policy_file_in_the_middle_of_being_written_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S185: no load has read it yet, and no half of it is read."""
    loads = Loads(pattern=tmp_path / "*.yaml")
    pieces = iter("abcd")

    def slowly(sources: Sources) -> Look:
        if piece := next(pieces, ""):
            with (tmp_path / "new.yaml").open("a") as file:
                file.write(piece)
        return look(sources)

    monkeypatch.setattr(watching, "look", slowly)
    await loads.changed()
    assert (tmp_path / "new.yaml").read_text() == "abcd"


async def test_after_a_load_a_moment_shows_whether_anything_moved_since(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("half")
    loads = Loads(path)
    async with asyncio.timeout(5):
        assert not await loads.watch.moved()
        path.write_text("whole")
        assert await loads.watch.moved()


async def test_files_that_cannot_be_read_are_compared_by_why(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.mkdir()
    loads = Loads(path)
    (path / "inside").write_text("changes the folder, which is still none that can be read")
    sources = loads.sources
    assert look(sources).stamps != {path: sources.files[path].stamp}
    assert not watching._differ(sources, look(sources))
    (path / "inside").unlink()
    path.rmdir()
    os.mkfifo(path)
    assert watching._differ(sources, look(sources))


def test_a_slow_file_system_is_looked_at_less_often() -> None:
    pace = Pace()
    assert (pace.after(0.001), pace.after(0.04), pace.after(2.0)) == (0.5, 2.0, 5.0)
