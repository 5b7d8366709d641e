"""Policies over the life of a gateway: a call that comes again, a reload, and what others would have decided."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.kit import wire
from tests.kit.field import field, lines, serving_beside
from tests.kit.gateway import COMMAND, Json
from tests.kit.wire import EraName

KEY, GUEST = "k" * 40, "g" * 40
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("order", "look")]


def config(folder: Path, era: EraName, *policies: Json) -> Json:
    (folder / "tools.json").write_text(json.dumps(TOOLS))
    options = ("--era", era, "--log", str(folder / "log"), "--tools", str(folder / "tools.json"))
    return {
        "servers": {"a": field(folder / "a", *options)},
        "clients": {"bot": {"key": KEY}},
        "policies": list(policies),
        "audit": {"payload": "conditions"},
    }


def policy(name: str, **rules: object) -> Json:
    return {"name": name, "clients": ["bot"], **rules}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_same_call_again_is_refused_and_reaches_no_server(era: EraName, tmp_path: Path) -> None:
    repeats = policy("once", allow=["a/*"], duplicates={"window": "60s", "action": "refuse"})
    async with serving_beside(tmp_path, config(tmp_path, era, repeats), "a") as gateway:
        async with wire.http_client(gateway.url, era, KEY) as client:
            first = await wire.call(client, "a__order", {"item": 1, "to": "x"})
            assert "isError" not in first.result
            again = await wire.call(client, "a__order", {"to": "x", "item": 1})
            assert (again.refusal["reason"], again.refusal["mayHaveRun"]) == ("duplicate", False)
            for name, arguments in (("a__order", {"item": 2, "to": "x"}), ("a__look", {"item": 1, "to": "x"})):
                assert "isError" not in (await wire.call(client, name, arguments)).result
        assert len(lines(tmp_path / "log", "tools/call")) == 3
        [denied] = [record for record in gateway.records() if record["event"] == "call.denied"]
        first_id = next(record["call_id"] for record in gateway.records() if record["event"] == "call.start")
        assert denied["outcome"]["error_type"] == "duplicate"
        assert denied["outcome"]["detail"] == f"once: repeats {first_id}"


async def test_what_a_gateway_recorded_is_asked_of_a_changed_policy(tmp_path: Path) -> None:
    """G036, S61: what a reload takes away is gone at once, and the log says whom it would have met."""
    before = policy("p", allow=[{"tools": "a/order", "when": "args.n <= 10"}, "a/look"])
    after = policy("p", allow=[{"tools": "a/order", "when": "args.n <= 5"}])
    candidate = tmp_path / "candidate.yaml"
    candidate.write_text(json.dumps({"policies": [after]}))
    async with (
        serving_beside(tmp_path, config(tmp_path, "legacy", before), "a") as gateway,
        wire.http_client(gateway.url, "legacy", KEY) as client,
    ):
        for number in (1, 7, 12):
            await wire.call(client, "a__order", {"n": number})
        await wire.call(client, "a__look", {"n": 1})
        asked = [COMMAND, "policy", "replay", "--json", "--candidate", candidate, gateway.audit]
        done = subprocess.run([*map(str, asked)], capture_output=True, timeout=60, check=False)
        assert done.returncode == 1, done.stderr
        value = json.loads(done.stdout)
        assert (value["judged"], value["undecidable"]) == (4, 0)
        changed = [(change["name"], change["before"]["rule"], change["after"]["reason"]) for change in value["changes"]]
        assert changed == [("order", "allow[0]", "condition"), ("look", "allow[1]", "default_deny")]

        gateway.reload(config(tmp_path, "legacy", after))
        names = {tool["name"] for tool in await wire.every(client, "tools/list", "tools")}
        assert names == {"a__order"}
        assert (await wire.call(client, "a__look", {})).error["code"] == -32602
        assert (await wire.call(client, "a__order", {"n": 7})).refusal["reason"] == "denied"


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("name", ["bot", "key:bot"])
async def test_what_a_client_calls_itself_opens_nothing(
    era: EraName, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S54: the name of a client that may, told by one that may not."""
    settings = config(tmp_path, era, policy("p", allow=["a/*"]))
    settings["clients"]["guest"] = {"key": GUEST}
    monkeypatch.setitem(wire.INFO, "name", name)
    async with serving_beside(tmp_path, settings, "a") as gateway:
        async with wire.http_client(gateway.url, era, GUEST) as guest:
            assert await wire.every(guest, "tools/list", "tools") == []
            assert (await wire.call(guest, "a__look")).error["code"] == -32602
        async with wire.http_client(gateway.url, era, KEY) as bot:
            assert "isError" not in (await wire.call(bot, "a__look")).result
