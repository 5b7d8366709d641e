from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.config.reading import Reading
from gateway.config.sources import Sources, look, matches, remembered, stamp_of


def drawn(*paths: Path, pattern: Path | None = None) -> Sources:
    reading = Reading()
    for path in paths:
        reading.refer(("x",), path)
    if pattern is not None:
        reading.glob(str(pattern))
    return reading.sources()


def test_files_left_alone_look_as_they_were_read_present_or_not(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("a")
    sources = drawn(tmp_path / "there", tmp_path / "absent", tmp_path / "no" / "folder")
    assert look(sources).agrees(remembered(sources))


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text("other"),
        lambda path: path.unlink(),
        lambda path: path.with_suffix(".new").replace(path),
        lambda path: path.chmod(0o400),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["written", "removed", "replaced", "mode", "now a folder"],
)
def test_every_change_of_a_file_shows_without_reading_it(tmp_path: Path, change: object) -> None:
    path = tmp_path / "f"
    path.write_text("text")
    path.with_suffix(".new").write_text("text")
    sources = drawn(path)
    assert callable(change)
    change(path)
    assert not look(sources).agrees(remembered(sources))


def test_a_change_that_restores_size_and_time_shows_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    sources = drawn(path)
    status = path.stat()
    path.write_text("new")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not look(sources).agrees(remembered(sources))


def test_what_a_symlink_leads_to_is_what_counts(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text("same")
    (tmp_path / "data").symlink_to("one")
    (tmp_path / "f").symlink_to("data/f")
    sources = drawn(tmp_path / "f")
    (tmp_path / "data.new").symlink_to("two")
    (tmp_path / "data.new").replace(tmp_path / "data")
    assert not look(sources).agrees(remembered(sources))


def test_a_new_match_of_a_pattern_shows_and_is_followed_while_it_is_written(tmp_path: Path) -> None:
    sources = drawn(pattern=tmp_path / "*.yaml")
    (tmp_path / "new.yaml").write_text("a")
    first = look(sources)
    assert not first.agrees(remembered(sources))
    (tmp_path / "new.yaml").write_text("ab")
    assert look(sources) != first


def test_test_cases_are_no_policies(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yaml", "a.cases.yaml", "a.cases.yml", ".hidden.yaml"):
        (tmp_path / name).write_text("")
    assert matches(str(tmp_path / "*.y*ml")) == (str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"))


def test_a_name_that_is_none_has_no_stamp() -> None:
    assert stamp_of(Path("a\0b")) is None
