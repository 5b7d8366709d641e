"""Several gateway processes as one: a store and a database they share, a balancer in front, servers behind."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.kit import postgres, valkey
from tests.kit.balancer import Balancer, Place, balancing
from tests.kit.gateway import ROOT, Gateway
from tests.kit.valkey import Valkey

Json: TypeAlias = dict[str, Any]

SEALING: Final = "cluster-sealing-key-as-long-as-it-has-to-be"
SCRIPTED: Final = ROOT / "tests" / "kit" / "stdio_server.py"


@dataclass(slots=True)
class Cluster:
    """Gateways that share everything but their own logs."""

    gateways: list[Gateway]
    balancer: Balancer
    store: Valkey
    database: str

    @property
    def url(self) -> str:
        """Where clients go."""
        return self.balancer.url

    def replica(self, gateway: Gateway) -> str:
        """Return the id of a running gateway."""
        identifier: str = gateway.status()["replica"]
        return identifier

    def await_servers(self, *names: str) -> None:
        """Wait until all servers are up at all gateways, and the balancer knows."""
        for gateway in self.gateways:
            gateway.await_servers(*names)

    def records(self) -> list[Json]:
        """Return the records of all logs, in the order of their times."""
        found = [record for gateway in self.gateways for record in gateway.records()]
        return sorted(found, key=lambda record: str(record["ts"]))

    def unbalanced(self) -> dict[str, Counter[str]]:
        """Return the calls that did not begin and end exactly once over all logs, with what there is of each.

        Those that were just being passed on when a gateway was killed are ``passed_on``.
        """
        passed_on = self.passed_on()
        events: dict[str, Counter[str]] = {}
        for record in self.records():
            if "call_id" in record:
                events.setdefault(record["call_id"], Counter())[record["event"]] += 1
        return {
            call: counted
            for call, counted in events.items()
            if (counted["call.start"] or counted["call.end"] or counted["call.orphaned"])
            and (counted["call.start"], counted["call.end"] + counted["call.orphaned"] - (call in passed_on)) != (1, 1)
        }

    def passed_on(self) -> set[str]:
        """Return the calls that one log says are orphaned and another one says have ended.

        No two logs can change at one moment: where a gateway is killed in the milliseconds in which a call goes on at
        another one, each says what it knows (docs/scaling.md).
        """
        found: set[str] = set()
        logs = [gateway.records() for gateway in self.gateways]
        for log in logs:
            orphans = {record["call_id"] for record in log if record["event"] == "call.orphaned"}
            others = [record for other in logs if other is not log for record in other]
            found |= orphans & {record["call_id"] for record in others if record["event"] == "call.end"}
        return found

    def verify(self) -> None:
        """Have every log checked by the command line tool."""
        for gateway in self.gateways:
            done = gateway.cli("audit", "verify", gateway.audit)
            assert done.returncode == 0, done.stdout + done.stderr


def scripted(folder: Path, *modes: str, **more: object) -> Json:
    """Return the entry of a scripted stdio server that works in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments = ["-I", "-S", str(SCRIPTED), "--name", folder.name, *modes]
    return {"command": sys.executable, "args": arguments, "cwd": str(folder), **more}


def shared(config: Mapping[str, Any], store: str, database: str) -> Json:
    """Return the config of one of several gateways."""
    state = {"dir": "state", "url": store, "database": database, "sealing_keys": ["${SEALING_KEY}"]}
    return {
        **config,
        "state": {**state, **config.get("state", {})},
        # All read the same text, as replicas do.
        "listen": {**config.get("listen", {}), "port": "${PORT}"},
        "admin": {**config.get("admin", {}), "port": "${ADMIN_PORT}"},
    }


def placed(folder: Path, config: Mapping[str, Any]) -> Gateway:
    """Return one of several gateways, not started yet."""
    folder.mkdir()
    gateway = Gateway(folder, config)
    own = {"PORT": str(gateway.port), "ADMIN_PORT": str(gateway.admin_port), "SEALING_KEY": SEALING}
    gateway.environment |= own
    return gateway


@contextmanager
def clustered(folder: Path, config: Mapping[str, Any], count: int = 3) -> Iterator[Cluster]:
    """Run gateways with the same config for a block."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        store = stack.enter_context(valkey.running())
        database, _ = stack.enter_context(postgres.running(folder))
        gateways = []
        for number in range(count):
            gateways.append(placed(folder / f"replica-{number}", shared(config, store.url, database)))
            stack.callback(gateways[-1].stop)
        # The first makes what all share; the others may come at once.
        gateways[0].start()
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda gateway: gateway.start(), gateways[1:]))
        places = [Place(each.url, f"http://127.0.0.1:{each.admin_port}/readyz") for each in gateways]
        balancer = stack.enter_context(balancing(places))
        yield Cluster(gateways, balancer, store, database)


def outcome(message: Json) -> str:
    """Say in one word how a call ended for its client."""
    if "error" in message:
        return f"error {message['error'].get('code')}"
    result = message.get("result") or {}
    refusal = (result.get("_meta") or {}).get("dev.mcp-gateway/refusal")
    if refusal is not None:
        return f"{refusal['reason']}{' may have run' if refusal['mayHaveRun'] else ''}"
    return "ok" if result else f"nothing: {json.dumps(message)[:200]}"
