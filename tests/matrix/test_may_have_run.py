"""What a caller is told, and what the log says, of a call that was sent and did not end well: whether it may have run.

Every way in which a server can leave a call without a result, in both eras and over both transports; each server counts
what it was sent, so that the table also shows that nothing is sent twice (S127).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.kit import wire
from tests.kit.field import scripted
from tests.kit.gateway import Gateway, Json, eventually, serving
from tests.kit.http_server import Exchange, McpServer
from tests.kit.http_server import serving as serving_http
from tests.kit.wire import EraName, HttpClient

ERAS: Final[tuple[EraName, ...]] = ("modern", "legacy")
KEY: Final = "k" * 40


@dataclass
class Unruly(McpServer):
    """Answers a call as its argument ``how`` says; ``heard`` are the calls that arrived."""

    heard: list[str] = field(default_factory=list)

    async def _call(self, exchange: Exchange, params: Json) -> None:
        how = str(params["arguments"].get("how", ""))
        self.heard.append(how)
        if how.isdecimal():
            await exchange.answer(int(how), b"", head={"Location": "/elsewhere"})
        elif how == "reset":
            exchange.writer.transport.abort()
        elif how == "cut":
            await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
            exchange.close()
        elif how == "stream-ends":
            await exchange.start_stream()
            await exchange.end_stream()
        elif how == "html":
            await exchange.answer(200, b"<html>", "text/html")
        elif how == "no-json":
            await exchange.answer(200, b"{", "application/json")
        elif how == "large":
            await exchange.result({"content": [{"type": "text", "text": "x" * 70_000}]})
        elif how == "silent":
            await exchange.until_gone()
            exchange.close()
        elif how.startswith("error"):
            await exchange.error(int(how.removeprefix("error")), "no")
        else:
            await super()._call(exchange, params)


@dataclass(frozen=True, slots=True)
class Row:
    """What a server does, and what is said of it: ``reason`` is "" where the server's own error is passed on."""

    how: str
    reason: str
    may_have_run: bool


HTTP: Final = (
    Row("reset", "unavailable", True),
    Row("cut", "unavailable", True),
    Row("stream-ends", "unavailable", True),
    Row("html", "protocol_error", True),
    Row("no-json", "protocol_error", True),
    Row("large", "too_large", True),
    Row("silent", "timeout", True),
    Row("301", "protocol_error", False),
    Row("302", "protocol_error", False),
    Row("303", "protocol_error", True),
    Row("401", "unavailable", False),
    Row("403", "unavailable", False),
    Row("418", "protocol_error", False),
    Row("429", "unavailable", False),
    Row("500", "unavailable", True),
    Row("502", "unavailable", True),
    Row("503", "unavailable", True),
    Row("error-32000", "", True),
    Row("error-32603", "", True),
    Row("error-32602", "", False),
)
STDIO: Final = {
    "exits": (("exit-on-call=7",), "unavailable", True),
    "silent": (("silent-on-call",), "timeout", True),
    "floods": (("flood",), "too_large", True),
    "deaf": (("wrongid",), "timeout", True),
}
TIMES: Final = {"call": "1s", "max": "2s"}


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[tuple[Gateway, dict[EraName, Unruly]]]:
    """Run a gateway before all of them."""
    unruly = {era: Unruly(era) for era in ERAS}
    config: Json = {"clients": {"bot": {"key": KEY}}, "policies": [{"name": "all", "clients": ["*"], "allow": ["*/*"]}]}
    async with serving_http(unruly["modern"].script) as modern, serving_http(unruly["legacy"].script) as legacy:
        more = {"timeouts": TIMES, "max_result": "64KiB"}
        servers: Json = {f"http-{era}": {"url": it.url, **more} for era, it in zip(ERAS, (modern, legacy), strict=True)}
        for name, (modes, _, _) in STDIO.items():
            for era in ERAS:
                ledger = f"ledger={folder / f'{name}-{era}'}"
                servers[f"{name}-{era}"] = {**scripted(*modes, ledger, "--era", era), **more}
        context = serving(folder / "gateway", config | {"servers": servers})
        gateway = await asyncio.to_thread(context.__enter__)
        try:
            await asyncio.to_thread(gateway.await_servers, *servers)
            yield gateway, unruly
        finally:
            await asyncio.to_thread(context.__exit__, None, None, None)


