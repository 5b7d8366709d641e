"""What the matrix shares: one gateway in front of every real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.gateway import serving
from tests.kit.peers import Farm, http_peers, stdio_peers


@pytest.fixture(scope="session")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    """Serve every real server through one gateway, without clients or policies."""
    folder = tmp_path_factory.mktemp("farm")
    with http_peers(folder) as listening:
        peers = {peer.name: peer for peer in [*stdio_peers(folder), *listening]}
        servers = {name: peer.config for name, peer in peers.items()}
        with serving(folder / "gateway", {"servers": servers}) as gateway:
            gateway.await_servers(*peers)
            yield Farm(gateway, peers)
