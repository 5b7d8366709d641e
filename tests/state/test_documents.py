"""What holds for documents wherever they are: whole, compared before they are replaced, and told of to others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.state.documents import ABSENT, MAX_DOCUMENT, Conflict, Document, Documents, Unreachable
from tests.kit.documents import Opener, folder_opener, postgres_opener
from tests.kit.postgres import binaries, running


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if binaries() is None:
        pytest.skip("no PostgreSQL")
    with running(tmp_path_factory.mktemp("postgres")) as (url, _):
        yield url


@pytest.fixture(scope="module", params=["directory", "postgres"])
def opener(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Opener:
    if request.param == "directory":
        return folder_opener(tmp_path_factory.mktemp("documents"))
    return postgres_opener(request.getfixturevalue("url"))


@pytest.fixture(scope="module")
def pair(opener: Opener) -> Iterator[tuple[Documents, Documents]]:
    """Two replicas' views of one place."""
    with ExitStack() as stack:
        one, two = opener(), opener()
        stack.callback(one.close)
        stack.callback(two.close)
        yield one, two


@pytest.fixture(autouse=True)
def empty(pair: tuple[Documents, Documents]) -> None:
    for name in pair[0].names(""):
        pair[0].replace(name, None, None)


def test_a_document_is_read_by_everybody_as_it_was_written(pair: tuple[Documents, Documents]) -> None:
    one, two = pair
    assert one.load("a.json") is None
    data = bytes(range(256)) * 1000
    version = one.replace("a.json", data, ABSENT)
    assert two.load("a.json") == Document(data, version)
    two.replace("a.json", b"", version)
    found = one.load("a.json")
    assert found is not None
    assert (found.data, found.version != version) == (b"", True)


def test_only_who_has_read_the_last_version_replaces_it(pair: tuple[Documents, Documents]) -> None:
    one, two = pair
    first = one.replace("a", b"1", ABSENT)
    for expected in (ABSENT, "another"):
        with pytest.raises(Conflict):
            two.replace("a", b"2", expected)
    second = two.replace("a", b"2", first)
    for data in (b"3", None):
        with pytest.raises(Conflict):
            one.replace("a", data, first)
    with pytest.raises(Conflict):
        one.replace("b", b"3", second)
    assert one.replace("a", None, second) == ABSENT
    assert two.load("a") is None
    with pytest.raises(Conflict):
        two.replace("a", b"4", second)


def test_who_expects_nothing_replaces_whatever_is_there(pair: tuple[Documents, Documents]) -> None:
    one, two = pair
    one.replace("a", b"1", None)
    two.replace("a", b"2", None)
    found = one.load("a")
    assert found is not None
    assert found.data == b"2"
    one.replace("a", None, None)
    one.replace("a", None, None)
    one.replace("a", None, ABSENT)
    assert two.load("a") is None


def test_names_are_found_by_how_they_begin(pair: tuple[Documents, Documents]) -> None:
    one, two = pair
    for name in ("x/b", "x/a", "y", "x_c", "xx/a"):
        one.replace(name, b"", None)
    assert two.names("x/") == ["x/a", "x/b"]
    assert two.names("") == sorted(["x/b", "x/a", "y", "x_c", "xx/a"])


def test_a_document_has_a_bound(pair: tuple[Documents, Documents]) -> None:
    class Long(bytes):
        def __len__(self) -> int:
            return MAX_DOCUMENT + 1

    with pytest.raises(OSError, match="too large"):
        pair[0].replace("a", Long(), ABSENT)
    assert pair[1].load("a") is None


async def test_what_others_change_is_told_within_a_second(pair: tuple[Documents, Documents]) -> None:
    one, two = pair
    changes = two.changes()
    try:
        for number in range(3):
            await asyncio.to_thread(one.replace, f"told-{number}", b"x", None)
            seen: set[str] = set()
            async with asyncio.timeout(5):
                while f"told-{number}" not in seen:
                    change = await anext(changes)
                    assert change.reachable
                    seen |= change.names
    finally:
        await changes.aclose()  # type: ignore[attr-defined] # it is a generator
    assert two.health().reachable


def test_many_at_once_lose_no_update(opener: Opener) -> None:
    """Everybody adds one line as often as they can; every line is there."""
    replicas = [opener() for _ in range(3)]
    try:
        replicas[0].replace("count", b"", None)

        def add(documents: Documents, who: int) -> None:
            for number in range(10):
                while True:
                    found = documents.load("count")
                    assert found is not None
                    try:
                        documents.replace("count", found.data + f"{who}.{number}\n".encode(), found.version)
                        break
                    except Conflict:
                        continue

        threads = [threading.Thread(target=add, args=(each, who)) for who, each in enumerate(replicas)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        found = replicas[0].load("count")
        assert found is not None
        lines = found.data.decode().split()
        assert len(lines) == len(set(lines)) == 30
    finally:
        for each in replicas:
            each.close()


@settings(max_examples=25)
@given(steps=st.lists(st.tuples(st.integers(0, 1), st.sampled_from(["read", "write", "remove"])), max_size=20))
def test_interleaved_histories_are_those_of_one_place(
    pair: tuple[Documents, Documents], steps: list[tuple[int, str]]
) -> None:
    """Against a model: a replacement succeeds if and only if nobody has replaced what its replica read last."""
    pair[0].replace("h", None, None)
    truth, generation = b"", 0
    known: list[tuple[str, int]] = [(ABSENT, 0), (ABSENT, 0)]
    for number, (who, what) in enumerate(steps):
        version, read_at = known[who]
        if what == "read":
            found = pair[who].load("h")
            assert (found.data if found is not None else b"") == truth
            known[who] = (found.version if found is not None else ABSENT, generation)
            continue
        data = f"{number}".encode() if what == "write" else None
        try:
            version = pair[who].replace("h", data, version)
        except Conflict:
            assert read_at != generation
        else:
            # Nothing in place of nothing is no change.
            assert read_at == generation or truth == b""
            truth, generation = data or b"", generation + (data is not None or truth != b"")
            known[who] = (version, generation)
    found = pair[0].load("h")
    assert (found.data if found is not None else b"") == truth


def test_unreachable_is_an_error_of_the_system_too() -> None:
    error = Unreachable(110, "does not answer")
    assert isinstance(error, OSError)
    assert error.strerror == "does not answer"