async def judged(client: HttpClient, gateway: Gateway, tool: str, row: Row) -> None:
    """Make a call that does not end well, and compare what its caller and its record say."""
    before = len(_ends(gateway))
    answer = await wire.call(client, tool, {"how": row.how})
    if row.reason:
        assert (answer.refusal["reason"], answer.refusal["mayHaveRun"]) == (row.reason, row.may_have_run), row
        text = answer.result["content"][0]["text"]
        assert ("may have run" in text) is row.may_have_run, text
        assert ("did not run" in text) is not row.may_have_run, text
    else:
        assert answer.error["message"] == "no"
    await asyncio.to_thread(eventually, lambda: len(_ends(gateway)) > before, "its end is written")
    end = _ends(gateway)[-1]
    assert (end["outcome"]["may_have_run"], end["outcome"]["dur_us"] > 0) == (row.may_have_run, True), (row, end)


def _ends(gateway: Gateway) -> list[Json]:
    return [record for record in gateway.records() if record["event"] == "call.end"]


@pytest.mark.timeout(150)
async def test_whoever_calls_learns_whether_the_call_may_have_run_and_so_does_the_log(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, unruly):
        for era in ERAS:
            async with wire.http_client(gateway.url, era, KEY) as client:
                unruly[era].heard.clear()
                for row in HTTP:
                    await judged(client, gateway, f"http-{era}__echo", row)
                    # What works in between keeps the gateway from leaving the server alone for a while.
                    assert "isError" not in (await wire.call(client, f"http-{era}__echo")).result, row
                assert [how for how in unruly[era].heard if how] == [row.how for row in HTTP], "each was sent once"
                await asyncio.gather(*(_on_a_pipe(client, gateway, tmp_path, name, era) for name in STDIO))


async def _on_a_pipe(client: HttpClient, gateway: Gateway, folder: Path, name: str, era: EraName) -> None:
    _, reason, may_have_run = STDIO[name]
    refusal = (await wire.call(client, f"{name}-{era}__echo", {"how": name})).refusal
    assert (refusal["reason"], refusal["mayHaveRun"]) == (reason, may_have_run), name
    assert (folder / f"{name}-{era}").read_text().splitlines() == [json.dumps({"how": name})], "it was sent once"


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_may_run_twice_is_sent_twice_and_both_are_told_of(tmp_path: Path, era: EraName) -> None:
    """S127: only where the config says so of this tool."""
    ledger = tmp_path / "ledger"
    server = scripted("exit-on-call=7", f"ledger={ledger}", "--era", era)
    config = {"servers": {"a": {**server, "idempotent": ["echo"]}}}
    context = serving(tmp_path / "gateway", config)
    gateway = await asyncio.to_thread(context.__enter__)
    try:
        await asyncio.to_thread(gateway.await_servers, "a")
        async with wire.http_client(gateway.url, era) as client:
            refusal = (await wire.call(client, "a__whoami")).refusal
            assert (refusal["reason"], refusal["mayHaveRun"]) == ("unavailable", True)
            assert len(ledger.read_text().splitlines()) == 1
            await asyncio.to_thread(gateway.await_servers, "a")
            refusal = (await wire.call(client, "a__echo")).refusal
            assert (refusal["reason"], refusal["mayHaveRun"]) == ("unavailable", True)
            assert len(ledger.read_text().splitlines()) == 3
    finally:
        await asyncio.to_thread(context.__exit__, None, None, None)
