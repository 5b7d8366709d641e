"""The audit log of a gateway that was killed under load: whole, complete, and proof against one flipped byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from tests.kit import wire
from tests.kit.gateway import Gateway, serving
from tests.kit.peers import notes

CALLERS, CALLS = 8, 200


async def _load(gateway: Gateway, file: Path) -> None:
    """Call from several clients, kill the gateway once the server saw a hundred, and see every call end."""

    async def caller(number: int) -> None:
        async with wire.http_client(gateway.url, "modern") as client:
            for count in range(CALLS):
                name = f"c{number}-{count}"
                arguments = {"title": name, "text": "written under load"}
                body = {"name": "notes__add_note", "arguments": arguments}
                await client.request("tools/call", body, request_id=name)

    async def killer() -> None:
        async with asyncio.timeout(20):
            while not file.exists() or len(json.loads(file.read_text())) < 100:
                await asyncio.sleep(0.01)
        gateway.kill()

    async def until_killed(number: int) -> None:
        with suppress(aiohttp.ClientError):
            await caller(number)

    await asyncio.gather(killer(), *(until_killed(number) for number in range(CALLERS)))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, set[str]]]:
    """A gateway that was killed under load, and the calls its server saw."""
    folder = tmp_path_factory.mktemp("audit")
    with serving(folder / "gateway", {"servers": {"notes": notes(folder, "notes").config}}) as gateway:
        gateway.await_servers("notes")
        file = folder / "notes.json"
        asyncio.run(_load(gateway, file))
        seen = {note["title"] for note in json.loads(file.read_text()) if note["text"] == "written under load"}
        yield gateway, seen


def test_the_log_of_a_killed_gateway_verifies(killed: tuple[Gateway, set[str]]) -> None:
    gateway, _ = killed
    verified = gateway.cli("audit", "verify", gateway.audit)

    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "OK" in verified.stdout


def test_every_call_that_a_server_saw_has_a_start_record(killed: tuple[Gateway, set[str]]) -> None:
    """S158: nothing is dispatched before its record is durable."""
    gateway, seen = killed
    started = {record["mcp"]["rpc_id"].strip('"') for record in gateway.records() if record["event"] == "call.start"}

    assert len(seen) >= 90
    assert seen <= started


def test_the_numbers_have_no_gap(killed: tuple[Gateway, set[str]]) -> None:
    gateway, _ = killed
    numbers = [record["seq"] for record in gateway.records()]

    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_the_next_start_names_the_calls_that_were_cut_off_and_the_log_goes_on(
    killed: tuple[Gateway, set[str]], tmp_path: Path
) -> None:
    gateway, _ = killed
    gateway.start()
    try:
        gateway.await_servers("notes")
        ends = {record["call_id"] for record in gateway.records() if record["event"] in ("call.end", "call.orphaned")}
        starts = {record["call_id"] for record in gateway.records() if record["event"] == "call.start"}
        assert starts == ends
    finally:
        gateway.stop()
    assert gateway.cli("audit", "verify", gateway.audit).returncode == 0


def test_one_flipped_byte_is_found_and_named(killed: tuple[Gateway, set[str]], tmp_path: Path) -> None:
    gateway, _ = killed
    copy = tmp_path / "audit"
    copy.mkdir()
    for file in gateway.audit.iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    segment = sorted(copy.glob("*.jsonl"))[0]
    lines = segment.read_bytes().split(b"\n")
    at = next(number for number, line in enumerate(lines) if b'"call.start"' in line and number > 20)
    record = json.loads(lines[at])
    lines[at] = lines[at].replace(b"call.start", b"call.stars", 1)
    segment.write_bytes(b"\n".join(lines))

    verified = gateway.cli("audit", "verify", copy)

    assert verified.returncode == 1
    assert "FAIL" in verified.stdout
    assert segment.stem in verified.stdout
    assert str(at + 1) in verified.stdout
    assert str(record["seq"]) in verified.stdout
