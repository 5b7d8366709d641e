"""What a gateway keeps of arguments and results, as its policies say; where it sends records; how a key follows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import wire
from tests.kit.field import scripted
from tests.kit.gateway import Gateway, Json, eventually, serving
from tests.kit.hook import Hook, until

KEYS = {name: name[0] * 40 for name in ("redacting", "sealing", "judged", "plain", "mixed")}
SECRET = "hunter2-canary"


def config(**audit: object) -> Json:
    def policy(name: str, payload: str, **more: object) -> Json:
        return {"name": name, "clients": [name], "allow": ["a/*"], "audit": {"payload": payload}, **more}

    when = {"tools": "a/echo", "when": "args.word != 'no' && (!has(args.n) || args.n < 2.5)"}
    return {
        "servers": {"a": scripted()},
        "clients": {name: {"key": key} for name, key in KEYS.items()},
        "policies": [
            {**policy("redacting", "redacted"), "audit": {"payload": "redacted", "redact": ["/card/number"]}},
            policy("sealing", "full"),
            policy("judged", "conditions", allow=[when]),
            {"name": "plain", "clients": ["plain", "mixed"], "allow": ["a/*"]},
            {**policy("more", "full"), "clients": ["mixed"]},
            {**policy("less", "shape"), "clients": ["mixed"]},
        ],
        "audit": audit,
    }


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(tmp_path_factory.mktemp("payloads") / "gateway", config()) as running:
        running.await_servers("a")
        yield running


async def call(gateway: Gateway, client: str, arguments: Json) -> tuple[Json, Json]:
    """Call echo as a client; returns the payload blocks of the start and the end of its call."""
    async with wire.http_client(gateway.url, "modern", KEYS[client]) as caller:
        await wire.call(caller, "a__echo", arguments)
    found = [each for each in gateway.records() if each.get("principal", {}).get("id") == f"key:{client}"]
    return found[-2]["payload"], found[-1]["payload"]


async def test_redacted_keeps_everything_but_secrets(gateway: Gateway) -> None:
    """S148, S168."""
    arguments = {"word": "hello", "password": SECRET, "card": {"number": "4111", "name": "A"}}
    start, end = await call(gateway, "redacting", arguments)
    assert json.loads(start["args"]) == {
        "word": "hello",
        "password": f"[R:{len(SECRET)}]",
        "card": {"number": "[R:4]", "name": "A"},
    }
    assert "hello" in end["result"]
    assert start["args_hmac"] == end["args_hmac"]


async def test_conditions_keeps_what_rules_read(gateway: Gateway) -> None:
    start, end = await call(gateway, "judged", {"word": "hello", "n": 1.5, "other": SECRET})
    assert start["args"] == '{"n":1.5,"word":"hello"}'
    assert "args_missing" not in start
    assert "result" not in end


async def test_full_stands_encrypted_beside_the_chain_until_it_is_erased(gateway: Gateway) -> None:
    """S169."""
    start, end = await call(gateway, "sealing", {"word": SECRET})
    assert start["args_sidecar"] == end["args_sidecar"]
    call_id = next(each["call_id"] for each in gateway.records() if each.get("payload") == end)
    shown = gateway.cli("audit", "show", call_id, "--json")
    first, last = (json.loads(line) for line in shown.stdout.splitlines())
    assert first["args"] == {"word": SECRET}
    assert SECRET in json.dumps(last["result"])
    everything = b"".join(path.read_bytes() for path in gateway.audit.rglob("*") if path.is_file())
    assert SECRET.encode() not in everything

    assert gateway.cli("audit", "erase", "key:sealing").returncode == 0
    assert "payload absent" in gateway.cli("audit", "show", call_id).stdout
    assert gateway.cli("audit", "verify").returncode == 0


async def test_the_default_and_the_least_revealing_keep_no_value(gateway: Gateway) -> None:
    start, _ = await call(gateway, "plain", {"word": SECRET})
    assert start["mode"] == "shape+hmac"
    start, end = await call(gateway, "mixed", {"word": SECRET})
    assert (start["mode"], "args_hmac" in start, "result_hmac" in end) == ("shape", False, False)
    assert SECRET not in gateway.cli("audit", "query", "--json").stdout


async def test_what_commands_did_is_in_the_log(gateway: Gateway) -> None:
    """S172."""
    await asyncio.to_thread(gateway.cli, "audit", "export", "--format", "cef")

    def noted() -> bool:
        return {"audit.verified", "admin.audit_export"} <= {each["event"] for each in gateway.records()}

    await asyncio.to_thread(eventually, noted, "the notes of the commands")


async def test_a_sink_gets_everything_over_a_restart_and_a_new_key(tmp_path: Path) -> None:
    """Also: an anchor that was kept elsewhere is in the log, and a log cut behind it is told."""
    async with Hook.listening() as hook:
        settings: dict[str, Any] = config(sinks=[hook.url])
        (tmp_path / "gateway").mkdir()
        gateway = await asyncio.to_thread(Gateway, tmp_path / "gateway", settings)
        await asyncio.to_thread(gateway.start)
        try:
            await asyncio.to_thread(gateway.await_servers, "a")
            await call(gateway, "plain", {"word": "one"})
            await until(lambda: "call.end" in hook.events())
            await asyncio.to_thread(gateway.stop)
            rotated = await asyncio.to_thread(gateway.cli, "audit", "rotate-key")
            await asyncio.to_thread(gateway.start)
            await asyncio.to_thread(gateway.await_servers, "a")
            await call(gateway, "plain", {"word": "two"})
            await until(lambda: hook.events().count("call.end") == 2)
        finally:
            await asyncio.to_thread(gateway.stop)
        sent = hook.records()
    seqs = [record["seq"] for record in sent]
    assert sorted({int(str(seq)) for seq in seqs}) == list(range(1, len(gateway.records()) + 1))

    kept = tmp_path / "kept.jsonl"
    kept.write_text("".join(json.dumps(record) + "\n" for record in sent))
    verified = await asyncio.to_thread(gateway.cli, "audit", "verify", "--anchor", kept)
    assert verified.returncode == 0, verified.stdout
    assert rotated.stdout.split()[1] in verified.stdout
    last = sorted(gateway.audit.glob("*.jsonl"))[-1]
    last.write_bytes(b"".join(last.read_bytes().splitlines(keepends=True)[:-2]))
    (gateway.audit / "checkpoint.json").unlink()
    cut = await asyncio.to_thread(gateway.cli, "audit", "verify", "--anchor", kept)
    assert cut.returncode == 1
    assert "missing at the end" in cut.stdout
