"""Records are found from the end backwards, a page at a time, and never with more work than a page may cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.audit.chain import MAX_RECORD
from gateway.audit.pages import Found, Place, Reach, search
from gateway.audit.query import Wanted
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object


def line(number: int, **facts: object) -> bytes:
    made = {
        "seq": number,
        "ts": f"2026-08-23T10:{number // 60:02}:{number % 60:02}.000000Z",
        "event": "call.end",
        **facts,
    }
    return rawjson.encode(made) + b"\n"


def written(folder: Path, *segments: list[int], server: str = "a") -> Path:
    """Write segments with records of these numbers; each tenth one is of another server."""
    for index, numbers in enumerate(segments):
        text = b"".join(line(number, server="b" if number % 10 == 0 else server) for number in numbers)
        (folder / f"{index + 1:08d}.jsonl").write_bytes(text)
    return folder


def numbers(found: Found) -> list[object]:
    return [record["seq"] for record in found.records]


def walked(folder: Path, wanted: Wanted, reach: Reach) -> list[object]:
    """Follow every search with the next one, to the end of the log."""
    seen: list[object] = []
    place: Place | None = None
    for _ in range(2000):
        found = search(folder, wanted, place, reach)
        seen += numbers(found)
        place = found.next
        if place is None:
            return seen
    raise AssertionError("no end")


def test_the_newest_come_first_over_all_segments(tmp_path: Path) -> None:
    folder = written(tmp_path, [1, 2, 3], [4, 5], [6])
    found = search(folder, Wanted())
    assert numbers(found) == [6, 5, 4, 3, 2, 1]
    assert found.next is None
    assert found.looked == sum(path.stat().st_size for path in folder.glob("*.jsonl"))


@pytest.mark.parametrize("block", [1, 7, 100, 101, 1000, 2**20])
@pytest.mark.parametrize("size", [1, 150, 2**20])
@pytest.mark.parametrize("wanted", [Wanted(), Wanted(server="b"), Wanted(event="nothing.*")])
def test_pages_together_are_the_whole_log_each_record_once(
    tmp_path: Path, block: int, size: int, wanted: Wanted
) -> None:
    folder = written(tmp_path, list(range(1, 40)), list(range(40, 60)))
    expected = [number for number in range(59, 0, -1) if not wanted.server or number % 10 == 0]
    reach = Reach(records=4, size=size, block=block)
    assert walked(folder, wanted, reach) == ([] if wanted.event else expected)


def test_a_search_ends_when_its_time_is_over_and_says_how_far_it_came(tmp_path: Path) -> None:
    folder = written(tmp_path, list(range(1, 50)))
    ticks = iter(range(1000))
    found = search(folder, Wanted(server="none"), None, Reach(seconds=2, block=200), lambda: float(next(ticks)))
    assert found.records == ()
    assert found.next is not None
    assert "2026-08-23T10:00:40" < found.back_to <= "2026-08-23T10:00:49"


def test_times_end_a_search_early(tmp_path: Path) -> None:
    folder = written(tmp_path, list(range(1, 30)), list(range(30, 60)))
    wanted = Wanted(since="2026-08-23T10:00:40", until="2026-08-23T10:00:43")
    found = search(folder, wanted, None, Reach(block=200))
    assert numbers(found) == [42, 41, 40]
    assert found.next is None
    assert found.looked < sum(path.stat().st_size for path in folder.glob("*.jsonl")) * 0.6


def test_what_is_no_record_is_passed_over(tmp_path: Path) -> None:
    text = b"\x00\xff\n" + line(1) + b"[1]\n\n" + b"y" * (MAX_RECORD * 3) + b"\n" + line(2) + b'{"seq":3,"unfinis'
    (tmp_path / "00000001.jsonl").write_bytes(text)
    for block in (50, 4096, 2**20):
        assert walked(tmp_path, Wanted(), Reach(block=block)) == [2, 1]


def test_a_log_that_is_gone_cannot_be_searched_and_an_empty_one_can(tmp_path: Path) -> None:
    assert search(tmp_path, Wanted()) == Found((), None)
    with pytest.raises(OSError, match="No such file"):
        search(tmp_path / "none", Wanted())


def test_a_place_survives_a_link_and_nothing_else_is_one(tmp_path: Path) -> None:
    assert Place.read(str(Place(3, 77))) == Place(3, 77)
    assert [Place.read(text) for text in ("", "3", "3-", "-7", "a-b", "3-7-1", "9" * 9 + "-1", "٣-٧")] == [None] * 8
    folder = written(tmp_path, [1, 2])
    beyond: Object = {"seq": 2}
    assert search(folder, Wanted(), Place(1, 10**12)).records[0]["seq"] == beyond["seq"]
    assert numbers(search(folder, Wanted(), Place(9, 0))) == [2, 1]
