"""What three gateways serve in the tests and stress runs of replicas: a server of each kind, and who may call what."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.kit.cluster import Cluster, clustered, scripted
from tests.matrix.cells import configs, listening_peers

Json: TypeAlias = dict[str, Any]

KEYS: Final = {name: f"{name}-".ljust(40, "k") for name in ("bot", "other", "paced", "hasty")}
ALICE: Final = "alice-token-0123456789"
CURIOUS: Final = ("legacy-http__ask", "modern-http__ask", "own__asks")
"""Tools whose servers ask: one over HTTP of each era, and one in a process of each gateway's own."""
PLAIN: Final = ("plain__echo", "modern-http__echo")
SERVERS: Final = ("modern-http", "legacy-http", "own", "plain")
HASTE: Final = 20
"""Calls a second that one client may make, over all replicas."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The gateways and the folder of their servers."""

    cluster: Cluster
    folder: Path


def config(servers: Json) -> Json:
    return {
        # A call whose client was cut off with its answer waits for so long.
        "servers": {
            name: {**server, "pin": {"mode": "warn"}, "timeouts": {"asks": "8s"}} for name, server in servers.items()
        },
        "clients": {name: {"key": key} for name, key in KEYS.items()},
        "policies": [
            {
                "name": "all",
                "clients": ["*"],
                "allow": ["any:*/**"],
                "approve": [{"tools": "plain/whoami", "by": ["alice"], "hold": "30s", "timeout": "10m"}],
            },
            {"name": "haste", "clients": ["hasty"], "limits": [{"rate": f"{HASTE}/second", "tools": ["plain/echo"]}]},
            {"name": "pace", "clients": ["paced"], "limits": [{"rate": "20/hour", "tools": ["plain/echo"]}]},
        ],
        "admin": {
            "users": {
                "alice": {"token_sha256": hashlib.sha256(ALICE.encode()).hexdigest(), "roles": ["view", "approve"]}
            }
        },
        "limits": {"requests": "100000/second", "sessions": 200, "in_flight": 200},
        "listen": {"linger": "500ms"},
        "naming": {"page_size": 5},
    }


@contextmanager
def staged(folder: Path) -> Iterator[Scene]:
    """Run everything for a block."""
    with ExitStack() as stack:
        peers = stack.enter_context(listening_peers(folder))
        servers = configs(folder, peers, "", (("modern", "http"), ("legacy", "http")), asks=["elicitation"])
        servers["own"] = scripted(folder / "own", "--era", "legacy", "slow=0", asks=["elicitation"])
        servers["plain"] = scripted(folder / "plain", "slow=0")
        peers.listening()
        cluster = stack.enter_context(clustered(folder / "gateways", config(servers)))
        for gateway in cluster.gateways:
            gateway.token = ALICE
        cluster.await_servers(*SERVERS)
        yield Scene(cluster, folder)
