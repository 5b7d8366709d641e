from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.config import reading
from gateway.config.reading import Content, FileProblem, Reading, exposure


def test_a_file_is_read_whole_with_its_mode_and_owner(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    path.chmod(0o640)
    content = Reading().read(path, 3)
    assert (content.data, content.mode, content.owner) == (b"abc", 0o640, os.geteuid())


def test_a_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a" * 2049)
    with pytest.raises(FileProblem, match="is longer than 2 KiB"):
        Reading().read(path, 2048)


@pytest.mark.parametrize("name", ["missing", "missing/deeper", "a\0b", "n" * 300])
def test_what_cannot_be_opened_says_why(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileProblem, match=r"does not exist|NUL character|too long"):
        Reading().read(tmp_path / name, 1)


def test_a_pipe_without_a_writer_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileProblem, match="is not a regular file"):
        Reading().read(tmp_path / "pipe", 1)


def test_refusals_leave_no_descriptor_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for _ in range(20):
        with pytest.raises(FileProblem, match="is a directory"):
            Reading().read(tmp_path, 1)
    after = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    assert after == before


def test_one_load_reads_a_bounded_number_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_FILES", 2)
    one = Reading()
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"")
    one.read(tmp_path / "a", 1)
    one.read(tmp_path / "b", 1)
    one.read(tmp_path / "a", 1)
    with pytest.raises(FileProblem, match="one file too many"):
        one.read(tmp_path / "c", 1)


def test_the_ways_editors_write_are_noticed(tmp_path: Path) -> None:
    """S185: rename over, truncate and write, a swapped symlink, removal."""

    def over(path: Path) -> None:
        (tmp_path / "new").write_bytes(b"new")
        (tmp_path / "new").rename(path)

    def truncate(path: Path) -> None:
        path.write_bytes(b"")

    def swap(path: Path) -> None:
        (tmp_path / "data2").write_bytes(b"old")
        (tmp_path / "link.new").symlink_to(tmp_path / "data2")
        (tmp_path / "link.new").rename(tmp_path / "link")

    for change, name in ((over, "plain"), (truncate, "plain"), (swap, "link"), (Path.unlink, "plain")):
        (tmp_path / "plain").write_bytes(b"old")
        (tmp_path / "data1").write_bytes(b"old")
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(tmp_path / "data1")
        one = Reading()
        one.read(tmp_path / name, 100)
        assert one.unchanged()
        change(tmp_path / name)
        assert not one.unchanged()


@pytest.mark.parametrize(
    ("mode", "owner", "said"),
    [
        (0o600, 1000, ""),
        (0o400, 0, ""),
        (0o644, 1000, "may be read by everybody"),
        (0o604, 0, "may be read by everybody"),
        (0o640, 1000, "may be read by its group"),
        (0o440, 0, ""),
    ],
    ids=["own", "read only", "all", "others", "own group", "group of a mounted secret"],
)
def test_who_else_may_read_a_secret(mode: int, owner: int, said: str) -> None:
    """S150, with the one form in which Kubernetes mounts secrets for a user that is not root."""
    assert exposure(Content(b"", mode, owner), 1000) == said
