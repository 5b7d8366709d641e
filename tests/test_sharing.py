"""The store a config asks for, and what is said when a shared one goes and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gateway.config.loader import load
from gateway.protocol.rawjson import Object
from gateway.sharing import Sharing, trouble
from gateway.state.fallback import FallbackStore
from gateway.state.memory import MemoryStore
from gateway.tasks import TaskSet
from gateway.telemetry.metrics import Metrics
from tests.kit import valkey
from tests.kit.config_files import write


@dataclass
class Made:
    """A store, and what was said of it."""

    sharing: Sharing
    metrics: Metrics
    records: list[Object] = field(default_factory=list)
    alerts: list[tuple[str, Object]] = field(default_factory=list)

    def degraded(self) -> bytes:
        """Return the metric."""
        lines = self.metrics.render("")[0].splitlines()
        return next(line for line in lines if line.startswith(b"mcp_gateway_ratelimit_degraded "))

    async def until(self, state: str) -> None:
        """Wait until it is as it should be."""
        async with asyncio.timeout(5):
            while self.sharing.status()["state"] != state:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def sharing(folder: Path, state: str) -> AsyncIterator[Made]:
    """Make the store of a config, for a block."""
    crashes: list[str] = []
    tasks = TaskSet(lambda name, error: crashes.append(f"{name}: {error!r}"))
    loaded = load(write(folder, f"state: {{{state}}}\n"), {"PW": "canary-pw", "KEY": "k" * 32})
    metrics, records, alerts = Metrics(), list[Object](), list[tuple[str, Object]]()
    made = Sharing(loaded, tasks, metrics, records.append, lambda kind, facts: alerts.append((kind, facts)))
    await made.start()
    try:
        yield Made(made, metrics, records, alerts)
    finally:
        await made.aclose()
        await tasks.aclose()
    assert crashes == []


async def test_without_a_url_state_is_this_processs_own_and_always_there(tmp_path: Path) -> None:
    async with sharing(tmp_path, "url: 'memory://'") as made:
        assert isinstance(made.sharing.store, MemoryStore)
        assert made.sharing.status() == {"kind": "memory", "state": "up"}
        assert (made.records, made.alerts, made.degraded()) == ([], [], b"mcp_gateway_ratelimit_degraded 0.0")


@valkey.needed
async def test_an_outage_is_told_once_in_the_log_the_audit_log_the_metrics_and_as_an_alert(tmp_path: Path) -> None:
    """S85."""
    with valkey.running("--requirepass", "canary-pw") as server:
        url = f"redis://:${{PW}}@127.0.0.1:{server.port}"
        async with sharing(tmp_path, f"url: '{url}', sealing_keys: ['${{KEY}}']") as made:
            assert isinstance(made.sharing.store, FallbackStore)
            await made.until("up")
            assert made.sharing.status()["kind"] == "shared"
            assert made.degraded() == b"mcp_gateway_ratelimit_degraded 0.0"
            before = len(made.records)
            server.stop()
            await made.until("degraded")
            assert made.sharing.status()["reason"] == "lost"
            assert made.degraded() == b"mcp_gateway_ratelimit_degraded 1.0"
            assert made.records[before:] == [{"event": "store.degraded", "store": {"reason": "lost"}}]
            assert made.alerts[-1] == ("store_degraded", {"name": "lost"})
            server.start()
            await made.until("up")
            assert made.degraded() == b"mcp_gateway_ratelimit_degraded 0.0"
            assert made.records[before + 1 :] == [{"event": "store.recovered", "store": {}}]
            said = repr((made.records, made.alerts, made.sharing.status()))
            assert "canary" not in said


@valkey.needed
async def test_whether_it_can_be_used_can_be_asked_beforehand(tmp_path: Path) -> None:
    environ = {"KEY": "k" * 32}
    with valkey.running("--requirepass", "pw") as server:
        for url, said in (
            ("memory://", ""),
            (f"redis://:pw@127.0.0.1:{server.port}", ""),
            (f"redis://127.0.0.1:{server.port}", "refused"),
            (f"redis://127.0.0.1:{valkey.free_port()}", "unreachable"),
        ):
            loaded = load(write(tmp_path, f"state: {{url: '{url}', sealing_keys: ['${{KEY}}']}}\n"), environ)
            assert await trouble(loaded) == said


@valkey.needed
async def test_a_start_without_the_store_is_a_start(tmp_path: Path) -> None:
    nowhere = f"redis://127.0.0.1:{valkey.free_port()}"
    async with sharing(tmp_path, f"url: '{nowhere}', sealing_keys: ['${{KEY}}']") as made:
        assert made.sharing.status()["state"] == "degraded"
        assert made.degraded() == b"mcp_gateway_ratelimit_degraded 1.0"
        assert [record["event"] for record in made.records] == ["store.degraded"]
